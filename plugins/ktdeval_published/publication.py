"""Whether decisions were published before their prices: from git, a table of commits, or the clocks
of logs.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import Venue, close_instants
from ktdeval.values import loads_untrusted, read_plain
from ktdeval_published.clone import Clone
from ktdeval_published.recipe import BoardRecipe, Published

Status = Literal["before", "after", "unknown"]
#: a clock without a zone may be 14 hours ahead of UTC or 12 behind
_EARLIEST_ZONE = timezone(timedelta(hours=14))
_LATEST_ZONE = timezone(timedelta(hours=-12))
_OPEN_TIMES = {"XSHG": "09:30", "XNYS": "09:30", "24/7": "00:00"}
_MOST = 1 << 26


@dataclass(frozen=True)
class FirstCommits:
    """First appearance of each file, by its path; None without commits."""

    committed: Mapping[str, datetime] | None
    source: str  #: in words

    def status(self, path: str, deadline: datetime) -> Status:
        """Return whether a file was published before a moment."""
        if self.committed is None or path not in self.committed:
            return "unknown"
        return "before" if self.committed[path] < deadline else "after"


def read_publication(recipe: BoardRecipe, clone: Clone, commits: Path | None) -> FirstCommits:
    """Return the first commits of a board's files: from git, or from a table of commits."""
    if recipe.published.by not in ("commits", "git"):
        return FirstCommits(None, "")
    if clone.git is not None:
        return FirstCommits(
            _of_git(clone, recipe.published), "first commits in the clone's history"
        )
    if commits is not None:
        return FirstCommits(_of_table(commits), f"first commits in {commits.name}")
    return FirstCommits(None, "no commits: the folder has no git, and no --commits FILE was given")


def _of_git(clone: Clone, published: Published) -> dict[str, datetime]:
    """Return when each file of the history first appeared, by committer's time.

    A committer sets this clock. It is evidence of the author's, not of an independent witness.
    """
    assert clone.git is not None, "the clone has git"
    top = published.path.split("{", 1)[0].rstrip("/") or "."
    list_words = clone.git.read(
        "log", "--reverse", "--no-renames", "--diff-filter=A", "--format=%x00%cI", "--name-only",
        "-z", "--", top,
    )  # fmt: skip
    first: dict[str, datetime] = {}
    moment: datetime | None = None
    for part in list_words.decode("utf-8", "replace").replace("\n", "\0").split("\0"):
        if not part:
            continue
        found = _moment_or_none(part)
        if found is not None:
            moment = found
        elif moment is not None:
            first.setdefault(part, moment)
    return first


def _moment_or_none(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _of_table(path: Path) -> dict[str, datetime]:
    """Read a table with the columns committed_utc and path."""
    try:
        data = read_plain(path, _MOST)
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, ValueError) as error:
        raise DataError(f"--commits {path}: can't be read: {error}") from error

    reader = csv.DictReader(io.StringIO(text))
    for name in ("committed_utc", "path"):
        if name not in (reader.fieldnames or ()):
            raise DataError(f"--commits {path}: has no column {name}")

    first: dict[str, datetime] = {}
    for row in reader:
        moment = datetime.fromisoformat(row["committed_utc"].replace("Z", "+00:00"))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if row["path"] not in first or moment < first[row["path"]]:
            first[row["path"]] = moment
    return first


def close_of(day: str, venue: Venue) -> datetime:
    """Return the close of a day at a venue, in UTC; on a half day, the early close."""
    (instant,) = close_instants(venue, np.array([day], dtype="datetime64[D]"))
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(instant))


def deadline_of(decision: str, venue: Venue) -> datetime:
    """Return the moment at which the money of a decision starts, in UTC: its own stamp, or the open
    of its day.
    """
    text = decision.strip().replace(" ", "T")
    if len(text) == 10:
        text += f"T{_OPEN_TIMES.get(venue.calendar, '00:00')}"
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(venue.zone)).astimezone(UTC)


def status_of_clock(clock: str, deadline: datetime) -> Status:
    """Return whether a clock was before a deadline. A clock without a zone counts only if every
    zone gives the same answer.
    """
    try:
        moment = datetime.fromisoformat(clock)
    except ValueError:
        return "unknown"

    if moment.tzinfo is not None:
        return "before" if moment < deadline else "after"
    if moment.replace(tzinfo=_LATEST_ZONE) < deadline:
        return "before"
    if moment.replace(tzinfo=_EARLIEST_ZONE) >= deadline:
        return "after"
    return "unknown"


def log_clock(data: bytes, field: str) -> str | None:
    """Return the first clock of a log of JSON lines; None if there is none."""
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            record = loads_untrusted(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get(field), str):
            return str(record[field])
    return None


def joint(statuses: Iterable[Status]) -> Status:
    """Return the status of a day with several decisions: after, if any was after; before, if all
    were.
    """
    found = set(statuses)
    if "after" in found:
        return "after"
    return "before" if found == {"before"} else "unknown"
