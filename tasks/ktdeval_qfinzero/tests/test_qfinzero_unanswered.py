"""A chat turn and a trading session without a valid answer: how they are scored, and how failed
calls bound the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ktdeval.task_api import AnswerRecord, Score
from ktdeval.testing import not_empty
from ktdeval_qfinzero.chat.task import ChatTask
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.session.trading_task import SessionTask
from support.figures.scoring_cases import record

AS_OF = "2025-01-06T21:00:00Z"
ASKED = {
    ChatTask: {"conversation": {"as_of": AS_OF, "instruction": "Go.", "content_id": "0"}},
    SessionTask: {"session": {"as_of": AS_OF, "stocks": ["AVLN"]}},
}


def scores_of(kind: Any, *records: AnswerRecord) -> Mapping[str, Score]:
    """Scores of a task."""
    config = LiveConfig.load({"family": "live", "version": "1", **ASKED[kind]}, "task")
    task = kind("task", config)
    summary: Mapping[str, Score] = task.summarise(records)

    return summary


def answer(step: int, **scores: Any) -> AnswerRecord:
    return record(step, answer={"said": "done"}, scores=scores)


def turn(step: int, calls: int, accepted: int) -> AnswerRecord:
    return answer(step, calls=calls, accepted=accepted)


def session(step: int, problem: str = "", **figures: float) -> AnswerRecord:
    known = dict.fromkeys(("total_return", "sharpe", "max_drawdown")) | figures
    return answer(step, calls=4, accepted=3, trades=2, days=5, problem=problem, **known)


TRADED = session(0, total_return=0.04, sharpe=1.5, max_drawdown=0.02)


def test_a_turn_without_an_answer_has_no_accepted_call() -> None:
    """Two of four calls accepted, an answer without calls, and no valid answer: 1/2 and 0."""
    scores = scores_of(ChatTask, turn(0, 4, 2), turn(1, 0, 0), record(2, "fallback"))

    assert (scores["accepted"].value, scores["accepted"].n) == (0.25, 2)
    assert (scores["answered"].value, scores["unanswered"].value) == (2 / 3, 1 / 3)
    assert scores["calls"].value == 2.0  # of the answered turns: it has no better or worse


def test_a_failed_call_bounds_the_scores_of_a_chat() -> None:
    scores = scores_of(ChatTask, turn(0, 4, 2), record(1, "error"))
    bounds = {"n": 2, "missing": 1, "low": 0.25, "high": 0.75}

    assert (scores["accepted"].value, scores["accepted"].detail) == (
        0.5,
        {"with_failed_calls": bounds},
    )
    assert scores["unanswered"].detail == {"count": 1, "by_provenance": {"error": 1}}


@pytest.mark.parametrize(
    "lacking", [record(1, "fallback"), session(1, problem="no session was made")]
)
def test_a_session_that_was_not_traded_as_asked_leaves_no_return(lacking: AnswerRecord) -> None:
    """A return has no worst figure; the deepest fall is all."""
    scores = scores_of(SessionTask, TRADED, lacking)

    assert (scores["followed"].value, scores["followed"].n) == (0.5, 2)
    assert scores["max_drawdown"].value == pytest.approx((0.02 + 1.0) / 2)

    reason = "1 of 2 have no valid answer, and the score has no worst figure"
    total_return = scores["total_return"]
    sharpe = scores["sharpe"]

    assert (total_return.value, total_return.reason) == (None, reason)
    assert (sharpe.value, sharpe.reason) == (None, reason)


def test_a_failed_call_bounds_the_scores_of_a_session() -> None:
    scores = scores_of(SessionTask, TRADED, record(1, "error"))
    assert scores["total_return"].value == 0.04

    open_ended = {"n": 2, "missing": 1, "low": None, "high": None}
    assert scores["total_return"].detail == {"with_failed_calls": open_ended}

    bounds = scores["max_drawdown"].detail["with_failed_calls"]
    assert bounds == {"n": 2, "missing": 1, "low": 0.01, "high": pytest.approx(0.51)}


@pytest.mark.parametrize("kind", [ChatTask, SessionTask])
def test_without_any_record_each_score_has_a_reason(kind: Any) -> None:
    scores = not_empty(list(scores_of(kind).values()))
    assert all(score.value is None and score.reason for score in scores)
