"""Times in parameters: reading them and comparing them within a tolerance, in each rule set.

Reference rules: any number of final `Z` is dropped, then three forms are tried; offsets, fractions of a second and other
separators do not parse. A date is its midnight. A tolerance that is not listed is five minutes.

Paper rules (A.3; ISO 8601): offsets and fractions are read, a time without an offset is UTC (as all services take it). An
expected date is met by the calendar day where the tolerance is in days. Numbers are minutes. The tolerances are a closed set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal

from ktdeval.jsonio import JsonValue

Tolerance = Literal["exact", "5min", "30min", "60min", "1day", "2day"]
EXACT: Final = "exact"

# Name -> seconds on either side, ends included (A.3).
TOLERANCE_SECONDS: Final[Mapping[str, int]] = MappingProxyType(
    {EXACT: 0, "5min": 300, "30min": 1800, "60min": 3600, "1day": 86_400, "2day": 172_800}
)
_DAY_TOLERANCES: Final[Mapping[str, int]] = MappingProxyType({"1day": 1, "2day": 2})
_REFERENCE_DEFAULT_S: Final = 300
_REFERENCE_FORMS: Final = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M")
_NOT_FIELDS: Final = frozenset({"format", "tolerance"})

_MAX_TIME_CHARS: Final = 64
_DATE: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(Z|[+-]00(:?00)?)?", re.IGNORECASE)
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?", re.IGNORECASE
)


def time_fields(times: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Constrained fields with their expected values: everything but `format` and `tolerance`."""
    return {name: value for name, value in times.items() if name not in _NOT_FIELDS}


def tolerance_of(times: Mapping[str, JsonValue]) -> str:
    """Name of the tolerance, `exact` where none is given."""
    return str(times.get("tolerance", EXACT))


# ---- reference


def reference_time(text: str) -> datetime | None:
    """A time as the public scorers read it, without time zone; None if it is none of their three forms."""
    bare = text.rstrip("Z")
    for form in _REFERENCE_FORMS:
        try:
            return datetime.strptime(bare, form)
        except ValueError:
            continue
    return None


def reference_within(predicted: datetime, expected: datetime, tolerance: str) -> bool:
    """Whether two times are at most the tolerance apart, 5 minutes for a name that is not listed."""
    seconds = TOLERANCE_SECONDS.get(tolerance, _REFERENCE_DEFAULT_S)
    return abs((predicted - expected).total_seconds()) <= seconds


# ---- paper


@dataclass(frozen=True)
class Instant:
    """A date (`moment` is None) or a moment in UTC with the part of a microsecond that `datetime` drops."""

    day: date
    moment: datetime | None = None
    beyond_us: Fraction = Fraction(0)

    def seconds_from(self, other: Instant) -> Fraction:
        """Seconds between two instants, never negative; a date is its midnight UTC."""
        apart = self._start() - other._start()
        whole = Fraction(apart // timedelta(microseconds=1)) + self.beyond_us - other.beyond_us
        return abs(whole) / 1_000_000

    def _start(self) -> datetime:
        return self.moment or datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)


def instant_of(text: str) -> Instant | None:
    """Read an ISO 8601 date, or date and time; without an offset it is UTC. None for anything else.
    A blank may stand for the `T`, seconds may be absent, fractions have up to nine digits, and a date may say that it is UTC.
    """
    text = text.strip()
    if len(text) > _MAX_TIME_CHARS:
        return None
    try:
        if day := _DATE.fullmatch(text):
            return Instant(date.fromisoformat(day[1]))
        if not _MOMENT.fullmatch(text):
            return None
        return _moment_of(text.upper())
    except (ValueError, OverflowError):
        return None


def _moment_of(text: str) -> Instant:
    """Read text of the form `_MOMENT`, in upper case; raises ValueError or OverflowError for a time that does not exist."""
    read = datetime.fromisoformat(text)  # drops what is finer than a microsecond
    moment = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    digits = re.search(r"[.,]([0-9]+)", text)
    beyond = Fraction(int(digits[1][6:]), 10 ** len(digits[1][6:])) if digits and len(digits[1]) > 6 else Fraction(0)
    return Instant(moment.date(), moment, beyond)


def is_within(predicted: JsonValue, expected: JsonValue, tolerance: str) -> bool:
    """Whether a predicted time meets an expected one (paper rules).
    `predicted`: what the call says; anything that is no time does not meet; `expected`: ISO date or time, or a number of minutes;
    `tolerance`: a key of `TOLERANCE_SECONDS`.
    """
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return _minutes_within(predicted, expected, TOLERANCE_SECONDS[tolerance])
    if not isinstance(expected, str) or not isinstance(predicted, str):
        return False
    left, right = instant_of(predicted), instant_of(expected)
    if left is None or right is None:
        return False
    if right.moment is None and tolerance in _DAY_TOLERANCES:
        return abs((left.day - right.day).days) <= _DAY_TOLERANCES[tolerance]
    return left.seconds_from(right) <= TOLERANCE_SECONDS[tolerance]


def _minutes_within(predicted: JsonValue, expected: float, seconds: int) -> bool:
    if isinstance(predicted, bool) or not isinstance(predicted, int | float):
        return False
    try:
        return abs(Fraction(predicted) - Fraction(expected)) * 60 <= seconds
    except (ValueError, OverflowError):
        return False
