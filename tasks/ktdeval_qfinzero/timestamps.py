"""Timestamps: integer nanoseconds since 1970 in UTC, their string form in the services, and a
workspace's clock.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from ktdeval_qfinzero.errors import conflict, invalid

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND

_EPOCH = date(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})T((?:[01]\d|2[0-3]):\d{2}(?::\d{2})?)(\.\d{1,9})?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII,
)
_YEARS = (1970, 2200)


def parse_day(text: str, field: str) -> date:
    """Parse a calendar day such as `2025-01-06`. Raises ServiceError `invalid_argument` if the
    string is not a day.
    """
    day = _iso_day(text) if _DAY.fullmatch(text) else None
    if day is None:
        raise invalid(field, "expected a calendar day, YYYY-MM-DD")
    return day


def parse_moment(text: str, field: str, *, end_of_day: bool = False) -> int:
    """Parse a timestamp such as `2025-01-06T14:30:00Z` (UTC if no offset is given), or a day. A day
    means its midnight or, with `end_of_day`, its last nanosecond. Raises ServiceError
    `invalid_argument` if the string is neither.
    """
    if _DAY.fullmatch(text) and (day := _iso_day(text)) is not None:
        return day_start(day) + (DAY - 1 if end_of_day else 0)

    match = _MOMENT.fullmatch(text)
    if match is not None and _iso_day(match[1]) is not None:
        with suppress(ValueError):
            moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4] or 'Z'}")
            nanoseconds = int((match[3] or ".0")[1:].ljust(9, "0"))
            return (moment - _EPOCH_UTC) // timedelta(seconds=1) * SECOND + nanoseconds

    raise invalid(
        field,
        "expected a moment, YYYY-MM-DDTHH:MM:SSZ (UTC when no offset is given), or a day,"
        " YYYY-MM-DD",
    )


def moment_text(ns: int) -> str:
    """Format a timestamp as `2025-01-06T14:30:00Z`; a fraction is written only if it is not
    zero.
    """
    seconds, rest = divmod(ns, SECOND)
    text = (_EPOCH_UTC + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}Z" if rest else f"{text}Z"


def day_start(day: date) -> int:
    """Return the midnight, in UTC, at which a day begins."""
    return (day - _EPOCH).days * DAY


def day_of(ns: int) -> date:
    """Return the calendar day of a timestamp, in UTC."""
    return _EPOCH + timedelta(days=ns // DAY)


def _iso_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if _YEARS[0] <= day.year <= _YEARS[1] else None


class Clock:
    """A clock that moves only forward. `as_of_ns`: its start time."""

    def __init__(self, as_of_ns: int) -> None:
        self._as_of_ns = as_of_ns

    @property
    def as_of_ns(self) -> int:
        """Current time."""
        return self._as_of_ns

    def advance(self, to_ns: int) -> None:
        """Move forward to a time. Raises ServiceError `conflict` if the time lies in the past."""
        if to_ns < self._as_of_ns:
            raise conflict(
                f"the clock stands at {moment_text(self._as_of_ns)} and can't go back to"
                f" {moment_text(to_ns)}"
            )
        self._as_of_ns = to_ns
