"""Observer that shows the progress of a run: a live bar an episode on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from ktdeval.cards import clean
from ktdeval.contracts import events
from ktdeval.contracts.events import Event, SampleFinished, StepFinished
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.hookspecs import hookimpl

_PLAIN_REPORTS = 10  # lines an episode where there is no terminal to redraw
_ROOMY = 100  # columns from which a bar may be longer
_MILLION = 1_000_000
_LONG_WAIT_S = 60.0  # from which a wait is worth a line that stays
_PLAIN_WAIT_S = 10.0  # the same where there is no bar to name shorter ones on


@dataclass(slots=True)
class _Tally:
    """Running totals of one episode, as shown."""

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
            self.day, self.nav, self.currency = event.filled_on, event.nav, event.currency

    def text(self) -> str:
        tokens = f"{self.tokens / _MILLION:.2f}M" if self.tokens >= _MILLION else f"{self.tokens:,}"
        parts = []
        if self.day:
            parts = [self.day, f"NAV {self.nav:,.0f} {self.currency}", f"{self.orders:,} orders, {self.rejections:,} rejected"]
        parts += [f"{tokens} tokens", *([f"{self.failed:,} failed"] if self.failed else [])]
        return " · ".join(parts)


class _Bars(Progress):
    """Bars, each with the line of its status below it, which a narrow terminal has room for as well."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield what is drawn."""
        for task in self.tasks:
            if task.visible:
                yield self.make_tasks_table([task])
                if status := task.fields["status"]:
                    yield Text(f"  {status}", style="dim", no_wrap=True, overflow="ellipsis")


class ProgressObserver:
    """Draws a run's progress on stderr. Use as a context manager and register with `Plugins.register_observer`."""

    def __init__(self, console: Console, episodes: int) -> None:
        self._console, self._live, self._lock = console, console.is_terminal, threading.Lock()
        self._tallies: dict[str, _Tally] = {}
        self._bars: dict[str, TaskID] = {}
        roomy = console.width >= _ROOMY
        title = Column(width=48 if roomy else 39, no_wrap=True, overflow="ellipsis")  # fixed, so that bars stand in line
        self._progress = _Bars(
            TextColumn("[bold]{task.description}", table_column=title),
            BarColumn(bar_width=24 if roomy else 12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._overall = self._progress.add_task("episodes", total=episodes, status="", visible=episodes > 1)

    def __enter__(self) -> ProgressObserver:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:  # without a terminal, older versions of rich end with an empty line
            self._progress.stop()

    @hookimpl
    def ktdeval_event(self, event: Event) -> None:
        """Show one event; events of several episodes may come from several threads."""
        with self._lock:
            match event:
                case events.EpisodeStarted():
                    self._start(event)
                case StepFinished() | SampleFinished():
                    self._step(event)
                case events.CallDelayed():
                    self._delay(event)
                case events.EpisodeFinished():
                    self._drop_bar(event.spec)
                    tally = self._tallies.pop(event.spec.id, None)
                    if event.already_done:
                        self._say(event.spec, "already complete")
                    elif self._live and tally is not None:
                        self._say(event.spec, f"{tally.done}/{tally.total} {tally.text()}")
                case events.EpisodeFailed():
                    self._drop_bar(event.spec)
                    self._say(event.spec, f"failed: {event.error}")

    def _start(self, event: events.EpisodeStarted) -> None:
        self._tallies[event.spec.id] = tally = _Tally(event.total_steps, event.done_steps)
        for step in event.recorded:
            tally.add(step)
        status = tally.text() if event.done_steps else ""
        bar = self._progress.add_task(event.spec.label, total=event.total_steps, completed=event.done_steps, status=status)
        self._bars[event.spec.id] = bar
        if event.done_steps:
            self._say(event.spec, f"resuming after {event.done_steps} of {event.total_steps} steps")

    def _step(self, event: StepFinished | SampleFinished) -> None:
        tally = self._tallies[event.spec.id]
        tally.add(event)
        self._progress.update(self._bars[event.spec.id], completed=tally.done, status=tally.text())
        stride = max(1, -(-tally.total // _PLAIN_REPORTS))
        if not self._live and (tally.done % stride == 0 or tally.done == tally.total):
            self._say(event.spec, f"{tally.done}/{tally.total} {tally.text()}")

    def _delay(self, event: events.CallDelayed) -> None:
        """Show a wait and its cause: on the bar at once, as a line of its own only when it is a long one."""
        minutes, rest = divmod(round(event.wait_s), 60)
        wait = f"{minutes} min {rest} s" if minutes else f"{event.wait_s:.0f} s"
        text = f"waiting {wait}: {event.kind.replace('_', ' ')}, attempt {event.attempt} of {event.attempts}"
        if event.spec.id in self._bars:
            self._progress.update(self._bars[event.spec.id], status=text)
        if event.wait_s >= (_LONG_WAIT_S if self._live else _PLAIN_WAIT_S):
            self._say(event.spec, text)

    def _drop_bar(self, spec: EpisodeSpec) -> None:
        if (bar := self._bars.pop(spec.id, None)) is not None:
            self._progress.remove_task(bar)
        self._progress.advance(self._overall)

    def _say(self, spec: EpisodeSpec, text: str) -> None:
        self._console.print(clean(f"{spec.label}: {text}"), markup=False, highlight=False, soft_wrap=True)
