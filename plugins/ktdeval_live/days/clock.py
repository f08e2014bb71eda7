"""Clock of a forward test: the machine's clock or, in a rehearsal, the time in a file.

Clocks use whole seconds, as the record does. If the time of a single entry were rounded, it could
contradict the other entries.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta

from ktdeval.errors import UsageError

Zoned = Annotated[datetime, Meta(tz=True)]
"""Timestamp with a time zone, in a file."""


class TimeSource(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        return datetime.now(UTC).replace(microsecond=0)


class FileClock:
    """Time from a file that is read on every call, for rehearsals in which other processes change
    the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        """Return the time in the file in UTC, in whole seconds.

        Raises UsageError if the file has no time with a time zone.
        """
        try:
            time = datetime.fromisoformat(self._path.read_text("utf-8").strip())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--clock {self._path}: expected a time such as 2026-01-05T21:30:00+00:00: {error}"
            ) from error

        if time.tzinfo is None:
            raise UsageError(f"--clock {self._path}: the time needs a zone, such as +00:00")
        return time.astimezone(UTC).replace(microsecond=0)


def in_text(time: datetime) -> str:
    """Return a time in the format of records: UTC, to the second, with a Z."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def of_text(text: str) -> datetime:
    """Parse a time from a record."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
