"""What a worker does after the last card of a grid: tables and pages, in a process of their own,
since the commands that make them print to this process's streams.
"""

from __future__ import annotations

import subprocess

from ktdeval.errors import StoreError
from ktdeval_grid.layout import GridPlace
from ktdeval_grid.records import GridRecord
from ktdeval_grid.subprocess_command import own_command

_ERROR = "ktdeval: error: "


def make_tables(place: GridPlace, _record: GridRecord) -> None:
    """Make tables and pages of a grid. Raises StoreError with the line that says why not."""
    done = subprocess.run(  # noqa: S603 - our own command
        own_command("grid", "tables", str(place.root)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        _, _, message = done.stderr.decode("utf-8", errors="replace").rpartition(_ERROR)
        raise StoreError(
            f"tables and pages: {' '.join(message.split())}; make them by `ktdeval grid tables"
            f" {place.root}`"
        )
