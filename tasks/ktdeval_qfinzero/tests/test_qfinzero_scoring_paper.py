"""The paper's scoring rules: worked examples of each rule, and invariants of a fair score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

from ktdeval.errors import DataError
from ktdeval.testing import on_each_row
from ktdeval_qfinzero.scoring.paper import align, assign, score
from ktdeval_qfinzero.scoring.types import AnswerScores, GoldCall, GoldTask
from ktdeval_qfinzero.scoring.values import instant_of, is_within
from support.qfinzero.qfinzero_scoring_cases import (
    BARS,
    EVENTS,
    ORDER,
    OTHER,
    POSITIONS,
    RATES,
    RUN,
    STEP,
    called,
    gold_of,
    perfect_answer,
    predicted_call,
    task,
)
from support.tables import number

THREE = task(BARS, EVENTS, ORDER)
REFUSAL = task(GoldCall("REFUSE"), suite="calling")
FAILURE_MODES = {
    *(
        "missing_call",
        "wrong_tool",
        "wrong_family",
        "unknown_tool",
        "missing_param",
        "wrong_value",
        "wrong_time",
        "extra_call",
    ),
    *("false_refusal", "missed_refusal", "malformed_call", "unreadable_reply"),
}


def three(scores: AnswerScores) -> tuple[float, float, float]:
    return scores.tm, scores.pa, scores.ta


def pa(required: Any, given_args: Any) -> float:
    return score(
        task(GoldCall("UPQ.rates.query", required=required)),
        [predicted_call("UPQ.rates.query", given_args)],
        RUN,
    ).pa


def ta(times: Any, given_args: Any) -> float:
    return score(
        task(GoldCall("UPQ.rates.query", times=times)),
        [predicted_call("UPQ.rates.query", given_args)],
        RUN,
    ).ta


# ---- tools and alignment

DAILY = "UPQ.stock.daily"
MINUTE = "UPQ.stock.minute"
RIGHT = predicted_call(DAILY, BARS.required)
SLIP = predicted_call(DAILY, {**BARS.required, "tickers": "KO"})
ANSWERS = {"RIGHT": RIGHT, "SLIP": SLIP}


# RIGHT asks for daily bars of KO and PEP as expected; SLIP leaves PEP out: of three parameters the tickers are half right, so
# (1/2 + 1 + 1) / 3. Figures are TM, PA and TA.
@on_each_row(
    "what, golds, answer, figures, modes",
    (
        "no call where the task can be done",
        ["POSITIONS", "RATES"],
        [],
        [0, 0, 0],
        ["false_refusal"],
    ),
    (
        "a pseudo-call where the task can be done",
        ["POSITIONS", "RATES"],
        [{"tool_name": "REFUSE", "params": {}}],
        [0, 0, 0],
        ["false_refusal"],
    ),
    (
        "another pseudo-call",
        ["POSITIONS", "RATES"],
        [{"tool": "none", "args": {}}],
        [0, 0, 0],
        ["false_refusal"],
    ),
    (
        "one call serves one step",
        ["BARS", "OTHER"],
        ["RIGHT"],
        ["1/2", "1/2", "1/2"],
        ["missing_call"],
    ),
    (
        "a repeat is right where the plan makes the call twice",
        ["BARS", "BARS"],
        ["RIGHT", "RIGHT"],
        [1, 1, 1],
        [],
    ),
    (
        "a repeat is an extra call",
        ["BARS", "OTHER"],
        ["RIGHT", "RIGHT"],
        ["1/2", "1/2", "1/2"],
        ["extra_call", "missing_call"],
    ),
    (
        "a repeat never stands for another family",
        ["BARS", "POSITIONS"],
        ["RIGHT", "RIGHT"],
        ["1/2", "1/2", "1/2"],
        ["extra_call", "missing_call"],
    ),
    (
        "repeats of another family",
        ["POSITIONS", "POSITIONS"],
        [{"tool": "ESP.timeline", "args": {}}, {"tool": "ESP.timeline", "args": {}}],
        [0, 0, 0],
        ["wrong_family"],
    ),
    (
        "a slip made twice is wrong in both",
        ["BARS", "BARS"],
        ["SLIP", "SLIP"],
        [1, "5/6", 1],
        ["wrong_value"],
    ),
    (
        "a slip made once",
        ["BARS", "BARS"],
        ["SLIP"],
        ["1/2", "5/12", "1/2"],
        ["missing_call", "wrong_value"],
    ),
    (
        "a slip made thrice",
        ["BARS", "BARS"],
        ["SLIP", "SLIP", "SLIP"],
        [1, "5/6", 1],
        ["extra_call", "wrong_value"],
    ),
    (
        "steps are identical by what they ask for",
        ["BARS", "NOTED"],
        ["SLIP", "SLIP"],
        [1, "5/6", 1],
        ["wrong_value"],
    ),
    (
        "nothing to compare: the tool",
        ["POSITIONS"],
        [{"tool": "PMB.account.positions", "args": {}}],
        [1, 1, 1],
        [],
    ),
    (
        "nothing to compare: the family",
        ["POSITIONS"],
        [{"tool": "PMB.account.orders", "args": {}}],
        ["1/2", "1/2", "1/2"],
        ["wrong_tool"],
    ),
    (
        "nothing to compare: another family",
        ["POSITIONS"],
        [{"tool": "UPQ.rates.query", "args": {}}],
        [0, 0, 0],
        ["wrong_family"],
    ),
    (
        "nothing to compare: placeholders",
        ["WAITING"],
        [{"tool": "PMB.order.cancel", "args": {}}],
        [1, 1, 1],
        [],
    ),
)
def test_rules_by_example(
    what: str, golds: list[Any], answer: list[Any], figures: list[Any], modes: list[str]
) -> None:
    calls = [ANSWERS[call] if isinstance(call, str) else call for call in answer]
    scores = score(task(*map(gold_of, golds)), calls, RUN)
    assert three(scores) == pytest.approx(tuple(map(number, figures))), what
    assert scores.failure_modes == tuple(modes), what


def test_tool_match_is_1_for_the_tool_half_for_its_family_and_0_otherwise() -> None:
    earned = {DAILY: 1, MINUTE: 0.5, "ESP.timeline": 0, "UPQ.stock.weekly": 0, "upq.stock.daily": 0}
    assert {
        tool: score(task(BARS), [predicted_call(tool, BARS.required)], RUN).tm for tool in earned
    } == earned


def test_repeated_call_matches_no_other_tools_step_and_only_one_of_its_own() -> None:
    def tm(golds: list[GoldCall], *answer: Any) -> float:
        return score(task(*golds), list(answer), RUN).tm

    assert tm([BARS, BARS, OTHER], RIGHT, RIGHT, RIGHT) == 2 / 3
    assert tm([BARS, RATES], RIGHT, RIGHT) == 0.5
    # one call of the family for one of two steps
    assert tm([BARS, BARS], *[predicted_call(MINUTE, BARS.required)] * 2) == 0.25
    assert tm([BARS, OTHER], SLIP, SLIP) == 0.5
    assert [
        score(task(BARS, BARS), [SLIP] * count, RUN).detail["extra_calls"] for count in (2, 3)
    ] == [0, 1]


def test_right_tool_with_wrong_parameters_precedes_its_family() -> None:
    scores = score(
        task(BARS),
        [predicted_call(MINUTE, BARS.required), predicted_call(DAILY, {"tickers": "KO"})],
        RUN,
    )

    assert (scores.tm, scores.detail["steps"][0]["call"]) == (1, 1)
    assert scores.pa == pytest.approx(1 / 6)  # half of the two names, no start, no end


def test_calls_are_aligned_for_the_best_total_not_one_step_after_the_other() -> None:
    # The first step alone would take the call with both names, which the second step needs.
    first, second = (
        GoldCall("UPQ.rates.query", required={"tenors": tenors})
        for tenors in (["2Y"], ["2Y", "10Y"])
    )
    answer = [
        predicted_call("UPQ.rates.query", {"tenors": tenors}) for tenors in (["2Y", "10Y"], ["2Y"])
    ]

    assert score(task(first, second), answer, RUN).pa == 1


# ---- parameters


@on_each_row(
    "required, args, expected",
    ({"a": "x", "b": 1}, {"a": "x"}, 0.5),
    ({"a": "x"}, {"a": " x "}, 1),
    ({"a": "x"}, {"a": "X"}, 0),
    ({"a": 100}, {"a": 100.0}, 1),
    ({"a": 100}, {"a": 100.0099}, 1),
    ({"a": 100}, {"a": 100.02}, 0),
    ({"a": 0}, {"a": 1e-09}, 0),
    ({"a": 1}, {"a": True}, 0),
    ({"a": True}, {"a": True}, 1),
    ({"a": 5}, {"a": "5"}, 0),
    ({"a": "5"}, {"a": 5}, 0),
    ({"a": "x"}, {"a": None}, 0),
    ({"a": None}, {"a": None}, 1),
    ({"a": ["x", "y"]}, {"a": ["y", "x", "x"]}, 1),
    ({"a": ["x", "y"]}, {"a": ["x", "z"]}, 0.3333333333333333),
    ({"a": [1, True]}, {"a": [1.0, 1]}, 0.5),
    (
        {"legs": [{"ratio": 1, "of": {"side": "BUY"}}, {"ratio": 2}]},
        {"legs": [{"ratio": 1.0, "of": {"side": "BUY "}}, {"ratio": True}]},
        0.3333333333333333,
    ),
    ({"a": []}, {"a": []}, 1),
    ({"a": ["x"]}, {"a": "x"}, 0),
    ({"a": {"b": {"c": 1, "d": 2}, "e": 3}}, {"a": {"b": {"c": 1}, "e": 3}}, 0.75),
    ({"a": {"b": 1}}, {"a": 1}, 0),
    ({"a": {}}, {"a": {"b": 1}}, 1),
    ({"a": "x"}, {"a": "x", "more": 1}, 1),
    ({"tickers": "KO,PEP"}, {"tickers": "PEP, KO"}, 1),
    ({"tickers": "KO,PEP"}, {"tickers": ["KO", "PEP"]}, 1),
    ({"tickers": ["KO"]}, {"tickers": "KO"}, 1),
    ({"tickers": "KO,PEP"}, {"tickers": "KO"}, 0.5),
    ({"tickers": "KO"}, {"tickers": "ko"}, 0),
    ({"status_in": "OPEN,FILLED"}, {"status_in": "filled, open"}, 1),
    ({"status_in": ["OPEN"]}, {"status_in": "Open"}, 1),
    ({"status_in": "OPEN"}, {"status_in": "CLOSED"}, 0),
    ({"status_in": "OPEN"}, {"status_in": 5}, 0),
    ({"note": "b, a"}, {"note": "a, b"}, 0),
    ({"t": "2024-03-04T09:30:00Z"}, {"t": "2024-03-04T10:30:00+01:00"}, 1),
    ({"t": "2024-03-04T09:30:00"}, {"t": "2024-03-04T09:30"}, 1),
    ({"t": "2024-03-04"}, {"t": "2024-03-04T00:00:00"}, 0),
    # placeholders take no part
    ({"a": "{session_id}", "b": 1}, {"b": 1}, 1),
    ({"a": "<from_step_1>", "b": 1}, {"a": "x"}, 0),
    ({"a": {"b": "<from_step_1>"}, "c": 1}, {"c": 1}, 1),
    ({"a": "acct-{account_id}", "b": 1}, {"a": 5, "b": 1}, 1),
    ({"a": ["x", "<from_step_1>"]}, {"a": ["x", "y"]}, 1),
    ({"a": ["x", "<from_step_1>"]}, {"a": ["x"]}, 1),
    ({"a": ["x", "<from_step_1>"]}, {"a": ["x", "y", "z"]}, 0.5),
    ({"tickers": "<from_positions>", "b": 1}, {"b": 1}, 1),
)
def test_required_parameters_are_compared_by_value_and_type(
    required: Any, args: Any, expected: float
) -> None:
    assert pa(required, args) == pytest.approx(expected, abs=1e-12)


# ---- times


@on_each_row(
    "tolerance, within, beyond",
    ("exact", "2024-03-04T09:30:00", "2024-03-04T09:30:01"),
    ("5min", "2024-03-04T09:35:00Z", "2024-03-04T09:35:00.001"),
    ("5min", "2024-03-04T09:25:00", "2024-03-04T09:24:59"),
    ("30min", "2024-03-04T10:00", "2024-03-04T10:00:00.000000001"),
    ("60min", "2024-03-04 10:30:00+00:00", "2024-03-04T11:30:00+00:00"),
    ("60min", "2024-03-04T05:30:00-04:00", "2024-03-04T09:30:00-04:00"),
    ("1day", "2024-03-05T09:30:00", "2024-03-05T09:30:01"),
    ("2day", "2024-03-02T09:30:00", "2024-03-02T09:29:59"),
)
def test_tolerances_include_their_ends(tolerance: str, within: str, beyond: str) -> None:
    times = {"start": "2024-03-04T09:30:00", "tolerance": tolerance}
    assert (ta(times, {"start": within}), ta(times, {"start": beyond})) == (1, 0)


@on_each_row(
    "tolerance, given_time, met",
    ("exact", "2024-03-04", 1),
    ("exact", "2024-03-04Z", 1),
    ("exact", "2024-03-04T00:00:00Z", 1),
    ("exact", "2024-03-04T15:30:00Z", 0),
    ("1day", "2024-03-05T23:59:59Z", 1),
    ("1day", "2024-03-05T23:59:59-05:00", 0),
    ("1day", "2024-03-06", 0),
    ("2day", "2024-03-06", 1),
    ("60min", "2024-03-04T01:00:00", 1),
    ("1day", "2024-02-30", 0),
    ("1day", "04/03/2024", 0),
    ("1day", 20_240_304, 0),
    ("1day", None, 0),
)
def test_an_expected_date_is_met_by_calendar_days(
    tolerance: str, given_time: Any, met: float
) -> None:
    assert ta({"start": "2024-03-04", "tolerance": tolerance}, {"start": given_time}) == met


@pytest.mark.parametrize(
    ("minutes", "met"),
    [(120, 1), (150, 1), (90.0, 1), (150.01, 0), ("120", 0), (True, 0), (float("inf"), 0)],
)
def test_the_tolerance_is_applied_to_minutes(minutes: Any, met: float) -> None:
    assert (
        score(
            task(EVENTS),
            [predicted_call("ESP.events.query", {**EVENTS.required, "horizon_minutes": minutes})],
            RUN,
        ).ta
        == met
    )


def test_time_accuracy_averages_fields_without_null_or_placeholders() -> None:
    times = {
        "a": "2024-03-04",
        "b": "2024-03-05",
        "c": None,
        "d": "<from_step_1>",
        "format": "date",
    }

    assert ta(times, {"a": "2024-03-04"}) == 0.5


def test_a_time_within_its_tolerance_costs_nothing_in_parameters_either() -> None:
    """A day late of one day's grace is right in PA and TA; two days late is wrong in both: PA loses
    one of three, TA one of two.
    """
    late = [
        predicted_call(BARS.tool, {**BARS.required, "start": day})
        for day in ("2024-03-05", "2024-03-06")
    ]

    assert [three(score(task(BARS), [call], RUN)) for call in late] == [
        (1, 1, 1),
        (1, pytest.approx(2 / 3), 0.5),
    ]

    near = score(
        task(EVENTS),
        [predicted_call(EVENTS.tool, {**EVENTS.required, "horizon_minutes": 150})],
        RUN,
    )

    assert (near.overall, near.failure_modes) == (100, ())

    untimed = replace(BARS, times={"end": "2024-03-08", "tolerance": "1day"})
    assert score(task(untimed), late[:1], RUN).pa == pytest.approx(2 / 3)


def test_an_unknown_tolerance_is_an_error() -> None:
    wrong = replace(BARS, times={"start": "2024-03-04", "tolerance": "fortnight"})
    with pytest.raises(
        DataError,
        match=r"invented-1: UPQ\.stock\.daily: unknown tolerance 'fortnight'; give one of exact",
    ):
        score(task(wrong), [], RUN)


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+14:00",
        "2024-03-04T25:00:00",
        "2024-03-04T",
        "x" * 100,
    ],
)
def test_an_impossible_time_is_none(text: str) -> None:
    assert instant_of(text) is None


def test_no_time_is_within_one() -> None:
    assert not is_within([], "2024-03-04", "exact")


# ---- refusals and answers that are none


@pytest.mark.parametrize(
    "answer",
    [[], [called("REFUSE")], [predicted_call("cannot_comply"), called(" None ")]],
    ids=["nothing", "a refusal", "two refusals"],
)
def test_a_refusal_earns_everything_where_nothing_can_be_done(answer: list[Any]) -> None:
    assert score(REFUSAL, answer, RUN).overall == 100


@pytest.mark.parametrize(
    "answer",
    [
        [predicted_call(DAILY)],
        [predicted_call("REFUSE"), predicted_call(DAILY)],
        ["REFUSE"],
        [None],
    ],
    ids=["a call", "a refusal and a call", "a text", "null"],
)
def test_anything_else_misses_the_refusal(answer: list[Any]) -> None:
    scores = score(REFUSAL, answer, RUN)
    assert scores.overall == 0
    assert "missed_refusal" in scores.failure_modes


@pytest.mark.parametrize("gold", [REFUSAL, THREE])
def test_unreadable_reply_earns_nothing_even_if_silence_is_right(gold: Any) -> None:
    scores = score(gold, None, RUN)
    assert (scores.overall, scores.failure_modes) == (0, ("unreadable_reply",))


def test_an_item_that_is_no_call_is_reported_and_earns_nothing() -> None:
    rate = "UPQ.rates.query"
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}

    broken = [
        predicted_call(None),
        predicted_call([rate]),
        predicted_call(" "),
        predicted_call(rate, [1]),
        predicted_call(rate, "x"),
    ]
    unfit = [predicted_call(rate, args) for args in (deep, {"a": 10**5000}, {1: 2}, {"a": {1, 2}})]

    for item in (None, 5, rate, [], {}, *broken, *unfit):
        scores = score(task(RATES), [item], RUN)
        assert (three(scores), scores.failure_modes) == ((0, 0, 0), ("malformed_call",))


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "PMB.account.positions"},
        {"tool_name": "PMB.account.positions", "params": None},
    ],
    ids=["without parameters", "null parameters"],
)
def test_a_call_without_parameters_is_one(call: dict[str, Any]) -> None:
    assert score(task(POSITIONS), [call], RUN).overall == 100


# ---- failure modes and reported figures


def bars(**changes: Any) -> dict[str, Any]:
    return predicted_call(
        DAILY,
        {name: value for name, value in {**BARS.required, **changes}.items() if value is not None},
    )


@pytest.mark.parametrize(
    ("answer", "modes"),
    [
        ([RIGHT], ()),
        ([predicted_call(MINUTE, BARS.required)], ("wrong_tool",)),
        ([predicted_call("ESP.timeline")], ("wrong_family",)),
        ([predicted_call("UPQ.stock.weekly", BARS.required)], ("unknown_tool",)),
        ([SLIP], ("wrong_value",)),
        ([bars(start="2024-03-05")], ()),
        ([bars(start="2024-03-07")], ("wrong_time",)),
        ([bars(start=None)], ("missing_param",)),
        ([RIGHT, predicted_call("ESP.timeline")], ("extra_call",)),
        ([RIGHT, None], ("malformed_call",)),
        ([RIGHT, predicted_call("REFUSE")], ("extra_call",)),
        (
            [None, bars(tickers="MCD"), predicted_call("XYZ")],
            ("malformed_call", "unknown_tool", "wrong_value"),
        ),
    ],
)
def test_failure_modes_name_what_the_aligned_call_got_wrong(
    answer: list[Any], modes: tuple[str, ...]
) -> None:
    assert score(task(BARS), answer, RUN).failure_modes == modes
    assert set(modes) <= FAILURE_MODES


def test_unmatched_step_is_missing_unless_another_familys_call_replaces_it() -> None:
    assert score(task(BARS, POSITIONS), [RIGHT], RUN).failure_modes == ("missing_call",)
    assert score(
        task(BARS, POSITIONS), [RIGHT, predicted_call("ESP.timeline")], RUN
    ).failure_modes == ("wrong_family",)


def test_spraying_costs_precision_but_no_score() -> None:
    scores = score(
        task(BARS), [RIGHT, *[predicted_call("UPQ.rates.query", {"n": n}) for n in range(9)]], RUN
    )

    assert scores.overall == 100
    assert (scores.detail["extra_calls"], scores.detail["call_precision"]) == (9, 0.1)


def test_ids_of_the_run_and_of_addresses_are_reported_not_scored() -> None:
    def ids(gold: GoldCall, call: Any) -> tuple[float, Any, Any]:
        scores = score(task(gold), [call], RUN)
        return scores.overall, scores.detail["ids_expected"], scores.detail["ids_right"]

    fixed = replace(POSITIONS, endpoint="/v1/accounts/acct-77/positions")

    assert ids(fixed, called(fixed.tool, endpoint="/v1/accounts/acct-77/positions/")) == (100, 1, 1)
    assert ids(fixed, predicted_call(fixed.tool, {"account_id": "acct-77"})) == (100, 1, 1)
    assert ids(fixed, predicted_call(fixed.tool, {"account_id": "acct-78"})) == (100, 1, 0)
    assert ids(POSITIONS, predicted_call(POSITIONS.tool, {"account_id": RUN["account_id"]})) == (
        100,
        1,
        1,
    )

    foreign = {"order": ORDER.required["order"], "session_id": "other", "account_id": ["x"]}
    assert ids(ORDER, predicted_call(ORDER.tool, foreign)) == (100, 2, 0)

    cancel = GoldCall("PMB.order.cancel", "/v1/orders/{order_id}/cancel", "POST")
    assert ids(cancel, predicted_call(cancel.tool)) == (100, 0, 0)


# ---- laws

POOL = [
    BARS,
    EVENTS,
    POSITIONS,
    ORDER,
    STEP,
    RATES,
    replace(BARS, required={"tickers": "MCD", "start": "2024-03-05"}),
]
tasks = st.lists(st.sampled_from(POOL), min_size=1, max_size=4).map(lambda calls: task(*calls))
args = st.sampled_from([gold.required for gold in POOL]) | st.fixed_dictionaries(
    {},
    optional={
        "tickers": st.sampled_from(["KO", "KO,PEP", ["PEP"], 5]),
        "start": st.sampled_from(["2024-03-04", "2024-03-06", "2024-03-04T00:00:00Z", ""]),
        "horizon_minutes": st.sampled_from([120, 130, 500]),
        "step": st.integers(0, 3),
        "tenors": st.none() | st.just(["2Y"]),
    },
)
predicted_calls = st.builds(
    predicted_call,
    st.sampled_from([gold.tool for gold in POOL] + ["UPQ.stock.minute", "XYZ", "REFUSE"]),
    args,
)
answers = st.lists(predicted_calls | st.sampled_from([None, "x", {"tool": 5}]), max_size=5)


@pytest.mark.exhaustive
@given(tasks, answers, st.randoms(use_true_random=False))
def test_score_ignores_order_and_unrelated_calls(
    gold: GoldTask, answer: list[Any], chance: Any
) -> None:
    before = score(gold, answer, RUN)
    assert all(0 <= value <= 1 for value in three(before))
    assert set(before.failure_modes) <= FAILURE_MODES
    assert (before.overall == 100) <= (
        not set(before.failure_modes) - {"extra_call", "malformed_call", "unknown_tool"}
    )
    assert three(score(gold, [predicted_call("ESP.no.such"), *answer], RUN)) == three(before)
    assert score(gold, [*answer, predicted_call(DAILY, {"x": 1})], RUN).tm >= before.tm

    calls = list(gold.calls)
    shuffled = list(answer)
    chance.shuffle(calls)
    chance.shuffle(shuffled)
    after = score(task(*calls), shuffled, RUN)

    assert (three(after), after.failure_modes) == (three(before), before.failure_modes)
    assert after.detail["call_precision"] == before.detail["call_precision"]


@pytest.mark.exhaustive
@given(tasks, answers.filter(bool))
def test_a_repeat_beyond_equal_requests_changes_no_score(gold: GoldTask, answer: list[Any]) -> None:
    distinct = task(*{repr(call): call for call in gold.calls}.values())
    assert three(score(distinct, [*answer, answer[0]], RUN)) == three(score(distinct, answer, RUN))

    most = max(
        Counter(repr((call.tool, call.required, call.times)) for call in gold.calls).values()
    )

    def n_matched(item: Any) -> int:
        return sum(three(score(task(call), [item], RUN)) == (1, 1, 1) for call in gold.calls)

    enough = [*answer, *[answer[0]] * max(most, *map(n_matched, answer))]

    assert three(score(gold, [*enough, answer[0]], RUN)) == three(score(gold, enough, RUN))


@pytest.mark.exhaustive
@given(tasks, st.sampled_from(("calling", "planning")))
def test_the_perfect_answer_is_perfect_in_either_form_and_each_call_counts(
    gold: GoldTask, suite: Any
) -> None:
    gold = replace(gold, suite=suite)
    answer = perfect_answer(gold, RUN)
    assert score(gold, answer, RUN).overall == 100
    assert score(gold, answer[1:], RUN).overall < 100


# ---- alignment and summaries

small = st.integers(0, 3).map(lambda thirds: Fraction(thirds, 3))


@pytest.mark.exhaustive
@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_the_alignment_is_the_best_of_all_in_lexicographic_order(
    rows: int, columns: int, data: Any
) -> None:
    merits = {
        pair: data.draw(st.tuples(small.map(lambda value: value + 1), small, small))
        for pair in product(range(rows), range(columns))
        if data.draw(st.booleans())
    }

    def total(pairs: Iterable[Any]) -> tuple[Fraction, ...]:
        earned = [merits[pair] for pair in pairs if pair in merits]
        return tuple(map(sum, zip((Fraction(0),) * 3, *earned, strict=True)))

    slots = [*range(columns), *[None] * rows]
    best = max(total(enumerate(chosen)) for chosen in permutations(slots, rows))
    aligned = align(rows, merits).items()

    assert aligned <= merits.keys()
    assert total(aligned) == best


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 20), min_size=n, max_size=n), min_size=1, max_size=6
        )
    )
)
def test_assignments_are_as_good_as_scipys(weights: list[list[int]]) -> None:
    chosen = assign(weights)
    taken = [column for column in chosen if column is not None]
    table = np.array(weights)

    assert len(set(taken)) == len(taken)

    total = sum(weights[row][column] for row, column in enumerate(chosen) if column is not None)
    assert total == table[linear_sum_assignment(table, maximize=True)].sum()
