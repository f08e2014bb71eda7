"""Keys and paths of a grid's files.

parts/<worker>/<system>/   run folder of what one worker ran of one system
runs/<system>/             the gathered run of a system, with its cards
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.stores import Store, open_store
from ktdeval.values import content_hash

PARTS = "parts"
RUNS = "runs"
OPEN_JOB = "open"  #: job that resolves a grid
_DIGITS = 12  #: number of hash digits in a job's name


@dataclass(frozen=True)
class GridPlace:
    """A grid's store and folder."""

    store: Store
    root: Path

    def parts(self, worker: str) -> Path:
        """Return the folder for all parts run by a worker."""
        return self.root / PARTS / worker

    def part(self, worker: str, system: str) -> Path:
        """Return the run folder for the part of a system that a worker runs."""
        return self.parts(worker) / system

    def run(self, system: str) -> Path:
        """Return a system's gathered run."""
        return self.root / RUNS / system

    def workers(self) -> list[str]:
        """Return the names of all workers that have run a part, sorted."""
        try:
            return sorted(entry.name for entry in (self.root / PARTS).iterdir())
        except FileNotFoundError:
            return []


def open_place(out: str | Path) -> GridPlace:
    """Return the place of a grid. Raises UsageError if it is not a folder, since workers
    need one.
    """
    store = open_store(out)
    path = store.local_path("grid.json")
    if path is None:
        raise UsageError(
            f"--out {out}: workers keep run folders there, which need a folder; name one that all"
            " of them see, such as on a network file system"
        )

    return GridPlace(store, path.parent)


def amend_job(number: int) -> str:
    """Return the name of the job that resolves an amendment."""
    return f"{OPEN_JOB}-{number:04}"


def start_job(system: str) -> str:
    """Return the name of the job that asks a system the fixed questions at the start."""
    return f"start.{system}"


def gather_job(system: str, done: Iterable[str]) -> str:
    """Return the name of the job that gathers a system's run from these finished units."""
    return f"gather.{system}.{_units_digest(done)}"


def card_job(system: str, task: str, done: Iterable[str]) -> str:
    """Return the name of the job that makes a card from a system's finished units."""
    return f"card.{system}.{content_hash(task)[:_DIGITS]}.{_units_digest(done)}"


def end_job(done: Iterable[str]) -> str:
    """Return the name of the job that follows the last card."""
    return f"end.{_units_digest(done)}"


def _units_digest(units: Iterable[str]) -> str:
    return content_hash(sorted(units))[:_DIGITS]


def bytes_kept(root: Path) -> int:
    """Return the number of bytes that the files below a folder occupy on disk, counting hard-linked
    files once.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in _files_below(root):
        try:
            found = path.stat(follow_symlinks=False)
        except FileNotFoundError:  # deleted in the meantime
            continue

        if (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * 512

    return total


def _files_below(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield Path(folder) / name
