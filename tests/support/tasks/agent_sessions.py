"""Sessions of agents on prepared replies, and the days and lessons that one that remembers is
shown, made by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ktdeval.errors import ModelError
from ktdeval.harness import Lesson, Observation, Submission, ToolSpec
from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.masking import identities_of
from support.tasks.shown_states import lesson_of, observation_of

DATES = identities_of(NO_MARKET, assets=False, dates=True)
NEWS = ("day", "source", "kind", "stock_ids", "title", "text")


class PreparedSession:
    """A step's session without tools, which takes any submission and remembers what an agent did
    with it; `ask` is its child's.
    """

    tools: Sequence[ToolSpec] = ()
    submit_tool = ToolSpec("submit_action", "Submit.", {})
    tool_budget = 0
    submission_attempts = 2
    may_submit_early = False
    lessons: Sequence[Lesson] = ()
    withhold = staticmethod(DATES.withhold)

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.failures: list[str] = []
        self.remembered: Any = None

    def submission_in_text(self, text: str) -> str | None:
        return None

    def parse_submission(self, text: str) -> Submission:
        return Submission((), json.loads(text)["overall_reason"])

    def keep(self, memory: Any) -> None:
        self.remembered = json.loads(json.dumps(memory))

    def count_failure(self, kind: str) -> None:
        self.failures.append(kind)

    def end_turn(self, answered: bool) -> None:
        if not answered:
            self.failures.append("silent_role")


class Session(PreparedSession):
    """A session in which a reply of None is a failed call, "" one without a submission."""

    conclusion: str | None = ""  #: from outcomes; None: that call fails

    def __init__(self, reason: str | None, lessons: tuple[Lesson, ...] = ()) -> None:
        super().__init__()
        self.reason = reason
        self.lessons = lessons

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        answer = self.conclusion if request.role == "reflection" else self.reason
        if answer is None:
            raise ModelError("timeout", "no reply")

        if request.role == "reflection":
            return Reply(answer)

        calls = (
            (ToolCall("c", "submit_action", json.dumps({"overall_reason": self.reason})),)
            if self.reason
            else ()
        )

        return Reply("" if calls else "no idea", calls)


class Learner(Session):
    """Explains a lesson by the words given, None for a failed call; then decides."""

    def __init__(
        self, words: tuple[str | None, ...], lessons: tuple[Lesson, ...], decides: str | None = "go"
    ) -> None:
        super().__init__(decides, lessons)
        self.words = list(words)

    def ask(self, request: ModelRequest) -> Reply:
        if not self.words:
            return super().ask(request)

        self.asked.append(request)
        if (word := self.words.pop(0)) is None:
            raise ModelError("timeout", "no reply")

        return Reply(word)


def observation(
    step: int,
    *news: tuple[str, str],
    nav: float = 100.0,
    change: float = 1.0,
    **figures: float | None,
) -> Observation:
    """A day's observation with documents (kind, text), and further figures of its asset."""
    rows = [[f"day_+{step}", "feed", kind, ["asset_1"], "", text] for kind, text in news]
    candidates = {
        "columns": ["stock_id", "return_1d_pct", *figures],
        "rows": [["asset_1", change, *figures.values()]],
    }
    state = {
        "day": f"day_+{step}",
        "account": {"nav": nav},
        "candidates": candidates,
        "news": {"columns": NEWS, "rows": rows},
    }

    return observation_of(
        step, "You trade.", f"Day {step}.\n\n```json\n{json.dumps(state)}\n```\n\nDecide.\n"
    )


def lesson(number: int, news: str, change: float, outcome: float) -> Lesson:
    """A day of a warm-up: news, the change to its close, and the change after it."""
    seen = json.loads(
        observation(number, ("news", news), change=change)
        .user.partition("```json")[2]
        .partition("```")[0]
    )
    label = "BUY" if outcome > 0 else "SELL"
    seen["outcomes"] = {
        "columns": ["stock_id", "next_day", "change_pct", "label"],
        "rows": [["asset_1", "next", outcome, label]],
    }
    del seen["account"]

    return lesson_of(
        f"day_{number}",
        f"A day.\n\n```json\n{json.dumps(seen | {'day': f'day_{number}'})}\n```\n\nWhy?\n",
    )
