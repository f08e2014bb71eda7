"""Building cards: what they say, that they say it the same way every time, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from card_cases import PROVENANCE, card, episode, inputs, open_objects, remote_card, typed
from ktdeval.calls.prices import Price
from ktdeval.calls.record import ANSWERED, CallRecord, summarise_calls
from ktdeval.cards.card import TradingCard
from ktdeval.cards.check import validate_card
from ktdeval.cards.derive import decided_percent, trading_cost
from ktdeval.cards.parts import Coverage
from ktdeval.cards.schema import SCHEMA_FOLDER, SCHEMAS, card_schema
from ktdeval.cards.trading import build_card
from ktdeval.contracts.spec import Window
from ktdeval.errors import CardError, PluginError
from ktdeval.harness.messages import Usage
from ktdeval.jsonio import dumps_pretty
from ktdeval.stats.metric import MetricValue
from ktdeval.stats.panel import panel_metric, panel_metrics
from ktdeval_deanon.certificate.types import SCHEMA_FILE as CERTIFICATE_FILE, Certificate
from metric_cases import TASK, ledger, market, nav_ledger, spec, step
from scoring_cases import scoring_card


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
    other = build_card(dataclasses.replace(again, **mixed, provenance={**PROVENANCE, "wall_time_s": 99.0})).plain
    one = build_card(first).plain
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
    nothing = {"episodes_finished": 0, "steps": 0, "steps_decided": 0}
    assert made["coverage"] == {"episodes_planned": 2, "steps_planned": 10, **nothing}
    assert made["cost"]["per_episode"]["reason"] == "no finished episode"


def test_counts_are_sums_over_episodes() -> None:
    made = card((0, 1))
    assert made["decisions"] == {"model": 8, "model_after_retry": 2, "fallback": 0, "error": 0}
    assert made["failures"] == {"schema": 2}
    assert made["orders"] == {"submitted": 20, "filled": 10, "partially_filled": 0, "rejected": 10, "rules": {"price_limit": 10}}
    assert made["usage"] == {
        "input_tokens": 100,
        "output_tokens": 20,
        "reasoning_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "tool_calls": 40,
        "tool_calls_valid": 30,
        "submissions": 20,
    }


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
        (card((0, 1), {1}, limit=3), ["synthetic", "limited", "incomplete", "low coverage", "mask not certified"]),
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


# -- whether it may be ranked -------------------------------------------------------------------------------------------


def decided(steps: int, of: int = 20) -> dict[str, Any]:
    """A card over four episodes of five days, of whose steps the model decided the first few."""
    specs = [spec(seed) for seed in range(of // 5)]
    ledgers = []
    for place, each in enumerate(specs):
        own = range(5 * place, 5 * place + 5)
        who = ["model" if number < steps else "error" for number in own]
        ledgers.append(ledger([step(number, 1000, provenance=provenance) for number, provenance in enumerate(who)], 1000, each))
    return card(range(of // 5), ledgers=ledgers)


def test_a_card_is_rankable_from_95_percent_of_steps_decided_by_the_model() -> None:
    assert decided(20)["rankable"] == {"value": True, "reasons": []}
    assert decided(19)["rankable"] == {"value": True, "reasons": []}
    short = decided(18)
    assert short["rankable"] == {"value": False, "reasons": ["the model decided 90.0 % of 20 steps; 95 % are needed"]}
    assert "low coverage" in short["labels"]
    assert "low coverage" not in decided(19)["labels"]


def test_a_share_just_below_the_limit_is_not_rounded_up_to_it() -> None:
    assert decided(189, 200)["rankable"]["reasons"] == ["the model decided 94.5 % of 200 steps; 95 % are needed"]
    assert (
        decided_percent(Coverage(episodes_planned=1, episodes_finished=1, steps_planned=10_000, steps=10_000, steps_decided=9496))
        == "94.9"
    )


def test_missing_episodes_count_as_steps_that_the_model_did_not_decide() -> None:
    made = card((0, 1, 2), {1})
    assert made["rankable"]["reasons"] == [
        "1 of 3 episodes did not finish",
        "the model decided 66.6 % of 15 steps; 95 % are needed",
    ]


def test_a_card_of_cut_episodes_is_not_rankable() -> None:
    assert card(limit=3)["rankable"] == {"value": False, "reasons": ["every episode was cut after 3 steps"]}


# -- what it cost -------------------------------------------------------------------------------------------------------

PRICE = Price(2.0, 8.0, cache_read=0.5, as_of="2026-01-02", source="a price list").to_json()


def paid_card(seeds: Sequence[int] = (0, 1), **changes: Any) -> dict[str, Any]:
    """A card of a model with a provider; in each of five steps it reads 10 tokens and writes 2."""
    call = {"temperature": 0.7, "tool_protocol": "native"}
    specs = [spec(seed, call=call) for seed in seeds]
    return card(seeds, **{"call": call, "specs": specs, "ledgers": [episode(each) for each in specs], "price": PRICE} | changes)


def test_cost_is_usage_times_price() -> None:
    made = paid_card()
    assert made["cost"]["value"] == pytest.approx(2 * (50 * 2.0 + 10 * 8.0) / 1e6, rel=1e-12)
    assert (made["cost"]["currency"], made["cost"]["price"]) == ("USD", PRICE)
    assert made["cost"]["per_episode"]["value"] == pytest.approx(180e-6, rel=1e-12)


def test_tokens_of_the_providers_prompt_cache_have_their_own_price() -> None:
    of = paid_card((0,))
    of["episodes"][0]["usage"] |= {"cache_read_tokens": 30, "cache_write_tokens": 10}
    read = typed(of)
    assert isinstance(read, TradingCard)
    made = trading_cost(read.episodes, read.cost.price or None)
    assert made.value == pytest.approx((10 * 2.0 + 30 * 0.5 + 10 * 2.0 + 10 * 8.0) / 1e6, rel=1e-12)


def test_return_per_dollar_is_the_median_over_episodes() -> None:
    made = paid_card((0, 1, 2))
    gains = [value / 180e-6 for value in metric_values(made, "total_return")]
    assert made["cost"]["return_per_usd"]["value"] == pytest.approx(sorted(gains)[1], rel=1e-12)
    assert made["cost"]["return_per_usd"]["n"] == 3


def test_return_per_dollar_says_why_there_is_none() -> None:
    undefined = paid_card(metrics=[panel_metric("ece")])["cost"]["return_per_usd"]
    assert (undefined["value"], undefined["reason"]) == (None, "metric total_return was not asked for")
    free = card()["cost"]["return_per_usd"]
    assert (free["value"], free["reason"]) == (None, "the episode cost nothing")


def test_a_model_of_this_machine_costs_nothing() -> None:
    made = card()["cost"]
    assert (made["value"], made["price"]["source"]) == (0.0, "a model of this machine, which bills nothing")


def test_the_cost_of_a_provider_whose_price_is_not_known_is_null_and_not_nothing() -> None:
    made = paid_card(price=None)
    assert made["cost"] == {
        "value": None,
        "reason": "no price of the model is known; give one with --price or --price-table",
    }
    validate_card(made)


# -- what was asked of a provider ---------------------------------------------------------------------------------------


def test_calls_stand_in_the_provenance_so_that_a_run_from_the_cache_gives_the_same_card() -> None:
    calls = summarise_calls([CallRecord("2026-01-02T03:04:05Z", spec().id, "k", ANSWERED, 1, 2.0, Usage(10, 2), 0.1)], {spec().id})
    made, other = card(calls=calls), card()
    assert (made["provenance"]["calls"], other["provenance"]["calls"]) == (calls, None)
    assert made | {"provenance": 0} == other | {"provenance": 0}
    validate_card(made)


def test_drift_is_kept_as_it_was_found_or_null_with_a_reason() -> None:
    found = {"value": 0.25, "noise": 0.125, "excess": 0.125, "prompts": 6, "served_by_changed": True}
    assert card(drift=found)["drift"] == found
    validate_card(card(drift=found))
    assert card()["drift"] == {"value": None, "reason": "no fixed questions were asked"}


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
    steps = [structs.replace(record, filled_on="2024-02-01") for record in shifted.steps]
    with pytest.raises(CardError, match="are not the 5 trading days"):
        card(ledgers=[dataclasses.replace(shifted, steps=steps)])


# -- the schemas --------------------------------------------------------------------------------------------------------


def test_the_schemas_are_those_of_the_types_and_close_every_object_but_those_that_others_fill() -> None:
    """Objects whose fields belong to tasks, models, agents and machines are open; `python -m ktdeval.cards.schema` writes them."""
    for file, (card_type, name) in {**SCHEMAS, "certificate-v1.json": (Certificate, "certificate")}.items():
        made = card_schema(card_type, name)
        folder = CERTIFICATE_FILE.parent if name == "certificate" else SCHEMA_FOLDER
        assert json.loads((folder / file).read_text()) == made, f"{file} is not current"
        Draft202012Validator.check_schema(made)
        own = {"data_args", "harness"} if name == "certificate" else {"config", "detail"} if name == "scoring-card" else {"config"}
        own |= {"request_settings", "sent_as", "value"} & open_objects(made)
        assert open_objects(made) == {"args", "call", "environment"} | own


@pytest.mark.parametrize("made", [card((0, 1), {1}), remote_card(), scoring_card((0, 1))], ids=["trading", "remote", "scoring"])
def test_a_typed_card_gives_the_json_it_was_read_from(made: dict[str, Any]) -> None:
    assert typed(made).plain == made
    assert dumps_pretty(typed(made).plain) == dumps_pretty(made)
