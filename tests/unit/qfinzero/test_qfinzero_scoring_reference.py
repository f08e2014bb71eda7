"""The public QFinZero scorers, rebuilt: every published vector, and each known quirk by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval_qfinzero.scoring.reference_calling import score_calling
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.types import PLANNING_ENDPOINTS, REGISTRY, GoldCall, Scores, prefix_family, registry_family
from ktdeval_qfinzero.scoring.values import CALLING_RULES, PLANNING_RULES, reference_time, reference_value
from qfinzero_reply import score_reply, score_unreadable
from qfinzero_scoring_cases import BARS, EVENTS, ORDER, POSITIONS, RATES, RUN, STEP, called, rows_of, said, task, tasks_of
from tables import on_each_row

ANSWER = {"summary": "ok", "citations": [], "assumptions": []}
REFUSAL = GoldCall("REFUSE")
DAILY, MINUTE, RATE = "UPQ.stock.daily", "UPQ.stock.minute", "UPQ.rates.query"


def figures(scores: Scores) -> dict[str, Any]:
    return {"tm": scores.tm, "pa": scores.pa, "ta": scores.ta, "overall": scores.overall, **scores.detail}


def differences(scores: Scores, expected: Mapping[str, Any]) -> list[str]:
    """Names of the figures of a vector that were not reproduced within 1e-6; null figures are of rows the public code raises on."""
    wanted = {name: value for name, value in expected.items() if isinstance(value, float | int) and not isinstance(value, bool)}
    wanted |= expected.get("ref") or {}
    modes = wanted.pop("failure_modes", list(scores.failure_modes))
    wanted.pop("n_schema_violations", None)
    wrong = [name for name, value in wanted.items() if not abs(figures(scores)[name] - value) <= 1e-6]
    return wrong if modes == list(scores.failure_modes) else [*wrong, "failure_modes"]


# ---- every vector that was published


@pytest.mark.shared_data
@pytest.mark.parametrize("names", ["", "_esp"])
@pytest.mark.parametrize(("suite", "least"), [("calling", 1200), ("planning", 850)])
def test_all_vectors_are_reproduced_with_composite_terms_and_failure_modes(
    shared_data: Path, suite: str, names: str, least: int
) -> None:
    folder = shared_data / "qfinzero"
    tasks, rows = tasks_of(folder / f"{suite}_tasks{names}_public.jsonl"), rows_of(folder / f"{suite}_vectors{names}_public.jsonl")
    wrong = []
    for row in rows:
        gold, calls, valid = tasks[row["task_id"]], row["predicted_calls"], row.get("json_valid", True)
        scores = score_calling(gold, calls, valid, ANSWER) if suite == "calling" else score_planning(gold, calls, RUN, valid)
        if gaps := differences(scores, row["expected"]):
            wrong.append((row["task_id"], row["variant"], gaps))
    assert len(rows) > least
    assert wrong == []


@pytest.mark.shared_data
def test_all_raw_vectors_are_read_and_scored_alike(shared_data: Path) -> None:
    folder = shared_data / "qfinzero"
    tasks, rows = tasks_of(folder / "calling_tasks_esp_public.jsonl"), rows_of(folder / "calling_raw_vectors_esp_public.jsonl")
    wrong = []
    for row in rows:
        scores, valid, departures = score_reply(tasks[row["task_id"]], row["raw_output"])
        expected = row["expected"]
        if row.get("ref_raises"):
            continue
        gaps = differences(scores, {name: expected[name] for name in ("tm", "pa", "ta", "overall", "ref")})
        if gaps or (valid, departures) != (expected["json_valid"], expected["n_schema_violations"]):
            wrong.append((row["task_id"], row["variant"], gaps))
    assert len(rows) == 450
    assert wrong == []


# ---- names and families


def test_families_are_looked_up_for_calling_and_told_by_prefix_for_planning() -> None:
    assert len(REGISTRY) == 27
    assert set(REGISTRY) - set(PLANNING_ENDPOINTS) == {"REFUSE", "PMB.account.create", "PMB.session.create"}
    assert registry_family("UPQ.stock.weekly") is None
    assert prefix_family("UPQ.stock.weekly") == "UPQ"
    assert prefix_family("NPP.timeline") == prefix_family("") == "UNKNOWN"


# ---- calling

POSITION = "PMB.account.positions"
CALLING: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "a lower-case name is no tool": (RATES, [called("upq.rates.query", RATES.required)], {"tm": 0}),
    "one call serves every expected call of its name": ([RATES] * 2, [called(RATE, RATES.required)], {"tm": 1, "pa": 1, "ta": 1}),
    "another tool of the family earns parameters, not time": (BARS, [called(MINUTE, BARS.required)], {"tm": 0.5, "pa": 1, "ta": 0}),
    "a step without times earns time from any call": (POSITIONS, [called("XYZ.foo")], {"ta": 1}),
    "minutes never parse": (EVENTS, [called("ESP.events.query", EVENTS.required)], {"ta": 0}),
    "no call earns nothing even where nothing is required": (POSITIONS, [], {"overall": 0, "overall_weighted": 15}),
    "no expected and no predicted call is right": ([], [], {"overall": 100}),
    "refusing by no call": (REFUSAL, [], {"overall": 100}),
    "refusing by pseudo-calls": (REFUSAL, [called("cannot_comply"), called("NONE")], {"overall": 100}),
    "refusing and calling": (REFUSAL, [called("REFUSE"), called(RATE)], {"overall": 0}),
    "a name that is none does not refuse": (REFUSAL, [called(None)], {"overall": 0}),
    "a name is not trimmed": (REFUSAL, [called(" REFUSE")], {"overall": 0}),
    "order: all inverted": ([RATES, BARS, POSITIONS], [called(name) for name in (POSITION, DAILY, RATE)], {"cos": 0}),
    "order: two inverted, one absent": ([RATES, BARS, POSITIONS], [called(DAILY), called(RATE)], {"cos": 0}),
    "order: two in order, one absent": ([RATES, BARS, POSITIONS], [called(RATE), called(DAILY)], {"cos": 1}),
    "order: one of three": ([RATES, BARS, POSITIONS], [called(POSITION)], {"cos": 0}),
    "addresses ignore case and slashes": (BARS, [called(DAILY, endpoint="STOCK/DAILY/")], {"ec": 1}),
    "the first segment of an address": (BARS, [called(DAILY, endpoint="/stockpile")], {"ec": 0.3}),
    "another address": (BARS, [called(DAILY, endpoint="/daily/stock")], {"ec": 0}),
    "no address": (BARS, [called(DAILY, endpoint=None)], {"ec": 0}),
    "a placeholder has to be there": (replace(RATES, required={"tenors": "<x>"}), [called(RATE)], {"pa": 0}),
    "a null is not there": (replace(RATES, required={"tenors": "<x>"}), [called(RATE, {"tenors": None})], {"pa": 0}),
    "anything meets a placeholder": (replace(RATES, required={"tenors": "<x>"}), [called(RATE, {"tenors": 0})], {"pa": 1}),
    "an expected null time is met": (replace(BARS, times={"start": None}), [called(DAILY)], {"ta": 1}),
    "a missing time is not": (replace(BARS, times={"start": None, "end": "2024-03-08"}), [called(DAILY)], {"ta": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLING)
def test_calling_quirks(name: str) -> None:
    golds, predicted, expected = CALLING[name]
    scores = score_calling(task(*(golds if isinstance(golds, list) else [golds]), suite="calling"), predicted)
    assert {figure: figures(scores)[figure] for figure in expected} == pytest.approx(expected)


def test_failure_modes_and_terms_of_empty_and_unreadable_replies() -> None:
    assert score_calling(task(POSITIONS), []).failure_modes == ("false_refusal",)
    unreadable = score_unreadable()
    assert (unreadable.overall, unreadable.detail["ocp"], unreadable.failure_modes) == (0, 1, ("invalid_json",))
    assert unreadable.detail["overall_weighted"] == pytest.approx(10)
    assert score_calling(task(REFUSAL), [], True, None).detail["foc"] == 0.5
    assert score_calling(task(REFUSAL), [], True, {"anything": 1}).detail["foc"] == 1


# ---- values and times


@pytest.mark.parametrize(
    ("given_value", "expected", "calling", "planning"),
    [
        ("100", 100, 1, 1), ("240", 240.0, 0, 0), ("240.0", 240.0, 1, 1), (True, 1, 1, 1), (100.0099, 100, 1, 1),
        (100.0101, 100, 0, 0), (0.00001, 0, 0, 0), ("ko", "KO", 1, 1), ("KO ", "KO", 0, 0), ("KO,PEP", "PEP,KO", 0, 0),
        ("['KO']", ["KO"], 1, 1), (["ko"], ["KO"], 0, 1), (["PEP", "KO", "KO"], ["KO", "PEP"], 1, 1),
        (["KO", "MCD"], ["KO", "PEP"], 1 / 3, 1 / 3), ("anything", "<from_step_1>", 1, 1), ("anything", "{order_id}", 0, 1),
        (["x"], ["<from_step_1>"], 0, 0), ({"a": 1}, {"a": 1, "b": 2}, 0.5, 0.5), ("x", {}, 0, 0),
        (10**400, 10**400, 1, 1), (10**400, 1.5, 0, 0),
    ],
)  # fmt: skip
def test_values_compare_as_the_public_code_does(given_value: Any, expected: Any, calling: float, planning: float) -> None:
    assert reference_value(given_value, expected, CALLING_RULES) == pytest.approx(calling)
    assert reference_value(given_value, expected, PLANNING_RULES) == pytest.approx(planning)


def test_times_of_other_forms_can_not_be_read_final_z_are_dropped_and_a_date_is_its_midnight() -> None:
    for text in ("2024-03-04T09:30:00+00:00", "2024-03-04T09:30:00.000", "2024-03-04 09:30:00", "2024/03/04", ""):
        assert reference_time(text) is None
    assert reference_time("2024-03-04ZZ") == reference_time("2024-03-04T00:00") == reference_time("2024-03-04T00:00:00Z")


@on_each_row
def test_tolerances_include_their_ends_and_unknown_ones_are_five_minutes(tolerance: str | None, start: str, ta: float) -> None:
    times = {"start": "2024-03-04"} if tolerance is None else {"start": "2024-03-04", "tolerance": tolerance}
    gold = replace(BARS, required={}, times=times)
    assert score_calling(task(gold), [called(gold.tool, {"start": start})]).ta == ta
    assert score_planning(task(gold), [said(gold.tool, {"start": start})], RUN).ta == ta


# ---- planning

CANCEL = GoldCall("PMB.order.cancel", "/v1/orders/{order_id}/cancel", "POST")
FOREIGN = GoldCall("NPP.timeline", "/npp/timeline", "POST", {"a": 1})
PLACED = {"order": ORDER.required["order"]}
BRACED = {"session_id": "{session_id}", "account_id": "{account_id}", **PLACED}
IDS_GIVEN = said("PMB.order.place", {"session_id": "any", "account_id": "any"})
FULL_ADDRESS = "/V1/accounts/acct-dryrun-2025/positions/"
PLANNING: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "tm: name, address and method": (BARS, [said(DAILY)], {"tm": 1}),
    "tm: another method": (BARS, [said(DAILY, method="post")], {"tm": 0.8}),
    "tm: another address": (BARS, [said(DAILY, endpoint="/a/b")], {"tm": 0.7}),
    "tm: another name": (BARS, [said("XYZ.foo")], {"tm": 0.2}),
    "an implied address keeps its placeholder": (POSITIONS, [said(POSITION)], {"tm": 0.925}),
    "a given address without it": (POSITIONS, [said(POSITION, endpoint=FULL_ADDRESS)], {"tm": 1}),
    "ids that only an address holds make it too long": (CANCEL, [said("PMB.order.cancel")], {"tm": 0.79}),
    "all unknown names are one family": (FOREIGN, [said("XYZ.foo", {"a": 1})], {"tm_name_only": 0.5, "pa": 1}),
    "run ids are compared in parameters": (ORDER, [said("PMB.order.place", {**RUN, **PLACED})], {"pa": 1}),
    "run ids as braces are not": (ORDER, [said("PMB.order.place", BRACED)], {"pa": 1 / 3}),
    "an empty plan keeps the time of steps without times": ([BARS, POSITIONS], [], {"ta": 0.5}),
    "minutes as a number": (EVENTS, [said("ESP.events.query", {"horizon_minutes": 120})], {"ta": 1}),
    "minutes as text": (EVENTS, [said("ESP.events.query", {"horizon_minutes": "120"})], {"ta": 1}),
    "minutes have no tolerance": (EVENTS, [said("ESP.events.query", {"horizon_minutes": 121})], {"ta": 0}),
    "minutes are compared as text": (EVENTS, [said("ESP.events.query", {"horizon_minutes": 120.0})], {"ta": 0}),
    "time accepts other tools of the family": (BARS, [said(MINUTE, BARS.required)], {"ta": 1}),
    "dependencies: order and ids": ([BARS, ORDER], [said(DAILY), IDS_GIVEN], {"dc": 1}),
    "dependencies: inverted": ([BARS, ORDER], [IDS_GIVEN, said(DAILY)], {"dc": 0.4}),
    "dependencies: without ids": ([BARS, ORDER], [said(DAILY), said("PMB.order.place")], {"dc": 0.9}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANNING)
def test_planning_quirks(name: str) -> None:
    golds, predicted, expected = PLANNING[name]
    scores = score_planning(task(*(golds if isinstance(golds, list) else [golds])), predicted, RUN)
    assert {figure: figures(scores)[figure] for figure in expected} == pytest.approx(expected)


def test_unreadable_plans_and_the_named_recovery_episodes() -> None:
    assert score_planning(task(BARS, POSITIONS), [], RUN, json_valid=False).ta == 0
    gold = task(RATES, POSITIONS)
    recovery = replace(gold, id="ms-005")
    assert score_planning(recovery, [said(RATE)], RUN).detail["rs"] == 0
    assert score_planning(recovery, [said("PMB.order.place")], RUN).detail["rs"] == 1
    assert score_planning(replace(gold, id="other"), [], RUN).detail["rs"] == 1
    assert score_planning(gold, [], RUN, False).detail["overall_weighted"] == pytest.approx(25)
    assert score_planning(replace(gold, id="ms-020"), [], RUN, False).detail["overall_weighted"] == pytest.approx(15)


# ---- what the public code raises on

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([DAILY, "PMB.order.place", "ESP.events.query", "REFUSE", "XYZ"]) | json_values
odd_calls = st.lists(
    json_values
    | st.fixed_dictionaries({}, optional={"tool": names, "args": json_values, "tool_name": names, "params": json_values})
    | st.builds(lambda value: said(DAILY, {"start": value, "tickers": value}, endpoint=value, method=value), json_values),
    max_size=4,
)


@given(odd_calls, st.booleans(), json_values)
def test_no_answer_makes_the_reference_scorers_raise(predicted: list[Any], valid: bool, answer: Any) -> None:
    gold = task(BARS, EVENTS, POSITIONS, ORDER, STEP)
    for scores in (score_calling(gold, predicted, valid, answer), score_planning(gold, predicted, RUN, valid)):
        assert all(0 <= value <= 1 for value in (scores.tm, scores.pa, scores.ta))


def test_calls_that_are_none_and_values_too_deep_to_print_match_nothing() -> None:
    for call in (None, RATE, called(None), called([RATE]), said(None), said(["x"]), 7):
        assert score_calling(task(RATES), [call]).tm == 0
        assert score_planning(task(RATES), [call], RUN).tm <= 0.2  # a call without a name still has no wrong method
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert score_calling(task(RATES), [called(RATE, {"tenors": deep})]).pa == 0
    assert score_planning(task(BARS), [said(DAILY, {"start": deep, "tickers": deep})], RUN).pa == 0
