"""Entrants that are asked side by side: never more than allowed, and none after its cutoff."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ktdeval.harness import StepCounts, TranscriptEntry
from ktdeval.registry import Plugins
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import DueDecision, LiveStep, Problem, StepReport
from ktdeval_live.record.decision_records import DecisionRecord, Question
from ktdeval_live.record.folder import LiveFolder
from support.live.live_plans import entrants, plan_of

NAMES = ("one", "two", "three", "four", "five")
CLOSE = "2024-05-31T20:15:00Z"
AFTER_THE_CUTOFF = "2024-06-03T13:20:00Z"


class Counting(InlineAsker):
    """Asks in this process, one at a time, and counts those that wait for it."""

    def __init__(self, folder: LiveFolder, plugins: Plugins, clock: SetClock) -> None:
        super().__init__(folder, plugins, clock)
        self.most = 0
        self._waiting = 0
        self._count = threading.Lock()
        self._turn = threading.Lock()

    def __call__(self, due: DueDecision, limit_s: float) -> Problem | None:
        with self._count:
            self._waiting += 1
            self.most = max(self.most, self._waiting)

        with self._turn:
            answer = self.answer(due, limit_s)

        with self._count:
            self._waiting -= 1

        return answer

    def answer(self, due: DueDecision, limit_s: float) -> Problem | None:
        return super().__call__(due, limit_s)


class Slow(Counting):
    """The first answer takes until after the cutoff."""

    clock: SetClock

    def answer(self, due: DueDecision, limit_s: float) -> Problem | None:
        problem = super().answer(due, limit_s)
        self.clock.time = of_text(AFTER_THE_CUTOFF)
        return problem


def begun(path: Path, plugins: Plugins) -> tuple[LiveFolder, SetClock]:
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    plan = plan_of(entrants=entrants(dict.fromkeys(NAMES, "builtin/random")))
    folder = begin(plan, path, plugins, clock)
    clock.time = of_text(CLOSE)

    return folder, clock


def step(
    folder: LiveFolder, plugins: Plugins, clock: SetClock, asker: Counting, at_once: int
) -> StepReport:
    with folder.lock():
        return LiveStep(folder, plugins, clock, asker, at_once).run()


@pytest.mark.exhaustive
def test_no_more_than_allowed_are_asked_side_by_side(tmp_path: Path, plugins: Plugins) -> None:
    folder, clock = begun(tmp_path / "week", plugins)
    asker = Counting(folder, plugins, clock)
    report = step(folder, plugins, clock, asker, at_once=2)

    assert len(report.decided) == len(NAMES)
    assert 1 <= asker.most <= 2


@pytest.mark.exhaustive
def test_nobody_is_asked_after_its_cutoff(tmp_path: Path, plugins: Plugins) -> None:
    folder, clock = begun(tmp_path / "week", plugins)
    asker = Slow(folder, plugins, clock)
    report = step(folder, plugins, clock, asker, at_once=1)

    assert report.decided == []

    causes = [line.partition(": ")[2] for line in report.gaps]
    assert sorted(causes) == ["deadline"] * 4 + ["late"]


@pytest.mark.parametrize(
    ("provenance", "failures", "words"),
    [
        ("model", {}, "0 orders"),
        ("model_after_retry", {"constraint": 3}, "0 orders after a retry (failures: constraint 3)"),
        ("model", {"silent_role": 11}, "0 orders (failures: silent_role 11)"),
    ],
)
def test_a_day_without_orders_names_what_failed_before(
    provenance: Any, failures: dict[str, int], words: str
) -> None:
    counts = StepCounts(failures=failures).record()
    question = Question(entrant="a", market="m", day="2024-05-30", step=0, data="d", salt="s")
    record = DecisionRecord(
        question=question,
        asked_at=of_text(CLOSE),
        answered_at=of_text(CLOSE),
        provenance=provenance,
        orders=(),
        overall_reason="",
        counts=counts,
        transcript=TranscriptEntry(step=0, exchanges=(), submission=None),
        memory=None,
        shown=(),
    )

    assert record.words == words
