"""The public QFinZero scorers, rebuilt: every published vector, and each known quirk by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from qfinzero_scoring_cases import BARS, EVENTS, ORDER, POSITIONS, RATES, RUN, STEP, called, rows_of, said, task, tasks_of

from ktdeval_qfinzero.scoring.families import PLANNING_ENDPOINTS, REGISTRY, prefix_family, registry_family
from ktdeval_qfinzero.scoring.reference_calling import score_calling, score_unreadable
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.times import reference_time
from ktdeval_qfinzero.scoring.types import GoldCall, Scores
from ktdeval_qfinzero.scoring.values import CALLING_RULES, PLANNING_RULES, reference_value

ANSWER = {"summary": "ok", "citations": [], "assumptions": []}
REFUSAL = GoldCall("REFUSE")


def differences(scores: Scores, expected: Mapping[str, Any]) -> list[str]:
    """Names of the figures of a vector that were not reproduced within 1e-6; null figures are of rows the public code raises on."""
    ours = {"tm": scores.tm, "pa": scores.pa, "ta": scores.ta, "overall": scores.overall, **scores.detail}
    wanted = {name: value for name, value in expected.items() if isinstance(value, float | int) and not isinstance(value, bool)}
    wanted |= expected.get("ref") or {}
    modes = wanted.pop("failure_modes", list(scores.failure_modes))
    wanted.pop("n_schema_violations", None)
    wrong = [name for name, value in wanted.items() if not abs(ours[name] - value) <= 1e-6]
    return wrong if modes == list(scores.failure_modes) else [*wrong, "failure_modes"]


# ---- every vector that was published


@pytest.mark.shared_data
@pytest.mark.parametrize("names", ["", "_esp"])
def test_all_calling_vectors_are_reproduced_with_composite_terms_and_failure_modes(shared_data: Path, names: str) -> None:
    folder = shared_data / "qfinzero"
    tasks, rows = tasks_of(folder / f"calling_tasks{names}_public.jsonl"), rows_of(folder / f"calling_vectors{names}_public.jsonl")
    wrong = [
        (row["task_id"], row["variant"], found)
        for row in rows
        if (
            found := differences(
                score_calling(tasks[row["task_id"]], row["predicted_calls"], row.get("json_valid", True), ANSWER), row["expected"]
            )
        )
    ]
    assert len(rows) > 1200
    assert wrong == []


@pytest.mark.shared_data
@pytest.mark.parametrize("names", ["", "_esp"])
def test_all_planning_vectors_are_reproduced_with_composite_terms_and_failure_modes(shared_data: Path, names: str) -> None:
    folder = shared_data / "qfinzero"
    tasks, rows = (
        tasks_of(folder / f"planning_tasks{names}_public.jsonl"),
        rows_of(folder / f"planning_vectors{names}_public.jsonl"),
    )
    wrong = [
        (row["task_id"], row["variant"], found)
        for row in rows
        if (
            found := differences(
                score_planning(tasks[row["task_id"]], row["predicted_calls"], RUN, row.get("json_valid", True)), row["expected"]
            )
        )
    ]
    assert len(rows) > 850
    assert wrong == []


# ---- names and families


def test_the_registry_has_27_names_and_the_planning_table_all_but_two_of_the_26_tools() -> None:
    assert len(REGISTRY) == 27
    assert set(REGISTRY) - set(PLANNING_ENDPOINTS) == {"REFUSE", "PMB.account.create", "PMB.session.create"}


def test_families_are_looked_up_for_calling_and_told_by_prefix_for_planning() -> None:
    assert registry_family("UPQ.stock.weekly") is None
    assert prefix_family("UPQ.stock.weekly") == "UPQ"
    assert prefix_family("NPP.timeline") == prefix_family("") == "UNKNOWN"


def test_a_lower_case_name_is_no_tool() -> None:
    assert score_calling(task(RATES), [called("upq.rates.query", RATES.required)]).tm == 0


# ---- calling


def test_one_call_serves_every_expected_call_of_its_name() -> None:
    scores = score_calling(task(RATES, RATES), [called("UPQ.rates.query", RATES.required)])
    assert (scores.tm, scores.pa, scores.ta) == (1, 1, 1)


def test_another_tool_of_the_family_earns_full_parameters_but_no_time() -> None:
    scores = score_calling(task(BARS), [called("UPQ.stock.minute", BARS.required)])
    assert (scores.tm, scores.pa, scores.ta) == (0.5, 1, 0)


def test_a_step_without_times_earns_time_from_any_call() -> None:
    assert score_calling(task(POSITIONS), [called("XYZ.foo")]).ta == 1


def test_minutes_never_parse_so_a_perfect_call_loses_its_time() -> None:
    assert score_calling(task(EVENTS), [called("ESP.events.query", EVENTS.required)]).ta == 0


def test_no_call_earns_nothing_even_where_nothing_is_required() -> None:
    scores = score_calling(task(POSITIONS), [])
    assert (scores.overall, scores.failure_modes) == (0, ("false_refusal",))
    assert scores.detail["overall_weighted"] == pytest.approx(15)


def test_an_unreadable_reply_keeps_only_the_credit_for_no_surplus_call() -> None:
    scores = score_unreadable(task(RATES))
    assert (scores.overall, scores.detail["ocp"], scores.failure_modes) == (0, 1, ("invalid_json",))
    assert scores.detail["overall_weighted"] == pytest.approx(10)


def test_no_expected_and_no_predicted_call_is_right() -> None:
    assert score_calling(task(), []).overall == 100


@pytest.mark.parametrize(
    ("names", "overall"),
    [([], 100), (["cannot_comply", "NONE"], 100), (["REFUSE", "UPQ.rates.query"], 0), ([None], 0), ([" REFUSE"], 0)],
)
def test_a_refusal_is_all_or_nothing(names: list[Any], overall: float) -> None:
    assert score_calling(task(REFUSAL), [called(name) for name in names]).overall == overall


def test_a_refusal_without_an_answer_object_loses_half_of_that_term() -> None:
    assert score_calling(task(REFUSAL), [], True, None).detail["foc"] == 0.5
    assert score_calling(task(REFUSAL), [], True, {"anything": 1}).detail["foc"] == 1


def test_order_counts_inversions_among_matched_calls_only() -> None:
    gold = task(RATES, BARS, POSITIONS, suite="calling")
    names = ["PMB.account.positions", "UPQ.stock.daily", "UPQ.rates.query"]
    assert score_calling(gold, [called(name) for name in names]).detail["cos"] == 0
    assert score_calling(gold, [called(name) for name in names[1:]]).detail["cos"] == 0
    assert score_calling(gold, [called(name) for name in (names[1], names[0])]).detail["cos"] == 1
    assert score_calling(gold, [called(names[0])]).detail["cos"] == 0


def test_addresses_ignore_case_and_slashes_and_give_a_third_for_the_first_segment() -> None:
    def ec(endpoint: str | None) -> float:
        value = score_calling(task(BARS), [called("UPQ.stock.daily", endpoint=endpoint)]).detail["ec"]
        assert isinstance(value, float)
        return value

    assert [ec("STOCK/DAILY/"), ec("/stockpile"), ec("/daily/stock"), ec(None)] == [1, 0.3, 0, 0]


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
def test_values_compare_as_the_public_code_does(given_value: Any, expected: Any, calling: float, planning: float) -> None:
    assert reference_value(given_value, expected, CALLING_RULES) == pytest.approx(calling)
    assert reference_value(given_value, expected, PLANNING_RULES) == pytest.approx(planning)


def test_a_placeholder_still_has_to_be_there() -> None:
    gold = replace(RATES, required={"tenors": "<from_step_1>"})
    assert [score_calling(task(gold), [called(gold.tool, params)]).pa for params in ({}, {"tenors": None}, {"tenors": 0})] == [
        0,
        0,
        1,
    ]


@pytest.mark.parametrize("text", ["2024-03-04T09:30:00+00:00", "2024-03-04T09:30:00.000", "2024-03-04 09:30:00", "2024/03/04", ""])
def test_times_that_the_public_code_can_not_read(text: str) -> None:
    assert reference_time(text) is None


def test_final_z_are_dropped_and_a_date_is_its_midnight() -> None:
    assert reference_time("2024-03-04ZZ") == reference_time("2024-03-04T00:00") == reference_time("2024-03-04T00:00:00Z")


@pytest.mark.parametrize(
    ("tolerance", "start", "ta"),
    [
        ("5min", "2024-03-04T00:05:00", 1),
        ("5min", "2024-03-04T00:05:01", 0),
        ("fortnight", "2024-03-04T00:05:00", 1),
        ("fortnight", "2024-03-04T00:06:00", 0),
        (None, "2024-03-04T00:00:01", 0),
        ("2day", "2024-03-02", 1),
    ],
)
def test_tolerances_include_their_ends_and_unknown_ones_are_five_minutes(tolerance: str | None, start: str, ta: float) -> None:
    times = {"start": "2024-03-04"} if tolerance is None else {"start": "2024-03-04", "tolerance": tolerance}
    gold = replace(BARS, required={}, times=times)
    assert score_calling(task(gold), [called(gold.tool, {"start": start})]).ta == ta
    assert score_planning(task(gold), [said(gold.tool, {"start": start})], RUN).ta == ta


def test_an_expected_null_time_is_always_met_and_a_missing_one_never() -> None:
    gold = replace(BARS, times={"start": None, "end": "2024-03-08"})
    assert score_calling(task(gold), [called(gold.tool, {"end": "2024-03-08"})]).ta == 1
    assert score_calling(task(gold), [called(gold.tool, {"start": "2024-03-04"})]).ta == 0.5


# ---- planning


def test_planning_tm_is_half_name_three_tenths_address_two_tenths_method() -> None:
    gold = task(BARS)
    assert score_planning(gold, [said("UPQ.stock.daily")], RUN).tm == pytest.approx(1)
    assert score_planning(gold, [said("UPQ.stock.daily", method="post")], RUN).tm == pytest.approx(0.8)
    assert score_planning(gold, [said("UPQ.stock.daily", endpoint="/a/b")], RUN).tm == pytest.approx(0.7)
    assert score_planning(gold, [said("XYZ.foo")], RUN).tm == pytest.approx(0.2)


def test_an_implied_address_keeps_its_placeholder_and_loses_a_quarter() -> None:
    gold = task(POSITIONS)
    assert score_planning(gold, [said("PMB.account.positions")], RUN).tm == pytest.approx(0.925)
    given_address = said("PMB.account.positions", endpoint="/V1/accounts/acct-dryrun-2025/positions/")
    assert score_planning(gold, [given_address], RUN).tm == pytest.approx(1)


def test_ids_that_only_an_address_holds_make_it_too_long() -> None:
    cancel = GoldCall("PMB.order.cancel", "/v1/orders/{order_id}/cancel", "POST")
    assert score_planning(task(cancel), [said("PMB.order.cancel")], RUN).tm == pytest.approx(0.79)


def test_all_unknown_names_are_one_family() -> None:
    gold = task(GoldCall("NPP.timeline", "/npp/timeline", "POST", {"a": 1}))
    scores = score_planning(gold, [said("XYZ.foo", {"a": 1})], RUN)
    assert (scores.detail["tm_name_only"], scores.pa) == (0.5, 1)


def test_run_ids_are_checked_in_parameters() -> None:
    order = {"order": ORDER.required["order"]}
    right = score_planning(task(ORDER), [said("PMB.order.place", {**RUN, **order})], RUN)
    literal = score_planning(
        task(ORDER), [said("PMB.order.place", {"session_id": "{session_id}", "account_id": "{account_id}", **order})], RUN
    )
    assert right.pa == 1
    assert literal.pa == pytest.approx(1 / 3)


def test_an_empty_valid_plan_keeps_the_time_of_steps_without_times_and_an_unreadable_one_does_not() -> None:
    gold = task(BARS, POSITIONS)
    assert score_planning(gold, [], RUN).ta == 0.5
    assert score_planning(gold, [], RUN, json_valid=False).ta == 0


def test_minutes_are_compared_as_text_without_tolerance() -> None:
    def ta(value: Any) -> float:
        return score_planning(task(EVENTS), [said("ESP.events.query", {"horizon_minutes": value})], RUN).ta

    assert [ta(120), ta("120"), ta(121), ta(120.0)] == [1, 1, 0, 0]


def test_planning_time_accepts_other_tools_of_the_family() -> None:
    assert score_planning(task(BARS), [said("UPQ.stock.minute", BARS.required)], RUN).ta == 1


def test_the_named_recovery_episodes_look_for_a_call_like_their_second_step() -> None:
    gold = replace(task(RATES, POSITIONS), id="ms-005")
    assert score_planning(gold, [said("UPQ.rates.query")], RUN).detail["rs"] == 0
    assert score_planning(gold, [said("PMB.order.place")], RUN).detail["rs"] == 1
    assert score_planning(replace(gold, id="other"), [], RUN).detail["rs"] == 1


def test_unreadable_plans_weigh_25_and_15_in_recovery_episodes() -> None:
    gold = task(RATES, POSITIONS)
    assert score_planning(gold, [], RUN, False).detail["overall_weighted"] == pytest.approx(25)
    assert score_planning(replace(gold, id="ms-020"), [], RUN, False).detail["overall_weighted"] == pytest.approx(15)


def test_the_dependency_term_is_order_and_ids() -> None:
    gold = task(BARS, ORDER)
    place = said("PMB.order.place", {"session_id": "any", "account_id": "any"})
    assert score_planning(gold, [said("UPQ.stock.daily"), place], RUN).detail["dc"] == pytest.approx(1)
    assert score_planning(gold, [place, said("UPQ.stock.daily")], RUN).detail["dc"] == pytest.approx(0.4)
    assert score_planning(gold, [said("UPQ.stock.daily"), said("PMB.order.place")], RUN).detail["dc"] == pytest.approx(0.9)


# ---- what the public code raises on

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["UPQ.stock.daily", "PMB.order.place", "ESP.events.query", "REFUSE", "XYZ"]) | json_values
odd_calls = st.lists(
    json_values
    | st.fixed_dictionaries({}, optional={"tool": names, "args": json_values, "tool_name": names, "params": json_values})
    | st.builds(
        lambda value: said("UPQ.stock.daily", {"start": value, "tickers": value}, endpoint=value, method=value), json_values
    ),
    max_size=4,
)


@given(odd_calls, st.booleans(), json_values)
def test_no_answer_makes_the_reference_scorers_raise(predicted: list[Any], valid: bool, answer: Any) -> None:
    gold = task(BARS, EVENTS, POSITIONS, ORDER, STEP)
    for scores in (score_calling(gold, predicted, valid, answer), score_planning(gold, predicted, RUN, valid)):
        assert all(0 <= value <= 1 for value in (scores.tm, scores.pa, scores.ta))


@pytest.mark.parametrize("call", [None, "UPQ.rates.query", called(None), called(["UPQ.rates.query"]), said(None), said(["x"]), 7])
def test_a_call_that_is_none_counts_as_unmatched(call: Any) -> None:
    gold = task(RATES)
    assert score_calling(gold, [call]).tm == 0
    assert score_planning(gold, [call], RUN).tm <= 0.2  # a call without a name still has no wrong method


def test_values_too_deep_to_print_match_nothing() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert score_calling(task(RATES), [called("UPQ.rates.query", {"tenors": deep})]).pa == 0
    assert score_planning(task(BARS), [said("UPQ.stock.daily", {"start": deep, "tickers": deep})], RUN).pa == 0
