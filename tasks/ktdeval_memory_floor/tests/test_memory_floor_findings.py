"""Shares, intervals and sentences of the memory floor, against figures by hand and statsmodels."""

from __future__ import annotations

from typing import Any

import pytest
from statsmodels.stats.proportion import proportion_confint

from ktdeval.harness.chat_messages import USAGE_FIELDS
from ktdeval.task_api import VERDICT, AnswerRecord
from ktdeval.values import from_plain
from ktdeval_memory_floor.findings import DEFINITIONS, SAMPLE_SCORES, summarise

COUNTED = ("tool_calls", "tool_calls_valid", "submissions", "unmask_attempts", *USAGE_FIELDS)


def record(number: int, facts: dict[str, Any], is_right: bool | None) -> AnswerRecord:
    """One answer with probability 0.6; None: without a valid answer."""
    score = f"{facts['kind']}_control" if facts["control"] else str(facts["kind"])
    scores: dict[str, Any] = {}
    answer = None
    if is_right is not None:
        answer = {"answer": "A", "probability": 0.6}
        scores = dict.fromkeys(SAMPLE_SCORES)
        scores |= {score: is_right, "copied_probability": False}
        if not facts["control"]:
            scores[f"{facts['kind']}_brier"] = (0.6 - is_right) ** 2

    fields: dict[str, Any] = {
        "step": number,
        "sample": f"s{number}",
        "provenance": "fallback" if answer is None else "model",
        "answer": answer,
        "facts": facts,
        "scores": scores,
        "failures": {},
        **dict.fromkeys(COUNTED, 0),
    }
    return from_plain(fields, AnswerRecord, "test")


def codes(right: int, wrong: int, silent: int = 0, control: bool = False) -> list[AnswerRecord]:
    """Answers to questions of the kind code."""
    answers: list[bool | None] = [True] * right + [False] * wrong + [None] * silent
    records = []
    for number, is_right in enumerate(answers):
        facts = {
            "kind": "code",
            "control": control,
            "code": f"{600000 + number}.SH",
            "spelled_share": 0.25,
        }
        records.append(record(number, facts, is_right))

    return records


def sentence(records: list[AnswerRecord], is_masked: bool = False, kind: str = "code") -> str:
    return str(summarise(records, is_masked=is_masked)[kind].detail[VERDICT])


def test_share_interval_and_brier_score_by_hand() -> None:
    """Wilson's interval of 10 of 40 by hand: z = 1.959964, z² = 3.841459, centre (0.25 + z²/80) /
    (1 + z²/40) = 0.298018 / 1.096036 = 0.271905; reach 1.959964 √(0.1875/40 + z²/6400) / 1.096036
    = 0.130034. So 0.141871 to 0.401939.
    """
    scores = summarise(codes(10, 30), is_masked=False)

    assert scores["code"].value == 0.25
    assert scores["code"].n == 40
    assert scores["code"].baseline == 0.25
    interval = scores["code"].interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.141871, 0.401939), abs=1e-6)
    assert (interval.low, interval.high) == pytest.approx(
        proportion_confint(10, 40, method="wilson")
    )
    # 10 answers (0.6 - 1)² = 0.16, 30 answers 0.6² = 0.36; the constant: 0.25 · 0.75
    assert scores["code_brier"].value == pytest.approx((10 * 0.16 + 30 * 0.36) / 40)
    assert scores["code_brier"].baseline == pytest.approx(0.1875)
    assert scores["month"].value is None
    assert "no whole month" in scores["month"].reason
    assert list(scores) == list(DEFINITIONS)


@pytest.mark.parametrize("right", range(0, 101, 10))
def test_a_memory_is_claimed_only_above_chance_and_with_controls_that_are_read(right: int) -> None:
    """35 of 100: 0.2636 … ; 34 of 100: 0.2548 …; 33 of 100: 0.2460 …"""
    low, _ = proportion_confint(right, 100, method="wilson")
    records = codes(right, 100 - right) + codes(40, 0, control=True)

    assert sentence(records).startswith("remembers: ") == (low > 0.25)
    assert sentence(records, True).startswith("above guessing behind the mask") == (low > 0.25)


def test_the_claim_begins_where_the_lower_end_passes_chance() -> None:
    controls = codes(40, 0, control=True)
    assert sentence(codes(33, 67) + controls).startswith("not above guessing: 33 of 100 right")
    assert sentence(codes(34, 66) + controls).startswith("remembers: 34 of 100 right")


def test_the_upper_end_bounds_a_memory() -> None:
    """25 of 100: up to 0.3430 right, so at most (0.3430 - 0.25) / 0.75 = 12.4 % remembered."""
    said = sentence(codes(25, 75) + codes(40, 0, control=True))
    assert "a memory of at most 12.4 % of these facts if the others are guessed blindly" in said


@pytest.mark.parametrize("right", [0, 10, 29, 30, 40])
def test_a_failed_control_is_no_evidence_whatever_the_answers(right: int) -> None:
    for answers in (codes(0, 100), codes(100, 0)):
        said = sentence(answers + codes(right, 40 - right, control=True))
        assert said.startswith("no evidence: the control was failed") == (right < 30)


def test_without_a_control_there_is_no_evidence() -> None:
    silent = codes(0, 0, silent=3, control=True)
    assert sentence(codes(100, 0) + silent).startswith("no evidence: no control was answered")


def test_questions_without_an_answer_are_counted_and_no_wrong_answers() -> None:
    records = codes(20, 30, silent=50) + codes(40, 0, control=True)
    scores = summarise(records, is_masked=False)

    assert (scores["code"].value, scores["code"].n) == (0.4, 50)
    assert scores["code"].detail["with_unanswered"] == {"n": 100, "low": 0.2, "high": 0.7}
    assert scores["unanswered"].value == 50 / 140
    few = sentence(codes(12, 38, silent=50) + codes(40, 0, control=True))
    assert few.startswith(
        "no evidence: too few questions were answered; 12 of 50 right (100 asked)"
    )


def test_a_code_that_is_spelled_like_the_name_is_no_memory() -> None:
    records = codes(90, 10) + codes(40, 0, control=True)
    for each in records:
        each.facts["spelled_share"] = 0.9

    scores = summarise(records, is_masked=False)
    assert scores["code"].baseline == pytest.approx(0.9)
    assert str(scores["code"].detail[VERDICT]).startswith("not above guessing")


def test_a_fact_that_is_asked_twice_counts_once() -> None:
    once = codes(10, 30)
    assert summarise(once + once, is_masked=False)["code"].n == 40


# ---- closes


def closes(right: int, wrong: int, level: int) -> list[AnswerRecord]:
    """Answers about closes, of which the asset's median close gets the first `level` right."""
    records = []
    for control in (False, True):
        for number in range(right + wrong):
            facts = {
                "kind": "close",
                "control": control,
                "code": f"{600000 + number}.SH",
                "day": "2024-03-01",
                "constant_share": 0.1,
                "level_is_right": number < level,
            }
            records.append(record(number, facts, control or number < right))

    return records


@pytest.mark.parametrize("level", range(0, 101, 10))
def test_a_memory_of_price_levels_is_not_taken_for_one_of_days(level: int) -> None:
    """50 of 100 right: from 0.4038 on, more than a level that is right in 40 %."""
    said = sentence(closes(50, 50, level), kind="close")

    assert said.startswith("remembers: 50 of 100 right")
    assert ("more than levels of prices" in said) == (level <= 40)
    assert ("levels of prices may be all that is remembered" in said) == (level > 40)


def test_a_kind_that_was_not_asked_is_named() -> None:
    assert sentence(codes(3, 0), kind="close") == (
        "no evidence: no question of the kind close was asked; the run was cut short, or the market"
        " has no close in the window"
    )


# ---- months


def months(by_month: dict[str, tuple[int, int, float]], control: bool = False) -> list[Any]:
    """Answers about months: right answers, wrong ones, share of assets that rose."""
    records: list[AnswerRecord] = []
    for month, (right, wrong, rising) in by_month.items():
        for number in range(right + wrong):
            facts = {
                "kind": "month",
                "control": control,
                "code": f"{600000 + number}.SH",
                "month": month,
                "right": "rise" if len(records) % 2 else "fall",
                "rising_share": 0.5,
                "rising_share_of_month": rising,
            }
            records.append(record(len(records), facts, number < right))

    return records


def test_a_guess_by_month_is_not_taken_for_a_memory() -> None:
    """Four months that rise or fall almost as one: a model that guesses three of four months has 75
    of 100 right, of which the plain interval (0.66 …) would make a memory. As clusters, 100
    questions are worth 1 + (25 - 1) · 0.64 = 16.36 times fewer.
    """
    by_month = {
        "2024-02": (23, 2, 0.9),
        "2024-03": (22, 3, 0.1),
        "2024-04": (23, 2, 0.9),
        "2024-05": (7, 18, 0.1),
    }
    records = months(by_month) + months({"2024-02": (40, 0, 0.9)}, control=True)
    score = summarise(records, is_masked=False)["month"]

    assert score.detail["design_effect"] == pytest.approx(16.36)
    assert score.interval is not None
    assert score.interval.low is not None
    assert score.interval.low > 0.65
    assert str(score.detail[VERDICT]).startswith("not above guessing")


def test_months_in_which_assets_go_their_own_way_count_in_full() -> None:
    by_month = {"2024-02": (35, 15, 0.5), "2024-03": (40, 10, 0.5)}
    records = months(by_month) + months({"2024-02": (40, 0, 0.5)}, control=True)
    score = summarise(records, is_masked=False)["month"]

    assert score.detail["design_effect"] == 1.0
    assert score.detail["rising_in_sample"] == score.detail["rising_in_market"] == 0.5
    assert str(score.detail[VERDICT]).startswith("remembers")
