"""Tables and pages after the last card of a grid, made in a separate process.

A separate process is needed since the commands that make them print to their process's streams.

A worker that may fork does so before it starts threads. The forked process waits until it is
called, and shares the modules that the worker has imported.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence

from ktdeval.cli import CommandStreams, ForkedCommand, plugin_words
from ktdeval.errors import StoreError
from ktdeval.values import Closing
from ktdeval_grid.state.layout import GridPlace
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.state.subprocess_command import own_command

_ERROR = "ktdeval: error: "


def make_tables(plugins: Sequence[str], place: GridPlace, _record: GridRecord) -> None:
    """Make a grid's tables and pages. `plugins`: those that the command line names. Raises
    StoreError with the line that states the reason.
    """
    done = subprocess.run(  # noqa: S603 - our own command
        own_command(*_words(place, plugins)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    _check(place, done.returncode, done.stderr)


class WaitingTables(Closing):
    """A fork of this process that makes a grid's tables and pages when it is called. It must be
    closed with `close`.
    """

    def __init__(self, place: GridPlace, plugins: Sequence[str] = ()) -> None:
        """Start the forked process, which then waits. `plugins`: those that the command line
        names.
        """
        self._plugins = tuple(plugins)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until `close`
        begins_after, self._begins = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        streams = CommandStreams(
            nothing,
            nothing,
            self._errors.fileno(),
            closed=(self._begins,),
            begins_after=begins_after,
        )
        self._process = ForkedCommand(_words(place, plugins), streams)
        os.close(begins_after)
        os.close(nothing)
        self._was_called = False

    def __call__(self, place: GridPlace, record: GridRecord) -> None:
        """Make tables and pages. Raises StoreError, like `make_tables`."""
        if self._was_called:  # the plan was amended in the meantime
            make_tables(self._plugins, place, record)
            return

        self._was_called = True
        os.write(self._begins, b"1")
        code = self._process.wait()
        self._errors.seek(0)
        _check(place, code, self._errors.read())

    def close(self) -> None:
        """End the forked process, unless it is working."""
        os.close(self._begins)
        self._process.wait()
        self._errors.close()


def _words(place: GridPlace, plugins: Sequence[str]) -> tuple[str, ...]:
    return ("grid", "tables", *plugin_words(plugins), str(place.root))


def _check(place: GridPlace, code: int, errors: bytes) -> None:
    """Raise StoreError, with the line that states the reason, if a command has failed."""
    if code:
        _, _, message = errors.decode("utf-8", errors="replace").rpartition(_ERROR)
        raise StoreError(
            f"tables and pages: {' '.join(message.split())}; make them by `ktdeval grid tables"
            f" {place.root}`"
        )
