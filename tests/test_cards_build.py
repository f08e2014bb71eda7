"""Building cards: what they say, that they say it the same way every time, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from importlib import resources
from typing import Any

import numpy as np
import pytest
from card_cases import PROVENANCE, card, episode, inputs
from jsonschema import Draft202012Validator
from metric_cases import TASK, ledger, market, nav_ledger, spec, step

from ktdeval.cards.build import build_card
from ktdeval.cards.check import load_schema, validate_card
from ktdeval.errors import CardError, PluginError
from ktdeval.jsonio import dumps_pretty
from ktdeval.runner.spec import Window
from ktdeval.stats.metric import MetricValue
from ktdeval.stats.panel import panel_metric, panel_metrics


class Custom:
    """A metric as a plugin would give it, returning what it is told to."""

    name, formula, unit, better, source, headline = "custom", "custom/1: as told", "score", "higher", "a test", False
    range = (None, None)

    def __init__(self, result: Any) -> None:
        self.result = result

    def compute(self, *_: object) -> Any:
        return self.result


def metric_values(of: dict[str, Any], name: str) -> list[float]:
    return [entry["metrics"][name]["value"] for entry in of["episodes"]]


# -- what a card says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [card(), card((0, 1, 2), {1}), card(limit=3), card(rules="paper"), card((0, 1), {0, 1}), card(snapshot=market(), metrics=[])],
    ids=["one episode", "a missing episode", "limited", "paper rules", "every episode missing", "no metrics"],
)
def test_what_is_built_is_valid(made: dict[str, Any]) -> None:
    validate_card(made)
    assert made == json.loads(dumps_pretty(made))


def test_equal_inputs_in_any_order_give_the_same_bytes_apart_from_provenance() -> None:
    first, again = inputs((3, 1, 2, 0), {2}), inputs((3, 1, 2, 0), {2})
    chance = random.Random(0)
    mixed = {name: chance.sample(list(getattr(again, name)), len(getattr(again, name))) for name in ("specs", "ledgers", "metrics")}
    other = build_card(dataclasses.replace(again, **mixed, provenance={**PROVENANCE, "wall_time_s": 99.0}))
    one = build_card(first)
    assert one["provenance"] != other["provenance"]
    assert dumps_pretty(one | {"provenance": 0}) == dumps_pretty(other | {"provenance": 0})


def test_a_headline_is_the_median_over_episodes_with_the_interquartile_range() -> None:
    made = card((0, 1, 2, 3))
    values = metric_values(made, "total_return")
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    headline = made["metrics"]["total_return"]
    assert (headline["n"], headline["value"]) == (4, pytest.approx(middle, rel=1e-12))
    assert headline["interval"] == {
        "kind": "interquartile",
        "low": pytest.approx(low, rel=1e-12),
        "high": pytest.approx(high, rel=1e-12),
    }


def test_one_episode_has_its_own_value_and_its_own_interval_over_days() -> None:
    headline, own = card()["metrics"]["total_return"], card()["episodes"][0]["metrics"]["total_return"]
    assert (headline["value"], headline["interval"]) == (own["value"], own["interval"])
    assert own["interval"]["reason"] == "fewer than 20 days"  # of a five-day window there is nothing to resample
    assert "interval" not in card()["metrics"]["turnover"]


def test_episodes_where_a_metric_is_undefined_are_left_out_of_the_median_and_counted() -> None:
    specs = [spec(seed) for seed in (0, 1)]
    idle = ledger([step(number, 1000) for number in range(5)], 1000, specs[1])
    made = card((0, 1), ledgers=[episode(specs[0]), idle])
    assert made["metrics"]["hhi"]["n"] == 1
    assert made["metrics"]["hhi"]["undefined"] == {"nothing was ever held": 1}
    assert made["metrics"]["hhi"]["value"] == metric_values(made, "hhi")[0]


def test_a_metric_that_is_undefined_everywhere_is_null_with_its_reason() -> None:
    idle = ledger([step(number, 1000) for number in range(5)], 1000, spec())
    headline = card(ledgers=[idle])["metrics"]["ece"]
    assert (headline["value"], headline["n"], headline["reason"]) == (None, 0, "no filled order with a next open")


def test_a_card_without_a_finished_episode_has_no_figures_but_says_what_is_missing() -> None:
    made = card((0, 1), {0, 1})
    assert made["metrics"]["sharpe"]["reason"] == "no finished episode"
    assert [entry["error"] for entry in made["missing_episodes"]] == ["the model call failed"] * 2
    assert made["coverage"] == {"episodes_planned": 2, "episodes_finished": 0, "steps": 0, "steps_decided": 0}


def test_counts_are_sums_over_episodes() -> None:
    made = card((0, 1))
    assert made["decisions"] == {"model": 8, "model_after_retry": 2, "fallback": 0, "error": 0}
    assert made["failures"] == {"schema": 2}
    assert made["orders"] == {"submitted": 20, "filled": 10, "partially_filled": 0, "rejected": 10, "rules": {"price_limit": 10}}
    assert made["usage"] == {"input_tokens": 100, "output_tokens": 20, "tool_calls": 40, "tool_calls_valid": 30, "submissions": 20}


def test_the_reference_buys_the_benchmark_at_the_close_before_the_window() -> None:
    reference = card()["reference"]["benchmark_buy_and_hold"]["long"]
    # 100 at the close of 2 January, 103 at the close of 9 January, 101 to 99 on the way.
    assert (reference["base_day"], reference["last_day"]) == ("2024-01-02", "2024-01-09")
    assert reference["metrics"]["total_return"] == {"value": pytest.approx(0.03, abs=1e-15), "n": 5}
    assert reference["metrics"]["max_drawdown"]["value"] == pytest.approx(2 / 101, abs=1e-15)


def test_the_reference_of_a_limited_card_covers_the_same_days_as_its_episodes() -> None:
    reference = card(limit=3)["reference"]["benchmark_buy_and_hold"]["long"]
    assert (reference["last_day"], reference["metrics"]["total_return"]["n"]) == ("2024-01-05", 3)


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (card(), ["synthetic", "mask not certified"]),
        (card((0, 1), {1}, limit=3), ["synthetic", "limited", "incomplete", "mask not certified"]),
        (card(snapshot=market(synthetic=False)), ["mask not certified"]),
        (card(snapshot=market(synthetic=False, has_factor=False)), ["mask not certified", "no adjustment factor"]),
        (card(specs=[spec(mask="bright")], ledgers=[episode(spec(mask="bright"))]), ["synthetic"]),
    ],
)
def test_labels_say_what_a_reader_must_know_first(made: dict[str, Any], labels: list[str]) -> None:
    assert made["labels"] == labels


def test_calibration_pools_the_orders_of_all_episodes() -> None:
    pooled, single = card((0, 1))["calibration"], card()["calibration"]
    assert (pooled["n"], pooled["no_fill"], pooled["no_next_open"]) == (2 * single["n"], 10, 2)
    assert sum(entry["n"] for entry in pooled["bins"]) == pooled["n"]


def test_the_rule_set_changes_the_figures_and_is_named() -> None:
    strict, paper = card(), card(rules="paper")
    assert (strict["rules"], paper["rules"]) == ("strict", "paper")
    changed = {name for name in strict["metrics"] if strict["metrics"][name]["value"] != paper["metrics"][name]["value"]}
    assert changed == {"turnover", "hhi"}


def test_a_plugin_metric_stands_beside_the_panel() -> None:
    made = card(metrics=[*panel_metrics(), Custom(MetricValue(0.25, 5, detail={"table": [1, 2]}))])
    assert made["metrics"]["custom"]["value"] == 0.25
    assert made["episodes"][0]["metrics"]["custom"]["detail"] == {"table": [1, 2]}


# -- what is refused ----------------------------------------------------------------------------------------------------


def short_ledger() -> Any:
    return ledger([step(number, 1000) for number in range(4)], 1000, spec())


REFUSED = {
    "no plan": ({"specs": [], "ledgers": []}, "at least one planned episode"),
    "a foreign ledger": ({"ledgers": [episode(spec(9))]}, "which the plan does not have"),
    "two ledgers of one episode": ({"ledgers": [episode(spec()), episode(spec())]}, "has two ledgers"),
    "an episode that vanished": ({"ledgers": []}, "has neither a ledger nor an error"),
    "an error of a finished episode": ({"missing_episodes": [{"id": spec().id, "error": "x"}]}, "is finished or was never planned"),
    "a part of an episode": ({"ledgers": [short_ledger()]}, "4 steps that are not the 5 trading days"),
    "another snapshot": ({"snapshot": market(benchmark=[1.0, 2, 3, 4, 5, 6])}, "its snapshot is not the card's"),
    "another model": ({"model": {"name": "builtin/hold", "args": {}}}, "its model is not the card's"),
    "other call parameters": ({"call": {}}, "its call is not the card's"),
    "a config that does not hash": ({"task": {**TASK, "name": "other"}}, "task_hash .* is not the content hash"),
    "one episode twice": ({"specs": [spec(), spec()]}, "is planned twice"),
    "one metric twice": ({"metrics": [panel_metric("ece"), panel_metric("ece")]}, "metric 'ece' is given twice"),
    "a table with NaN": ({"metrics": [Custom(MetricValue(1.0, 1, detail=[math.nan]))]}, "'episodes' is not strict JSON"),
    "one name for two windows": (
        {"specs": [spec(), spec(window=Window("long", "2024-01-04", "2024-01-09"))]},
        "window 'long' has two date ranges",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_contradict_each_other_are_refused(case: str) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(CardError, match=message):
        card(**changes)


def test_a_metric_that_returns_a_bare_number_breaks_the_plugin_contract() -> None:
    with pytest.raises(PluginError, match="metric 'custom' returned float"):
        card(metrics=[Custom(1.0)])


def test_a_ledger_with_a_day_of_another_market_is_refused() -> None:
    shifted = nav_ledger([1000] * 5)
    steps = [{**record, "filled_on": "2024-02-01"} for record in shifted.steps]
    with pytest.raises(CardError, match="are not the 5 trading days"):
        card(ledgers=[ledger(steps, 1000, spec())])


# -- the schema ---------------------------------------------------------------------------------------------------------


def test_the_schema_is_valid_draft_2020_12_and_is_installed_with_the_package() -> None:
    Draft202012Validator.check_schema(load_schema())
    assert resources.files("ktdeval.cards").joinpath("schema", "result-card-v1.json").is_file()


OPEN_OBJECTS = {"args", "call", "config", "environment"}
"""Objects whose fields belong to tasks, models, agents and machines, not to the card."""


def test_the_schema_closes_every_object_but_those_that_others_fill() -> None:
    found = set()

    def walk(schema: Any, name: str) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and "additionalProperties" not in schema:
                found.add(name)
            for key, entry in schema.items():
                walk(entry, key)

    walk(load_schema(), "card")
    assert found == OPEN_OBJECTS
