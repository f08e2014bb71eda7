"""Replay of a whole plan on past days, with the same steps and a clock that jumps from close to
close.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from ktdeval.cards import count
from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins
from ktdeval_live.days.clock import in_text
from ktdeval_live.deciding.ask_entrant import EntrantAsker
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.step import DueDecision, LiveStep, Problem
from ktdeval_live.plan import LivePlan
from ktdeval_live.record.folder import LiveFolder


class SetClock:
    """Clock that the replay sets."""

    def __init__(self, time: datetime) -> None:
        self.time = time

    def now(self) -> datetime:
        """Return the time that was last set."""
        return self.time


def replay_plan(
    plan: LivePlan, out: Path, plugins: Plugins, show: Callable[[str], None]
) -> LiveFolder:
    """Start a rehearsal and run a step at each close. Raises KtdevalError."""
    plan = msgspec.structs.replace(plan, kind="rehearsal")
    clock = SetClock(datetime.fromisoformat(f"{plan.first}T00:00:00+00:00") - timedelta(days=20))
    folder = begin(plan, out, plugins, clock)
    for time in _data_times(folder):
        clock.time = time
        with folder.lock():
            report = LiveStep(folder, plugins, clock, InlineAsker(folder, plugins, clock)).run()

        show(
            f"{in_text(time)}: {count(len(report.frozen), 'day')} frozen,"
            f" {count(len(report.decided), 'decision')},"
            f" {len(report.gaps)} gaps"
        )
        for problem in report.problems:
            show(f"problem: {problem}")

    return folder


def _data_times(folder: LiveFolder) -> list[datetime]:
    """Return the times at which a day's data are fetched, in order."""
    times = set()
    for market, planned in folder.plan.markets.items():
        delay = timedelta(minutes=planned.delay_minutes)
        for session in folder.schedule(market).sessions:
            times.add(session.complete_at + delay)
    return sorted(times)


class InlineAsker(EntrantAsker):
    """Asks in this process, without a deadline."""

    def __call__(self, due: DueDecision, limit_s: float) -> Problem | None:  # noqa: ARG002 - no deadline
        """Ask an entry; return why there is no record, or None."""
        try:
            self.ask(due.entry, due.session.day)
        except KtdevalError as error:
            return "failed", str(error)
        return None

    def end(self) -> None:
        """Do nothing: calls in this process run to completion."""
