"""Progress of a run: live bars, one per episode, on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from ktdeval.calls import wait_text
from ktdeval.cards import clean, count
from ktdeval.hookspecs import hookimpl
from ktdeval.task_api import events
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import Event, SampleFinished, StepFinished
from ktdeval.values.progress_reports import Tell, tell_nobody

_PLAIN_REPORTS = 10  # lines per episode without a terminal
_MAX_PLAIN_REPORTS = 20  # lines for all episodes together
_ROOMY = 100  # columns; wider terminals get longer bars
_NARROW = 78  # columns; narrower terminals get shorter titles and no remaining time
_BESIDE_TITLE = 8 + len("100/250") + len("0:00:00") + 4  # short bar, counts, time, gaps
_MILLION = 1_000_000
_LONG_WAIT_S = 60.0  # longer waits are also printed on a permanent line
_PLAIN_WAIT_S = 10.0  # same limit if no bar shows shorter waits

#: descriptions of checks outside episodes
_CHECKS = {
    "check": "check of how the model takes tools",
    "canary": "fixed questions (canary)",
    "batch": "batch",
}


@dataclass(slots=True)
class _EpisodeTotals:
    """Running totals of one episode, as displayed."""

    total: int
    done: int = 0
    orders: int = 0
    rejections: int = 0
    tokens: int = 0
    failed: int = 0
    day: str = ""
    nav: float = 0.0
    currency: str = ""

    def add(self, event: StepFinished | SampleFinished) -> None:
        self.done = event.step + 1
        self.tokens += event.tokens
        self.failed += event.provenance in ("fallback", "error")

        if isinstance(event, StepFinished):
            self.orders += event.orders
            self.rejections += event.rejections
            self.day = event.filled_on
            self.nav = event.nav
            self.currency = event.currency

    def text(self) -> str:
        parts = []
        if self.day:
            parts.append(self.day)
            parts.append(f"NAV {self.nav:,.0f} {self.currency}")
            parts.append(f"{count(self.orders, 'order')}, {self.rejections:,} rejected")

        if self.tokens >= _MILLION:
            parts.append(f"{self.tokens / _MILLION:.2f}M tokens")
        else:
            parts.append(count(self.tokens, "token"))

        if self.failed:
            parts.append(f"{self.failed:,} failed")

        return " · ".join(parts)


class _EpisodeBars(Progress):
    """Progress bars, each with its status on the next line, so that both fit on a narrow
    terminal.
    """

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield each visible bar and its status."""
        for task in self.tasks:
            if not task.visible:
                continue

            yield self.make_tasks_table([task])
            status = task.fields["status"]
            if status:
                yield Text(f"  {status}", style="dim", no_wrap=True, overflow="ellipsis")


def _bar_columns(console: Console) -> list[ProgressColumn]:
    """Return the columns of a bar. Their widths are fixed to keep the bars aligned, since each bar
    is a separate table.
    """
    title_width = 39
    bar_width = 12
    is_narrow = console.width < _NARROW
    if console.width >= _ROOMY:
        title_width = 48
        bar_width = 24
    elif is_narrow:
        bar_width = 8
        title_width = max(console.width - _BESIDE_TITLE, 8)

    title = Column(width=title_width, no_wrap=True, overflow="ellipsis")
    columns = [
        TextColumn("[bold]{task.description}", table_column=title),
        BarColumn(bar_width=bar_width),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    if not is_narrow:
        columns.append(TimeRemainingColumn())

    return columns


@contextlib.contextmanager
def work_shown(console: Console | None = None) -> Iterator[Tell]:
    """Yield a function that shows progress as a bar on stderr. The bar is removed when the work
    ends.

    Nothing is shown if stderr is not a terminal.
    """
    if console is None:
        # the raw stream, because the bar moves the cursor
        console = Console(file=getattr(sys.stderr, "raw", sys.stderr))

    if not console.is_terminal:
        yield tell_nobody
        return

    # rich would redirect anything printed in the meantime to stderr, even output meant for a pipe
    bars = _EpisodeBars(
        *_bar_columns(console), console=console, transient=True, redirect_stdout=False
    )
    bar = bars.add_task("", status="", visible=False)

    def tell(name: str, done: int, total: int) -> None:
        title = escape(clean(name))
        bars.update(bar, description=title, completed=done, total=total, visible=True)

    with bars:
        yield tell


class CheckWaits:
    """Prints a line for each long wait during a model check, before or after the episodes.

    Register it with `Plugins.register_observer`.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        """Show the wait of a check. Other events are left to `ProgressObserver`."""
        if not isinstance(event, events.CheckDelayed):
            return
        if event.wait_s < _PLAIN_WAIT_S:  # shorter waits are not shown at all
            return

        what = _CHECKS.get(event.check, event.check)
        _print_line(self._console, f"{what}: {_wait_text(event)}")


class ProgressObserver:
    """Shows a run's progress on stderr.

    Use it as a context manager, and register it with `Plugins.register_observer`.
    """

    def __init__(self, console: Console, episodes: int) -> None:
        self._console = console
        self._live = console.is_terminal
        # events from concurrent episodes arrive on several threads
        self._lock = threading.Lock()
        self._tallies: dict[str, _EpisodeTotals] = {}
        self._bars: dict[str, TaskID] = {}
        self._batch_text = ""  # the text shown last
        self._episodes = episodes
        self._ended = 0
        self._reported = 0  # number of parts of the run that plain lines have already reported

        self._progress = _EpisodeBars(
            *_bar_columns(console), console=console, disable=not self._live
        )
        self._overall = self._progress.add_task(
            "episodes", total=episodes, status="", visible=episodes > 1
        )

    def __enter__(self) -> ProgressObserver:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        # without a terminal, older versions of rich would print an empty line at the end
        if self._live:
            self._progress.stop()

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        """Show one event. Events from several episodes may arrive on several threads."""
        with self._lock:
            match event:
                case events.EpisodeStarted():
                    self._start(event)
                case StepFinished() | SampleFinished():
                    self._step(event)
                case events.CallDelayed():
                    self._delay(event)
                case events.BatchProgress():
                    self._batch(event)
                case events.EpisodeFinished():
                    self._drop_bar(event.spec)
                    tally = self._tallies.pop(event.spec.id, None)
                    self._ended += 1
                    if event.already_done and self._is_due():
                        self._say(event.spec, "already complete")
                    elif self._live and tally is not None:
                        self._say(event.spec, f"{tally.done}/{tally.total} {tally.text()}")
                case events.EpisodeFailed():
                    self._drop_bar(event.spec)
                    state = "stopped" if event.is_stopped else "failed"
                    self._say(event.spec, f"{state}: {event.error}")

    def _start(self, event: events.EpisodeStarted) -> None:
        tally = _EpisodeTotals(event.total_steps, event.done_steps)
        self._tallies[event.spec.id] = tally
        for step in event.recorded:
            tally.add(step)

        status = tally.text() if event.done_steps else ""
        bar = self._progress.add_task(
            event.spec.label, total=event.total_steps, completed=event.done_steps, status=status
        )
        self._bars[event.spec.id] = bar

        if event.done_steps:
            self._say(event.spec, f"resuming after {event.done_steps} of {event.total_steps} steps")

    def _step(self, event: StepFinished | SampleFinished) -> None:
        tally = self._tallies[event.spec.id]
        tally.add(event)
        self._progress.update(self._bars[event.spec.id], completed=tally.done, status=tally.text())
        if self._live:
            return

        stride = max(1, math.ceil(tally.total / _PLAIN_REPORTS))
        is_report = tally.done % stride == 0 or tally.done == tally.total
        if is_report and self._is_due():
            self._say(event.spec, f"{tally.done}/{tally.total} {tally.text()}")

    def _is_due(self) -> bool:
        """Return whether a line is to be printed. Without a terminal, a run with many episodes
        prints one line for each twentieth of the run.
        """
        if self._live or self._episodes * _PLAIN_REPORTS <= _MAX_PLAIN_REPORTS:
            return True

        parts_done = [tally.done / tally.total for tally in self._tallies.values()]
        done = self._ended + math.fsum(parts_done)
        part = math.floor(_MAX_PLAIN_REPORTS * done / self._episodes + 1e-9)
        is_due = part > self._reported
        self._reported = max(part, self._reported)
        return is_due

    def _delay(self, event: events.CallDelayed) -> None:
        """Show a wait and its cause on the bar. A long wait is also printed on a permanent line."""
        text = _wait_text(event)
        if event.spec.id in self._bars:
            self._progress.update(self._bars[event.spec.id], status=text)

        if event.wait_s >= _line_after_s(self._console):
            self._say(event.spec, text)

    def _batch(self, event: events.BatchProgress) -> None:
        """Show the progress of batches on the bar for all episodes and, whenever it changes, on a
        permanent line.
        """
        text = f"batch: {event.done:,} of {event.total:,} done"
        self._progress.update(self._overall, status=text if event.wait_s else "", visible=True)
        if text != self._batch_text:
            self._batch_text = text
            _print_line(self._console, text)

    def _drop_bar(self, spec: EpisodeSpec) -> None:
        bar = self._bars.pop(spec.id, None)
        if bar is not None:
            self._progress.remove_task(bar)

        self._progress.advance(self._overall)

    def _say(self, spec: EpisodeSpec, text: str) -> None:
        _print_line(self._console, f"{spec.label}: {text}")


def _wait_text(event: events.CallDelayed | events.CheckDelayed) -> str:
    """Return how long a call waits, and why."""
    return wait_text(event.kind, event.wait_s, event.attempt, event.attempts, event.problem)


def _line_after_s(console: Console) -> float:
    """Return the duration in seconds from which a wait is printed on a separate line."""
    if console.is_terminal:
        return _LONG_WAIT_S
    return _PLAIN_WAIT_S


def _print_line(console: Console, text: str) -> None:
    console.print(clean(text), markup=False, highlight=False, soft_wrap=True)
