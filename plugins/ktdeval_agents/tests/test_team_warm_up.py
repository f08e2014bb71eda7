"""Practice days of a team on prepared replies: what is asked, and which answers are remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ktdeval.errors import DataError
from ktdeval.harness import Lesson, ModelRequest, Observation, Reply, ToolCall
from ktdeval.observation import ObservedState, state_of_values
from ktdeval.testing import on_each_row
from ktdeval_agents.role_graph import MemoryRule
from ktdeval_agents.team_memory import TeamMemory
from ktdeval_agents.warmup import practice_state, warm_up
from support.tasks.agent_sessions import PreparedSession

RULE = MemoryRule(same=5)


def day_of(number: int, close: float, change_pct: float) -> ObservedState:
    """A day with two assets at one price."""
    rows = [[asset, close, change_pct] for asset in ("a", "b")]
    return state_of_values(
        {
            "day": f"day_{number}",
            "candidates": {"columns": ["stock_id", "close", "return_1d_pct"], "rows": rows},
            "outcomes": {"columns": ["stock_id", "label"], "rows": [["a", "SELL"], ["b", "SELL"]]},
        }
    )


def first_step(**limits: Any) -> Observation:
    """The first step of a task with some limits."""
    state = state_of_values(
        {
            "day": "day_+0",
            "account": {"nav": 500.0},
            "positions": {"columns": ["stock_id"], "rows": []},
            "last_step": None,
            "constraints": {"max_positions": 2, "min_reason_chars": 3, **limits},
        }
    )
    return Observation(0, "The rules.", "Day 0.", state)


class Session(PreparedSession):
    """A session with two days of a warm-up, on which the model calls the tool with the arguments
    given, one list a day.
    """

    lessons: Sequence[Lesson] = tuple(
        Lesson(f"day_{number}", "What came after it.", day_of(number, close, change))
        for number, close, change in ((-2, 10.0, 1.0), (-1, 11.0, 10.0))
    )

    def __init__(self, *days: list[str]) -> None:
        super().__init__()
        self.days: Iterator[list[str]] = iter(days)
        self.kept: list[Any] = []

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        calls = [
            ToolCall(str(number), "submit_action", arguments)
            for number, arguments in enumerate(next(self.days))
        ]
        return Reply("", tuple(calls))

    def keep(self, memory: Any) -> None:
        self.kept.append(memory)


def answer(**sides: str) -> str:
    decisions = [
        {"stock_id": asset, "decision": side, "confidence": 0.5, "reason": "because"}
        for asset, side in sides.items()
    ]
    return json.dumps({"decisions": decisions, "overall_reason": "practised"})


def practised(
    session: Session, observation: Observation | None = None, days: int | None = None
) -> list[tuple[str, str, str, float | None]]:
    memory = TeamMemory()
    warm_up(memory, RULE, days, observation or first_step(hold="flat"), session)  # type: ignore[arg-type]
    return [(one.day, one.asset, one.decision, one.change_pct) for one in memory.entries]


def test_each_practice_day_is_decided_without_what_came_after_it() -> None:
    session = Session([answer(a="BUY", b="HOLD")], [answer(a="SELL", b="BUY")])
    assert practised(session) == [
        ("day_-2", "a", "BUY", 10.0),
        ("day_-2", "b", "HOLD", 10.0),
        ("day_-1", "a", "SELL", None),  # known at the first step
        ("day_-1", "b", "BUY", None),
    ]

    first, second = (request.messages[-1].content for request in session.asked)
    assert "outcomes" not in first + second
    assert "There are none yet." in first
    assert (
        "- day_-2, a: BUY (practice); the price then changed by +10.00 % to the next close."
        in second
    )
    assert "- day_-2, reason for all: practised" in second
    assert {request.tool_choice for request in session.asked} == {"submit_action"}
    assert [one["entries"][-1]["day"] for one in session.kept] == ["day_-2", "day_-1"]


def test_a_practice_day_has_the_account_and_limits_of_the_first_step() -> None:
    first = first_step(hold="flat").state
    assert first is not None

    state = practice_state(day_of(-1, 10.0, 1.0), first)
    assert list(state.sections) == ["day", "account", "positions", "constraints", "candidates"]
    assert (state.day, state.account.nav, state.limits.hold) == ("day_-1", 500.0, "flat")
    assert state.limits.max_positions == 2


@pytest.mark.parametrize(("days", "asked"), [(None, 2), (1, 1), (0, 0), (9, 2)])
def test_the_latest_days_are_practised(days: int | None, asked: int) -> None:
    session = Session(*[[answer(a="BUY", b="HOLD")]] * asked)
    practised(session, days=days)

    assert [request.state.day for request in session.asked if request.state] == [
        "day_-2",
        "day_-1",
    ][2 - asked :]


def test_a_team_without_practice_does_not_ask_for_the_days_of_a_warm_up() -> None:
    class NoLessons(Session):
        @property
        def lessons(self) -> Sequence[Lesson]:  # type: ignore[override]
            raise DataError("the warm-up begins before the market")

    assert practised(NoLessons(), days=0) == []

    with pytest.raises(DataError):
        practised(NoLessons())


# Arguments of the calls in one reply, on a day that shows the assets a and b.
@on_each_row(
    "arguments, failure",
    ([], "no_submission"),
    (["not JSON"], "schema"),
    (["{}"], "schema"),
    # two calls
    (
        [
            (
                '{"decisions": [{"stock_id": "a", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}, {"stock_id": "b", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}], "overall_reason": "x"}'
            ),
            '{"decisions": [], "overall_reason": "x"}',
        ],
        "schema",
    ),
    # nothing on b
    (
        [
            (
                '{"decisions": [{"stock_id": "a", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}], "overall_reason": "x"}'
            )
        ],
        "schema",
    ),
    # of an asset that is not shown
    (
        [
            (
                '{"decisions": [{"stock_id": "a", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}, {"stock_id": "c", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}], "overall_reason": "x"}'
            )
        ],
        "schema",
    ),
    (
        [
            (
                '{"decisions": [{"stock_id": "a", "decision": "LATER", "confidence": 0.5, '
                '"reason": "because"}, {"stock_id": "b", "decision": "BUY", "confidence": 0.5, '
                '"reason": "because"}], "overall_reason": "x"}'
            )
        ],
        "schema",
    ),
)
def test_an_answer_that_is_not_valid_is_counted_and_leaves_nothing(
    arguments: list[str], failure: str
) -> None:
    session = Session(arguments, [answer(a="BUY", b="HOLD")])
    assert [day for day, *_ in practised(session)] == ["day_-1", "day_-1"]
    assert session.failures == [failure, "silent_role"]
