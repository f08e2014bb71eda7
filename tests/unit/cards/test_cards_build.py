"""Building cards of both kinds: what they say, that they say it the same way every time, and what
is refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from functools import partial
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from jsonschema import Draft202012Validator
from msgspec import structs

from ktdeval.calls.records.call_counts import call_figures
from ktdeval.calls.records.record import ANSWERED, CallRecord
from ktdeval.cards.assembly import build_card, build_scoring_card
from ktdeval.cards.card_reading import parse_card, validate_card
from ktdeval.cards.fields.knowledge.cutoff import SEEN, SPANS, cutoff_words
from ktdeval.cards.fields.origin.fact_types import Pluggable
from ktdeval.cards.schema import SCHEMA_FOLDER, SCHEMAS, card_schema
from ktdeval.errors import CardError, PluginError
from ktdeval.harness.chat_messages import Usage
from ktdeval.stats.metric import MetricValue
from ktdeval.stats.metric_panel import panel_metric, panel_metrics
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.scoring import Score
from ktdeval.testing import errors_of, on_each_row
from ktdeval.values import content_hash, dumps_pretty
from ktdeval_deanon.certificate.types import SCHEMA_FILE as CERTIFICATE_FILE, Certificate
from support.figures.card_cases import (
    CALLS,
    PRICE,
    card,
    episode,
    inputs,
    open_objects,
    paid,
    remote_card,
    typed,
)
from support.figures.metric_cases import TASK as SUBJECT, ledger, market, nav_ledger, spec, step
from support.figures.scoring_cases import (
    CARDS,
    TASK,
    answers,
    record,
    score_spec,
    scoring_card,
    scoring_inputs,
)

REAL = market(synthetic=False)
PRICES = "identifiable by its prices"
STEERED = {**TASK, "never_ranked": "a person steered it"}
BY_ACCOUNT = {**TASK, "identifiable_by_account": True}
BARE = market(synthetic=False, has_factor=False)
IDLE = ledger([step(number, 1000) for number in range(5)], 1000, spec())


class Custom:
    """A metric as a plugin would give it, returning what it is told to."""

    name, formula, unit, better, source, headline = (
        "custom",
        "custom/1: as told",
        "score",
        "higher",
        "a test",
        False,
    )
    range = (None, None)

    def __init__(self, result: Any) -> None:
        self.result = result

    def compute(self, *_: object) -> Any:
        return self.result


# ---- cards of both kinds


@pytest.mark.parametrize(
    "made",
    [
        *(
            make(*given)
            for make in (card, scoring_card)
            for given in ((), ((0, 1, 2), {1}), ((0,), (), 3), ((0, 1), {0, 1}))
        ),
        card(rules="paper"),
        card(snapshot=market(), metrics=[]),
        remote_card(),
        remote_card(price=None),
        scoring_card(**paid(), calls=CALLS),
        scoring_card(**paid(price=None)),
    ],
)
def test_a_built_card_is_valid_and_equal_in_its_file_and_as_a_type(
    made: dict[str, Any],
) -> None:
    validate_card(made)
    assert made == json.loads(dumps_pretty(made)) == typed(made).plain
    assert dumps_pretty(typed(made).plain) == dumps_pretty(made)


@pytest.mark.parametrize(
    ("given", "build", "unordered"),
    [
        (inputs, build_card, ("specs", "ledgers", "metrics")),
        (scoring_inputs, build_scoring_card, ("specs", "answers")),
    ],
)
def test_equal_inputs_in_any_order_give_the_same_bytes_except_provenance(
    given: Any, build: Any, unordered: Any
) -> None:
    first = given((3, 1, 2, 0), {2})
    again = given((3, 1, 2, 0), {2})
    chance = random.Random(0)
    mixed = {
        name: chance.sample(list(getattr(again, name)), len(getattr(again, name)))
        for name in unordered
    }
    one = build(first).plain
    other = build(
        dataclasses.replace(
            again, **mixed, provenance=structs.replace(again.provenance, wall_time_s=99.0)
        )
    ).plain

    assert one["provenance"] != other["provenance"]
    assert dumps_pretty(one | {"provenance": 0}) == dumps_pretty(other | {"provenance": 0})


@on_each_row(
    "date, limit, days, label",
    # returns of 3 to 9 January, the first from the close of the 2nd; 6 and 7 are a weekend
    ("2024-01-05", None, [3, 0, 2], "spans cutoff"),
    ("2024-01-06", None, [3, 1, 1], "spans cutoff"),
    ("2024-01", None, [0, 5, 0], "spans cutoff"),
    ("2024-01-02", None, [0, 0, 5], None),
    ("2023-12", None, [0, 0, 5], None),
    ("2024-01-09", None, [5, 0, 0], "before cutoff"),
    # cut before the cutoff
    ("2024-01-05", 3, [3, 0, 0], "before cutoff"),
)
def test_the_card_counts_days_before_across_and_after_the_cutoff(
    date: str, limit: Any, days: Any, label: str | None
) -> None:
    known = {"date": date, "confidence": "given", "source": "--knowledge-cutoff"}
    made, whole, scored = (
        make(knowledge_cutoff=known) for make in (partial(card, limit=limit), card, scoring_card)
    )
    validate_card(made)

    assert [
        made["knowledge_cutoff"]["windows"]["long"][side] for side in ("before", "across", "after")
    ] == list(days)
    assert [one for one in made["labels"] if "cutoff" in one] == ([label] if label else [])
    assert scored["knowledge_cutoff"] == whole["knowledge_cutoff"]
    assert (
        cutoff_words(typed(made))
        == f"{date} (given: --knowledge-cutoff); days: {days[0]} before, {days[1]} across,"
        f" {days[2]} after; windows { {SPANS: 'across', SEEN: 'before', None: 'after'}[label] }"
        " long"
    )

    plain_card = card((0,), (), limit)
    assert {**made, "knowledge_cutoff": 0, "labels": 0} == {
        **plain_card,
        "knowledge_cutoff": 0,
        "labels": 0,
    }
    assert "knowledge_cutoff" not in plain_card


def test_a_card_without_a_cutoff_states_none_or_unknown() -> None:
    unknown = "unknown: the end of its training data is not known"
    o3 = "2024-06-01 (vendor: https://developers.openai.com/api/docs/models/o3)"
    for name, state, expected in (
        ("builtin/momentum", "none", "none: nothing was trained"),
        ("builtin/memory", "unknown", unknown),
        ("house/one", "unknown", unknown),
        ("house/rule", "none", "none: nothing was trained"),
        ("builtin/momentum", "unknown", unknown),
        ("openai/o3", "unknown", f"{unknown}; the list has {o3}"),
    ):
        recorded = typed(card(knowledge_cutoff=state))
        assert (
            cutoff_words(structs.replace(recorded, model=Pluggable(name=name, args={}))) == expected
        )


def decided(steps: int, of: int = 20) -> dict[str, Any]:
    """A card over episodes of five days, of whose steps the model decided the first few."""
    ledgers = []
    for index in range(of // 5):
        who = ["model" if 5 * index + number < steps else "error" for number in range(5)]
        ledgers.append(
            ledger(
                [step(number, 1000, provenance=one) for number, one in enumerate(who)],
                1000,
                spec(index),
            )
        )

    return card(range(of // 5), ledgers=ledgers)


def card_of(task: dict[str, Any]) -> dict[str, Any]:
    """A card of a task with this config."""
    planned = dataclasses.replace(spec(), task_hash=content_hash(task))
    return card(task=task, specs=[planned], ledgers=[episode(planned)])


def test_cost_is_usage_times_price_and_null_where_no_price_is_known() -> None:
    made = remote_card((0, 1))["cost"]
    scores = scoring_card((0, 1), **paid())["cost"]

    assert made["value"] == pytest.approx(2 * (50 * 2.0 + 10 * 8.0) / 1e6, rel=1e-12)
    assert (made["currency"], made["price"]) == ("USD", PRICE)
    assert made["per_episode"]["value"] == pytest.approx(180e-6, rel=1e-12)
    assert scores["value"] == pytest.approx(2 * 20 * (10 * 2.0 + 2 * 8.0) / 1e6, rel=1e-12)
    assert scores["per_episode"]["value"] == pytest.approx(20 * 36e-6, rel=1e-12)
    assert scores.keys() == {"value", "currency", "price", "per_episode"}, "a probe earns nothing"

    unknown = {
        "value": None,
        "reason": "no price of the model is known; give one with --price or --price-table",
    }

    assert remote_card(price=None)["cost"] == unknown

    own = card()["cost"]
    assert (own["value"], own["price"]["source"]) == (
        0.0,
        "a model of this machine, which bills nothing",
    )
    assert scoring_card()["cost"]["value"] == 0.0


def metric_values(of: dict[str, Any], name: str) -> list[float]:
    return [entry["metrics"][name]["value"] for entry in of["episodes"]]


MADE = {
    **CARDS,
    "certified": lambda: card(snapshot=REAL, certificate={"value": {"labels": []}}),
    "certified with few answers": lambda: card(
        snapshot=REAL, certificate={"value": {"labels": ["few answers"]}}
    ),
    "without factor": lambda: card(snapshot=BARE),
    "bright": lambda: card(specs=[spec(mask="bright")], ledgers=[episode(spec(mask="bright"))]),
    "of an account in money": lambda: card_of(BY_ACCOUNT),
    "scoring without factor": lambda: scoring_card(snapshot=BARE),
    "20 of 20 steps decided": lambda: decided(20),
    "19 of 20 steps decided": lambda: decided(19),
    "18 of 20 steps decided": lambda: decided(18),
    "189 of 200 steps decided": lambda: decided(189, 200),
    "two of three episodes": lambda: card((0, 1, 2), {1}),
    "cut": lambda: card(limit=3),
    "18 of 20 samples decided": lambda: scoring_card(
        answers=[(score_spec(), answers(score_spec(), unanswered=2))]
    ),
    "of a task that is never ranked": lambda: scoring_card(
        task=STEERED, specs=[dataclasses.replace(score_spec(), task_hash=content_hash(STEERED))]
    ),
}


@on_each_row(
    "made, labels, reasons",
    ("trading", ["synthetic", "mask not certified", PRICES], []),
    (
        "trading, cut",
        ["synthetic", "limited", "incomplete", "low coverage", "mask not certified", PRICES],
        [
            "every episode was cut after 3 steps",
            "1 of 2 episodes did not finish",
            "the model decided 50.0 % of 6 steps; 95 % are needed",
        ],
    ),
    ("trading, real", ["mask not certified", PRICES], []),
    ("certified", ["certificate claimed", PRICES], []),
    ("certified with few answers", ["mask not certified", PRICES], []),
    ("without factor", ["mask not certified", PRICES, "no adjustment factor"], []),
    ("bright", ["synthetic"], []),
    # Probes are what certificates are made of: their cards lack none.
    (
        "of an account in money",
        ["synthetic", "mask not certified", "identifiable by its account", PRICES],
        [
            (
                "its account shows money, from which prices follow, and so the stocks and days "
                "that it hides"
            )
        ],
    ),
    ("scoring", ["synthetic"], []),
    (
        "scoring, cut",
        ["synthetic", "limited", "incomplete", "low coverage"],
        [
            "every episode was cut after 3 samples",
            "1 of 2 episodes did not finish",
            "the model decided 33.3 % of 6 samples; 95 % are needed",
        ],
    ),
    ("scoring without factor", ["no adjustment factor"], []),
    (
        "20 of 20 steps decided",
        ["synthetic", "never traded", "mask not certified", PRICES],
        ["the model never traded: none of its orders was filled in any episode"],
    ),
    (
        "19 of 20 steps decided",
        ["synthetic", "never traded", "mask not certified", PRICES],
        ["the model never traded: none of its orders was filled in any episode"],
    ),
    (
        "18 of 20 steps decided",
        ["synthetic", "low coverage", "never traded", "mask not certified", PRICES],
        [
            "the model decided 90.0 % of 20 steps; 95 % are needed",
            "the model never traded: none of its orders was filled in any episode",
        ],
    ),
    (
        "189 of 200 steps decided",
        ["synthetic", "low coverage", "never traded", "mask not certified", PRICES],
        [
            "the model decided 94.5 % of 200 steps; 95 % are needed",
            "the model never traded: none of its orders was filled in any episode",
        ],
    ),
    (
        "two of three episodes",
        ["synthetic", "incomplete", "low coverage", "mask not certified", PRICES],
        ["1 of 3 episodes did not finish", "the model decided 66.6 % of 15 steps; 95 % are needed"],
    ),
    (
        "cut",
        ["synthetic", "limited", "mask not certified", PRICES],
        ["every episode was cut after 3 steps"],
    ),
    (
        "18 of 20 samples decided",
        ["synthetic", "low coverage"],
        ["the model decided 90.0 % of 20 samples; 95 % are needed"],
    ),
    ("of a task that is never ranked", ["synthetic"], ["a person steered it"]),
)
def test_labels_state_main_caveats_and_ranking_needs_95_percent_decided(
    made: str, labels: list[str], reasons: list[str]
) -> None:
    of = MADE[made]()
    assert of["labels"] == labels
    assert of["rankable"] == {"value": not reasons, "reasons": reasons}
    assert ("low coverage" in labels) == any("95 % are needed" in reason for reason in reasons)


def test_calls_are_in_the_provenance_so_a_cached_run_gives_the_same_card() -> None:
    calls = call_figures(
        [CallRecord("2026-01-02T03:04:05Z", spec().id, "k", ANSWERED, 1, 2.0, Usage(10, 2), 0.1)],
        {spec().id},
    )
    made = card(calls=calls)
    other = card()

    assert (made["provenance"]["calls"], other["provenance"]["calls"]) == (calls, None)
    assert made | {"provenance": 0} == other | {"provenance": 0, "sent_as": {}}


def test_counts_are_sums_over_episodes_and_calibration_pools_their_orders() -> None:
    made = card((0, 1))
    single = card()["calibration"]

    assert made["decisions"] == {"model": 8, "model_after_retry": 2, "fallback": 0, "error": 0}
    assert made["failures"] == {"schema": 2}
    assert made["orders"] == {
        "submitted": 20,
        "filled": 10,
        "partially_filled": 0,
        "rejected": 10,
        "rules": {"price_limit": 10},
    }

    counted = {
        "input_tokens": 100,
        "output_tokens": 20,
        "tool_calls": 40,
        "tool_calls_valid": 30,
        "submissions": 20,
    }

    assert made["usage"] == {
        "reasoning_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        **counted,
    }

    pooled = made["calibration"]
    assert (pooled["n"], pooled["no_fill"], pooled["no_next_open"]) == (2 * single["n"], 10, 2)
    assert sum(entry["n"] for entry in pooled["bins"]) == pooled["n"]


def test_an_episode_states_its_seed_its_days_and_its_end() -> None:
    names = ("seed", "steps", "first_day", "last_day", "final_nav_minor")
    # On the last day 500 fen are cash, 200 the second asset and 328, with 80 more a seed, the
    # first.
    rows = [[entry[name] for name in names] for entry in card((0, 2))["episodes"]]

    assert sorted(rows) == [
        [0, 5, "2024-01-03", "2024-01-09", 1028],
        [2, 5, "2024-01-03", "2024-01-09", 1188],
    ]
    assert [[entry[name] for name in names] for entry in card(limit=3)["episodes"]] == [
        [0, 3, "2024-01-03", "2024-01-05", 1014]
    ]


def test_a_card_without_a_finished_episode_has_no_figures() -> None:
    made = card((0, 1), {0, 1})
    assert (
        made["metrics"]["sharpe"]["reason"]
        == made["cost"]["per_episode"]["reason"]
        == "no finished episode"
    )
    assert [entry["error"] for entry in made["missing_episodes"]] == ["the model call failed"] * 2

    nothing = {"episodes_finished": 0, "steps": 0, "steps_decided": 0}
    assert made["coverage"] == {"episodes_planned": 2, "steps_planned": 10, **nothing}


def test_episodes_where_a_metric_is_undefined_are_left_out_and_counted() -> None:
    idle = ledger([step(number, 1000) for number in range(5)], 1000, spec(1))
    made = card((0, 1), ledgers=[episode(spec(0)), idle])
    hhi = made["metrics"]["hhi"]

    assert (hhi["n"], hhi["undefined"]) == (1, {"nothing was ever held": 1})
    assert hhi["value"] == metric_values(made, "hhi")[0]

    none = card(ledgers=[IDLE])["metrics"]["ece"]
    assert (none["value"], none["n"], none["reason"]) == (
        None,
        0,
        "no filled order with a next open",
    )


def test_a_headline_is_the_median_with_quartiles_or_the_only_episodes_own() -> None:
    made = card((0, 1, 2, 3))
    low, middle, high = (
        pytest.approx(end, rel=1e-12)
        for end in np.quantile(metric_values(made, "total_return"), [0.25, 0.5, 0.75])
    )
    headline = made["metrics"]["total_return"]

    assert (headline["n"], headline["value"]) == (4, middle)
    assert headline["quartiles"] == {"low": low, "high": high}
    assert "interval" not in headline

    headline = card()["metrics"]["total_return"]
    own = card()["episodes"][0]["metrics"]["total_return"]

    assert (headline["value"], headline["interval"]) == (own["value"], own["interval"])
    # of a five-day window there is nothing to resample
    assert own["interval"]["reason"] == "fewer than 20 days"
    assert "interval" not in card()["metrics"]["turnover"]


# ---- trading cards


def test_reference_buys_at_the_close_before_the_window_for_the_same_days() -> None:
    reference = card()["reference"]["benchmark_buy_and_hold"]["long"]
    # 100 at the close of 2 January, 103 at the close of 9 January, 101 to 99 on the way.
    assert (reference["base_day"], reference["last_day"]) == ("2024-01-02", "2024-01-09")
    assert reference["metrics"]["total_return"] == {"value": pytest.approx(0.03, abs=1e-15), "n": 5}
    assert reference["metrics"]["max_drawdown"]["value"] == pytest.approx(2 / 101, abs=1e-15)

    limited = card(limit=3)["reference"]["benchmark_buy_and_hold"]["long"]
    assert (limited["last_day"], limited["metrics"]["total_return"]["n"]) == ("2024-01-05", 3)


@pytest.mark.parametrize("name", ["total_return", "sharpe", "max_drawdown", "volatility"])
def test_a_figure_of_the_benchmark_with_an_interval_is_refused(name: str) -> None:
    made = card()
    figure = made["reference"]["benchmark_buy_and_hold"]["long"]["metrics"][name]
    figure["interval"] = made["metrics"]["sharpe"]["interval"]
    words = rf"metrics\.{name}\.interval: is given; figures of the benchmark have no interval"

    with pytest.raises(CardError, match=words):
        parse_card(dumps_pretty(made), "card")


def test_the_rule_set_changes_the_figures_and_is_named() -> None:
    strict = card()
    paper = card(rules="paper")

    assert (strict["rules"], paper["rules"]) == ("strict", "paper")

    changed = {
        name
        for name in strict["metrics"]
        if strict["metrics"][name]["value"] != paper["metrics"][name]["value"]
    }

    assert changed == {"turnover", "hhi"}


def test_a_plugin_metric_is_listed_with_the_panel_and_fulfils_the_contract() -> None:
    made = card(metrics=[*panel_metrics(), Custom(MetricValue(0.25, 5, detail={"table": [1, 2]}))])
    assert made["metrics"]["custom"]["value"] == 0.25
    assert made["episodes"][0]["metrics"]["custom"]["detail"] == {"table": [1, 2]}

    with pytest.raises(PluginError, match="metric 'custom' returned float"):
        card(metrics=[Custom(1.0)])


def test_samples_are_counted_over_episodes() -> None:
    made = scoring_card((0, 1, 2), {1})
    assert made["decisions"] == {"model": 38, "model_after_retry": 0, "fallback": 2, "error": 0}
    assert made["failures"] == {"schema": 2}
    assert [episode["answered"] for episode in made["episodes"]] == [19, 19]
    assert (
        made["usage"]["input_tokens"],
        made["usage"]["tool_calls_valid"],
        made["usage"]["submissions"],
    ) == (400, 38, 40)

    steps = {"steps_planned": 60, "steps": 40, "steps_decided": 38}
    assert made["coverage"] == {"episodes_planned": 3, "episodes_finished": 2, **steps}

    # A decision of the model without an answer of its own is no answer.
    records = [record(0, answer=None, scores={}), *answers(score_spec())[1:]]
    made = scoring_card(answers=[(score_spec(), records)])

    assert (made["decisions"]["model"], made["coverage"]["steps_decided"]) == (19, 18)

    validate_card(made)


# ---- scoring cards


def test_target_task_is_recorded_by_name_and_hash_with_its_config() -> None:
    made = scoring_card()
    assert made["subject"] == {"name": "blinded_open_research", "hash": content_hash(SUBJECT)}
    assert made["task"]["config"]["subject_config"] == SUBJECT

    task = {name: value for name, value in TASK.items() if name != "subject_config"}
    specs = [score_spec(task_hash=content_hash(task))]
    alone = scoring_card(task=task, specs=specs)

    assert alone["subject"] is None

    validate_card(alone)


# ---- what is refused

SHORT = ledger([step(number, 1000) for number in range(4)], 1000, spec())
FOREIGN_DAY = dataclasses.replace(
    IDLE,
    steps=[structs.replace(one, filled_on="2024-02-01") for one in nav_ledger([1000] * 5).steps],
)
OTHER_WINDOW = Window("long", "2024-01-04", "2024-01-09")
FOREIGN = score_spec(9)
OWN = answers(score_spec())
TRADING: dict[str, tuple[dict[str, Any], str]] = {
    "no plan": ({"specs": [], "ledgers": []}, "at least one planned episode"),
    "a foreign ledger": ({"ledgers": [episode(spec(9))]}, "which the plan does not have"),
    "two ledgers of one episode": (
        {"ledgers": [episode(spec()), episode(spec())]},
        "has two ledgers",
    ),
    "an episode that vanished": ({"ledgers": []}, "has neither a ledger nor an error"),
    "an error of a finished episode": (
        {"missing_episodes": {spec().id: "x"}},
        "is finished or was never planned",
    ),
    "a part of an episode": ({"ledgers": [SHORT]}, "4 steps that are not the 5 trading days"),
    "a day of another market": ({"ledgers": [FOREIGN_DAY]}, "are not the 5 trading days"),
    "another snapshot": (
        {"snapshot": market(benchmark=[1.0, 2, 3, 4, 5, 6])},
        "its snapshot is not the card's",
    ),
    "another model": (
        {"specs": [spec(), spec(1, model="builtin/hold")]},
        "its model is not the card's",
    ),
    "other call parameters": ({"specs": [spec(), spec(1, call={})]}, "its call is not the card's"),
    "a config that does not hash": (
        {"task": {**SUBJECT, "name": "other"}},
        "task_hash .* is not the content hash",
    ),
    "one episode twice": ({"specs": [spec(), spec()]}, "is planned twice"),
    "one metric twice": (
        {"metrics": [panel_metric("ece"), panel_metric("ece")]},
        "metric 'ece' is given twice",
    ),
    "one name for two windows": (
        {"specs": [spec(), spec(window=OTHER_WINDOW)]},
        "window 'long' has two date ranges",
    ),
}
SCORING: dict[str, tuple[dict[str, Any], str]] = {
    "foreign answers": ({"answers": [(FOREIGN, answers(FOREIGN))]}, "which the plan does not have"),
    "two sets of answers": ({"answers": [(score_spec(), OWN)] * 2}, "has two sets of answers"),
    "an episode that vanished": ({"answers": []}, "has neither answers nor an error"),
    "an error of a finished episode": (
        {"missing_episodes": {score_spec().id: "x"}},
        "is finished or was never",
    ),
    "a part of an episode": (
        {"answers": [(score_spec(), OWN[:-1])]},
        "19 answers are not those of its 20",
    ),
    "answers out of order": (
        {"answers": [(score_spec(), OWN[::-1])]},
        "not those of its 20 samples in order",
    ),
    "an unknown number of samples": ({"samples": {}}, "how many samples it has is not given"),
    "an answer that nobody gave": (
        {"answers": [(score_spec(), [record(0, "error", answer={"name": "A"})])]},
        "has an answer though the model gave none",
    ),
    "an endless score": (
        {"scores": {**scoring_inputs().scores, "distance": Score(math.inf, 19)}},
        "'scores' is not strict JSON",
    ),
}


@pytest.mark.parametrize(
    ("given", "build", "case"),
    [
        *((inputs, build_card, case) for case in TRADING.values()),
        *((scoring_inputs, build_scoring_card, case) for case in SCORING.values()),
    ],
    ids=[*TRADING, *(f"scoring: {name}" for name in SCORING)],
)
def test_inputs_that_contradict_each_other_are_refused(
    given: Any, build: Any, case: tuple[dict[str, Any], str]
) -> None:
    with pytest.raises(CardError, match=case[1]):
        build(dataclasses.replace(given(), **case[0]))


def test_scores_that_break_the_contract_are_a_fault_of_the_tasks_plugin() -> None:
    base = scoring_inputs()
    changes: list[dict[str, Any]] = [
        {"extra": Score(1.0, 1)},
        {"distance": Score(12.5, 2.5)},
        {"distance": Score(12.5, 2, (1.0, 2.0))},
        {"distance": 1.0},
        {"distance": Score(math.nan, 19)},
        {"distance": Score(-1.0, 19)},
        {"distance": Score(1.0, 19, baseline=-1.0)},
        {"distance": Score(None, 0)},
        {"distance": Score(1.0, 1, reason="why")},
    ]
    made = [{**base.scores, **change} for change in changes]
    missing = {name: score for name, score in base.scores.items() if name != "distance"}
    refused = errors_of(
        lambda scores: build_scoring_card(dataclasses.replace(base, scores=scores)),
        *made,
        missing,
        list(missing),
    )
    assert refused == snapshot("""\
PluginError: task name_probe: score 'extra' is not defined in its scores
PluginError: task name_probe: score 'distance': n must be a count of samples, was 2.5
PluginError: task name_probe: score 'distance': interval must be a ktdeval.stats.Interval, was (1.0, 2.0)
PluginError: task name_probe: score 'distance' is a float; summarise() must return Score objects
PluginError: task name_probe: score 'distance': nan lies outside its range 0.0 … inf; fix the score, or the range that it declares
PluginError: task name_probe: score 'distance': -1.0 lies outside its range 0.0 … inf; fix the score, or the range that it declares
PluginError: task name_probe: score 'distance': -1.0 lies outside its range 0.0 … inf; fix the score, or the range that it declares
PluginError: task name_probe: score 'distance' must have either a value or the reason why it has none
PluginError: task name_probe: score 'distance' must have either a value or the reason why it has none
PluginError: task name_probe: score 'distance' is missing from what summarise() returned
PluginError: task name_probe: summarise() returned list, expected a mapping of names to Score
""")


# ---- the schemas


@pytest.mark.exhaustive
def test_schemas_match_their_types_and_close_all_objects_filled_by_ktdeval() -> None:
    """Objects whose fields belong to tasks, models, agents and machines are open; `python -m
    ktdeval.cards.schema` writes them.
    """
    for file, (card_type, name) in {
        **SCHEMAS,
        "certificate-v1.json": (Certificate, "certificate"),
    }.items():
        made = card_schema(card_type, name)
        folder = CERTIFICATE_FILE.parent if name == "certificate" else SCHEMA_FOLDER
        assert json.loads((folder / file).read_text()) == made, f"{file} is not current"
        Draft202012Validator.check_schema(made)
        own = (
            {"data_args", "harness"}
            if name == "certificate"
            else {"config", "detail"}
            if name == "scoring-card"
            else {"config"}
        )
        own |= {"request_settings", "sent_as", "value"} & open_objects(made)
        assert open_objects(made) == {"args", "call", "environment"} | own
