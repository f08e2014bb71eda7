"""The public QFinZero scorers, rebuilt: every published vector, and each known quirk by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.scoring.public_code_calling import score_calling
from ktdeval_qfinzero.scoring.public_code_planning import score_planning
from ktdeval_qfinzero.scoring.types import (
    PLANNING_ENDPOINTS,
    REGISTRY,
    AnswerScores,
    GoldCall,
    prefix_family,
    registry_family,
)
from ktdeval_qfinzero.scoring.values import (
    CALLING_RULES,
    PLANNING_RULES,
    reference_time,
    reference_value,
)
from qfinzero_reply import score_reply
from support.qfinzero.qfinzero_scoring_cases import (
    BARS,
    EVENTS,
    ORDER,
    POSITIONS,
    RATES,
    RUN,
    STEP,
    called,
    calls_of,
    gold_of,
    predicted_call,
    rows_of,
    task,
    tasks_of,
)
from support.tables import number

ANSWER = {"summary": "ok", "citations": [], "assumptions": []}
REFUSAL = GoldCall("REFUSE")
DAILY = "UPQ.stock.daily"
RATE = "UPQ.rates.query"


def figures(scores: AnswerScores) -> dict[str, Any]:
    return {
        "tm": scores.tm,
        "pa": scores.pa,
        "ta": scores.ta,
        "overall": scores.overall,
        **scores.detail,
    }


def differences(scores: AnswerScores, expected: Mapping[str, Any]) -> list[str]:
    """Names of the figures of a vector that were not reproduced within 1e-6; null figures are of
    rows the public code raises on.
    """
    wanted = {
        name: value
        for name, value in expected.items()
        if isinstance(value, float | int) and not isinstance(value, bool)
    }
    wanted |= expected.get("ref") or {}
    modes = wanted.pop("failure_modes", list(scores.failure_modes))
    wanted.pop("n_schema_violations", None)
    wrong = [
        name for name, value in wanted.items() if not abs(figures(scores)[name] - value) <= 1e-6
    ]

    return wrong if modes == list(scores.failure_modes) else [*wrong, "failure_modes"]


# ---- every vector that was published


@pytest.mark.shared_data
@pytest.mark.parametrize("names", ["", "_esp"])
@pytest.mark.parametrize(("suite", "least"), [("calling", 1200), ("planning", 850)])
def test_all_vectors_are_reproduced_with_composite_terms_and_failure_modes(
    shared_data: Path, suite: str, names: str, least: int
) -> None:
    folder = shared_data / "qfinzero"
    tasks = tasks_of(folder / f"{suite}_tasks{names}_public.jsonl")
    rows = rows_of(folder / f"{suite}_vectors{names}_public.jsonl")
    wrong = []

    for row in rows:
        gold = tasks[row["task_id"]]
        calls = row["predicted_calls"]
        valid = row.get("json_valid", True)
        scores = (
            score_calling(gold, calls, valid, ANSWER)
            if suite == "calling"
            else score_planning(gold, calls, RUN, valid)
        )
        if gaps := differences(scores, row["expected"]):
            wrong.append((row["task_id"], row["variant"], gaps))

    assert len(rows) > least
    assert wrong == []


@pytest.mark.shared_data
def test_all_raw_vectors_are_read_and_scored_alike(shared_data: Path) -> None:
    folder = shared_data / "qfinzero"
    tasks = tasks_of(folder / "calling_tasks_esp_public.jsonl")
    rows = rows_of(folder / "calling_raw_vectors_esp_public.jsonl")
    wrong = []

    for row in rows:
        scores, valid, departures = score_reply(tasks[row["task_id"]], row["raw_output"])
        expected = row["expected"]
        if row.get("ref_raises"):
            continue

        gaps = differences(
            scores, {name: expected[name] for name in ("tm", "pa", "ta", "overall", "ref")}
        )
        if gaps or (valid, departures) != (expected["json_valid"], expected["n_schema_violations"]):
            wrong.append((row["task_id"], row["variant"], gaps))

    assert len(rows) == 450
    assert wrong == []


# ---- names and families


def test_families_are_looked_up_for_calling_and_by_prefix_for_planning() -> None:
    assert len(REGISTRY) == 27
    assert set(REGISTRY) - set(PLANNING_ENDPOINTS) == {
        "REFUSE",
        "PMB.account.create",
        "PMB.session.create",
    }
    assert registry_family("UPQ.stock.weekly") is None
    assert prefix_family("UPQ.stock.weekly") == "UPQ"
    assert prefix_family("NPP.timeline") == prefix_family("") == "UNKNOWN"


# ---- calling


# Expected calls by name, predicted calls whose parameters may be those of an expected one, and figures.
@on_each_row(
    "what, golds, predicted, expected",
    (
        "a lower-case name is no tool",
        ["RATES"],
        [{"tool_name": "upq.rates.query", "params": "RATES"}],
        {"tm": 0},
    ),
    (
        "one call serves every expected call of its name",
        ["RATES", "RATES"],
        [{"tool_name": "UPQ.rates.query", "params": "RATES"}],
        {"tm": 1, "pa": 1, "ta": 1},
    ),
    (
        "another tool of the family earns parameters, not time",
        ["BARS"],
        [{"tool_name": "UPQ.stock.minute", "params": "BARS"}],
        {"tm": 0.5, "pa": 1, "ta": 0},
    ),
    (
        "a step without times earns time from any call",
        ["POSITIONS"],
        [{"tool_name": "XYZ.foo"}],
        {"ta": 1},
    ),
    (
        "minutes never parse",
        ["EVENTS"],
        [{"tool_name": "ESP.events.query", "params": "EVENTS"}],
        {"ta": 0},
    ),
    (
        "no call earns nothing even where nothing is required",
        ["POSITIONS"],
        [],
        {"overall": 0, "overall_weighted": 15},
    ),
    ("no expected and no predicted call is right", [], [], {"overall": 100}),
    ("refusing by no call", ["REFUSAL"], [], {"overall": 100}),
    (
        "refusing by pseudo-calls",
        ["REFUSAL"],
        [{"tool_name": "cannot_comply"}, {"tool_name": "NONE"}],
        {"overall": 100},
    ),
    (
        "refusing and calling",
        ["REFUSAL"],
        [{"tool_name": "REFUSE"}, {"tool_name": "UPQ.rates.query"}],
        {"overall": 0},
    ),
    ("a name that is none does not refuse", ["REFUSAL"], [{"tool_name": None}], {"overall": 0}),
    ("a name is not trimmed", ["REFUSAL"], [{"tool_name": " REFUSE"}], {"overall": 0}),
    (
        "order: all inverted",
        ["RATES", "BARS", "POSITIONS"],
        [
            {"tool_name": "PMB.account.positions"},
            {"tool_name": "UPQ.stock.daily"},
            {"tool_name": "UPQ.rates.query"},
        ],
        {"cos": 0},
    ),
    (
        "order: two inverted, one absent",
        ["RATES", "BARS", "POSITIONS"],
        [{"tool_name": "UPQ.stock.daily"}, {"tool_name": "UPQ.rates.query"}],
        {"cos": 0},
    ),
    (
        "order: two in order, one absent",
        ["RATES", "BARS", "POSITIONS"],
        [{"tool_name": "UPQ.rates.query"}, {"tool_name": "UPQ.stock.daily"}],
        {"cos": 1},
    ),
    (
        "order: one of three",
        ["RATES", "BARS", "POSITIONS"],
        [{"tool_name": "PMB.account.positions"}],
        {"cos": 0},
    ),
    (
        "addresses ignore case and slashes",
        ["BARS"],
        [{"tool_name": "UPQ.stock.daily", "endpoint": "STOCK/DAILY/"}],
        {"ec": 1},
    ),
    (
        "the first segment of an address",
        ["BARS"],
        [{"tool_name": "UPQ.stock.daily", "endpoint": "/stockpile"}],
        {"ec": 0.3},
    ),
    (
        "another address",
        ["BARS"],
        [{"tool_name": "UPQ.stock.daily", "endpoint": "/daily/stock"}],
        {"ec": 0},
    ),
    ("no address", ["BARS"], [{"tool_name": "UPQ.stock.daily", "endpoint": None}], {"ec": 0}),
    (
        "a placeholder has to be there",
        [{"of": "RATES", "required": {"tenors": "<x>"}}],
        [{"tool_name": "UPQ.rates.query"}],
        {"pa": 0},
    ),
    (
        "a null is not there",
        [{"of": "RATES", "required": {"tenors": "<x>"}}],
        [{"tool_name": "UPQ.rates.query", "params": {"tenors": None}}],
        {"pa": 0},
    ),
    (
        "anything meets a placeholder",
        [{"of": "RATES", "required": {"tenors": "<x>"}}],
        [{"tool_name": "UPQ.rates.query", "params": {"tenors": 0}}],
        {"pa": 1},
    ),
    (
        "an expected null time is met",
        [{"of": "BARS", "times": {"start": None}}],
        [{"tool_name": "UPQ.stock.daily"}],
        {"ta": 1},
    ),
    (
        "a missing time is not",
        [{"of": "BARS", "times": {"start": None, "end": "2024-03-08"}}],
        [{"tool_name": "UPQ.stock.daily"}],
        {"ta": 0.5},
    ),
)
def test_a_call_is_scored_as_the_public_calling_rules_do(
    what: str, golds: list[Any], predicted: list[Any], expected: dict[str, Any]
) -> None:
    scores = score_calling(
        task(*map(gold_of, golds), suite="calling"), calls_of(predicted, "params")
    )
    assert {name: figures(scores)[name] for name in expected} == pytest.approx(expected), what


def test_failure_modes_and_terms_of_empty_replies() -> None:
    assert score_calling(task(POSITIONS), []).failure_modes == ("false_refusal",)
    assert score_calling(task(REFUSAL), [], True, None).detail["foc"] == 0.5
    assert score_calling(task(REFUSAL), [], True, {"anything": 1}).detail["foc"] == 1


# ---- values and times


@pytest.mark.parametrize(
    ("given_value", "expected", "calling", "planning"),
    [
        ("100", 100, 1, 1),
        ("240", 240.0, 0, 0),
        ("240.0", 240.0, 1, 1),
        (True, 1, 1, 1),
        (100.0099, 100, 1, 1),
        (100.0101, 100, 0, 0),
        (0.00001, 0, 0, 0),
        ("ko", "KO", 1, 1),
        ("KO ", "KO", 0, 0),
        ("KO,PEP", "PEP,KO", 0, 0),
        ("['KO']", ["KO"], 1, 1),
        (["ko"], ["KO"], 0, 1),
        (["PEP", "KO", "KO"], ["KO", "PEP"], 1, 1),
        (["KO", "MCD"], ["KO", "PEP"], 1 / 3, 1 / 3),
        ("anything", "<from_step_1>", 1, 1),
        ("anything", "{order_id}", 0, 1),
        (["x"], ["<from_step_1>"], 0, 0),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5, 0.5),
        ("x", {}, 0, 0),
        (10**400, 10**400, 1, 1),
        (10**400, 1.5, 0, 0),
    ],
)
def test_values_compare_as_the_public_code_does(
    given_value: Any, expected: Any, calling: float, planning: float
) -> None:
    assert reference_value(given_value, expected, CALLING_RULES) == pytest.approx(calling)
    assert reference_value(given_value, expected, PLANNING_RULES) == pytest.approx(planning)


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-04T09:30:00+00:00",
        "2024-03-04T09:30:00.000",
        "2024-03-04 09:30:00",
        "2024/03/04",
        "",
    ],
)
def test_a_time_of_another_form_can_not_be_read(text: str) -> None:
    assert reference_time(text) is None


def test_final_z_are_dropped_and_a_date_is_its_midnight() -> None:
    midnight = reference_time("2024-03-04T00:00")
    assert midnight is not None
    assert reference_time("2024-03-04ZZ") == midnight
    assert reference_time("2024-03-04T00:00:00Z") == midnight


@on_each_row(
    "tolerance, start, ta",
    ("5min", "2024-03-04T00:05:00", 1),
    ("5min", "2024-03-04T00:05:01", 0),
    ("fortnight", "2024-03-04T00:05:00", 1),
    ("fortnight", "2024-03-04T00:06:00", 0),
    (None, "2024-03-04T00:00:01", 0),
    ("2day", "2024-03-02", 1),
)
def test_tolerances_include_their_ends_and_unknown_ones_are_five_minutes(
    tolerance: str | None, start: str, ta: float
) -> None:
    times = (
        {"start": "2024-03-04"}
        if tolerance is None
        else {"start": "2024-03-04", "tolerance": tolerance}
    )
    gold = replace(BARS, required={}, times=times)

    assert score_calling(task(gold), [called(gold.tool, {"start": start})]).ta == ta
    assert score_planning(task(gold), [predicted_call(gold.tool, {"start": start})], RUN).ta == ta


# ---- planning


@on_each_row(
    "what, golds, predicted, expected",
    ("tm: name, address and method", ["BARS"], [{"tool": "UPQ.stock.daily"}], {"tm": 1}),
    ("tm: another method", ["BARS"], [{"tool": "UPQ.stock.daily", "method": "post"}], {"tm": 0.8}),
    (
        "tm: another address",
        ["BARS"],
        [{"tool": "UPQ.stock.daily", "endpoint": "/a/b"}],
        {"tm": 0.7},
    ),
    ("tm: another name", ["BARS"], [{"tool": "XYZ.foo"}], {"tm": 0.2}),
    (
        "an implied address keeps its placeholder",
        ["POSITIONS"],
        [{"tool": "PMB.account.positions"}],
        {"tm": 0.925},
    ),
    (
        "a given address without it",
        ["POSITIONS"],
        [{"tool": "PMB.account.positions", "endpoint": "/V1/accounts/acct-dryrun-2025/positions/"}],
        {"tm": 1},
    ),
    (
        "ids that only an address holds make it too long",
        ["CANCEL"],
        [{"tool": "PMB.order.cancel"}],
        {"tm": 0.79},
    ),
    (
        "all unknown names are one family",
        ["FOREIGN"],
        [{"tool": "XYZ.foo", "args": {"a": 1}}],
        {"tm_name_only": 0.5, "pa": 1},
    ),
    (
        "run ids are compared in parameters",
        ["ORDER"],
        [
            {
                "tool": "PMB.order.place",
                "args": {
                    "session_id": "sess-dryrun-2025",
                    "account_id": "acct-dryrun-2025",
                    "order": {
                        "instrument": {"type": "STOCK", "symbol": "KO"},
                        "side": "BUY",
                        "qty": 40,
                        "limit_price": 60.5,
                    },
                },
            }
        ],
        {"pa": 1},
    ),
    (
        "run ids as braces are not",
        ["ORDER"],
        [{"tool": "PMB.order.place", "args": "ORDER"}],
        {"pa": "1/3"},
    ),
    ("an empty plan keeps the time of steps without times", ["BARS", "POSITIONS"], [], {"ta": 0.5}),
    (
        "minutes as a number",
        ["EVENTS"],
        [{"tool": "ESP.events.query", "args": {"horizon_minutes": 120}}],
        {"ta": 1},
    ),
    (
        "minutes as text",
        ["EVENTS"],
        [{"tool": "ESP.events.query", "args": {"horizon_minutes": "120"}}],
        {"ta": 1},
    ),
    (
        "minutes have no tolerance",
        ["EVENTS"],
        [{"tool": "ESP.events.query", "args": {"horizon_minutes": 121}}],
        {"ta": 0},
    ),
    (
        "minutes are compared as text",
        ["EVENTS"],
        [{"tool": "ESP.events.query", "args": {"horizon_minutes": 120.0}}],
        {"ta": 0},
    ),
    (
        "time accepts other tools of the family",
        ["BARS"],
        [{"tool": "UPQ.stock.minute", "args": "BARS"}],
        {"ta": 1},
    ),
    (
        "dependencies: order and ids",
        ["BARS", "ORDER"],
        [
            {"tool": "UPQ.stock.daily"},
            {"tool": "PMB.order.place", "args": {"session_id": "any", "account_id": "any"}},
        ],
        {"dc": 1},
    ),
    (
        "dependencies: inverted",
        ["BARS", "ORDER"],
        [
            {"tool": "PMB.order.place", "args": {"session_id": "any", "account_id": "any"}},
            {"tool": "UPQ.stock.daily"},
        ],
        {"dc": 0.4},
    ),
    (
        "dependencies: without ids",
        ["BARS", "ORDER"],
        [{"tool": "UPQ.stock.daily"}, {"tool": "PMB.order.place"}],
        {"dc": 0.9},
    ),
)
def test_a_plan_is_scored_as_the_public_planning_rules_do(
    what: str, golds: list[Any], predicted: list[Any], expected: dict[str, Any]
) -> None:
    scores = score_planning(task(*map(gold_of, golds)), calls_of(predicted, "args"), RUN)
    wanted = {name: number(figure) for name, figure in expected.items()}
    assert {name: figures(scores)[name] for name in expected} == pytest.approx(wanted), what


def test_unreadable_plans_and_the_named_recovery_episodes() -> None:
    assert score_planning(task(BARS, POSITIONS), [], RUN, json_valid=False).ta == 0

    gold = task(RATES, POSITIONS)
    recovery = replace(gold, id="ms-005")

    assert score_planning(recovery, [predicted_call(RATE)], RUN).detail["rs"] == 0
    assert score_planning(recovery, [predicted_call("PMB.order.place")], RUN).detail["rs"] == 1
    assert score_planning(replace(gold, id="other"), [], RUN).detail["rs"] == 1
    assert score_planning(gold, [], RUN, False).detail["overall_weighted"] == pytest.approx(25)
    assert score_planning(replace(gold, id="ms-020"), [], RUN, False).detail[
        "overall_weighted"
    ] == pytest.approx(15)


# ---- what the public code raises on

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
names = (
    st.sampled_from([DAILY, "PMB.order.place", "ESP.events.query", "REFUSE", "XYZ"]) | json_values
)
odd_calls = st.lists(
    json_values
    | st.fixed_dictionaries(
        {}, optional={"tool": names, "args": json_values, "tool_name": names, "params": json_values}
    )
    | st.builds(
        lambda value: predicted_call(
            DAILY, {"start": value, "tickers": value}, endpoint=value, method=value
        ),
        json_values,
    ),
    max_size=4,
)


@pytest.mark.slow
@given(odd_calls, st.booleans(), json_values)
def test_no_answer_makes_the_reference_scorers_raise(
    predicted: list[Any], valid: bool, answer: Any
) -> None:
    gold = task(BARS, EVENTS, POSITIONS, ORDER, STEP)
    for scores in (
        score_calling(gold, predicted, valid, answer),
        score_planning(gold, predicted, RUN, valid),
    ):
        assert all(0 <= value <= 1 for value in (scores.tm, scores.pa, scores.ta))


@pytest.mark.parametrize(
    "call",
    [None, RATE, called(None), called([RATE]), predicted_call(None), predicted_call(["x"]), 7],
    ids=str,
)
def test_what_is_no_call_matches_nothing(call: Any) -> None:
    assert score_calling(task(RATES), [call]).tm == 0
    # a call without a name still has no wrong method
    assert score_planning(task(RATES), [call], RUN).tm <= 0.2


def test_a_value_too_deep_to_print_matches_nothing() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    assert score_calling(task(RATES), [called(RATE, {"tenors": deep})]).pa == 0

    daily = predicted_call(DAILY, {"start": deep, "tickers": deep})
    assert score_planning(task(BARS), [daily], RUN).pa == 0
