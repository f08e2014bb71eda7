"""Watchers of a launch: a live table on a terminal, plain lines elsewhere, and JSON for
programs.
"""

from __future__ import annotations

import sys

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ktdeval.cards import clean
from ktdeval.values import Value, encode_canonical
from ktdeval_grid.launch.json_events import UnitEvents
from ktdeval_grid.state.printed_status import headline, status_lines
from ktdeval_grid.state.status import FoundGrid, GridStatus

_PLAIN_REPORTS = 20  #: number of progress lines for a whole grid without a terminal


class LaunchWatcher:
    """Shows a launch while it runs."""

    def begin(self, found: FoundGrid) -> None:
        """Record the state before the launch, so that it is not reported as a change."""

    def show(self, found: FoundGrid, status: GridStatus) -> None:
        """Show the grid's status."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish, and leave the terminal as it was."""


class LiveWatcher(LaunchWatcher):
    """Table that is redrawn at each look."""

    def __init__(self) -> None:
        # uses the raw stream, since the table moves the cursor
        self._console = Console(file=getattr(sys.stderr, "raw", sys.stderr))
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def show(self, _found: FoundGrid, status: GridStatus) -> None:
        """Draw the table."""
        texts = [Text(clean(line)) for line in status_lines(status, self._console.width)]
        texts[0].stylize("bold")
        self._live.update(Group(*texts), refresh=True)

    def close(self) -> None:
        """Leave the last table on the screen, and show the cursor."""
        self._live.stop()


class EventWatcher(LaunchWatcher):
    """Shows units whose state has changed since the last look."""

    def __init__(self) -> None:
        self._events = UnitEvents()

    def begin(self, found: FoundGrid) -> None:
        """Skip the states that units had before the launch."""
        self._events.news(found)


class PlainWatcher(EventWatcher):
    """Prints a line for each failure and stop, and some progress lines."""

    def __init__(self) -> None:
        super().__init__()
        self._reported = -1

    def show(self, found: FoundGrid, status: GridStatus) -> None:
        """Print the changes since the last look."""
        for line in self._events.news(found):
            if line.state in ("failed", "stopped"):
                unit = " ".join(filter(None, (line.system, line.task, line.window)))
                click.echo(f"{line.state}: {unit} seed {line.seed}: {line.error}", err=True)

        stride = max(1, -(-status.total.planned // _PLAIN_REPORTS))
        step = status.total.done // stride
        if step != self._reported:
            self._reported = step
            click.echo(headline(status), err=True)


class JsonWatcher(EventWatcher):
    """Prints one JSON object per line on stdout for each unit whose state has changed."""

    def show(self, found: FoundGrid, _status: GridStatus) -> None:
        """Print units whose state has changed."""
        for line in self._events.news(found):
            print_line(line)


def print_line(line: Value) -> None:
    """Print a JSON object as one line and flush it."""
    click.echo(encode_canonical(line))
    sys.stdout.flush()


def make_watcher(as_json: bool) -> LaunchWatcher:
    """Return the watcher that suits this process's streams."""
    if as_json:
        return JsonWatcher()
    return LiveWatcher() if sys.stderr.isatty() else PlainWatcher()
