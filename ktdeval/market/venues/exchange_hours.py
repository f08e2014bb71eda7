"""Hours of an exchange's sessions, and the closes of a venue, which are earlier on half days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market.venues.close_times import Close
from ktdeval.market.venues.venue import NEVER_CLOSES, Venue
from ktdeval.values.options.config_options import near_matches

if TYPE_CHECKING:
    import pandas as pd

DayArray = npt.NDArray[np.datetime64]
IntArray = npt.NDArray[np.int64]
_NEVER = int(np.iinfo(np.int64).max)
_MARGIN = np.timedelta64(14, "D")  # enough for one-day ranges


@dataclass(frozen=True, eq=False)
class SessionHours:
    """S sessions of an exchange in ascending order, with their open and close times (UTC,
    datetime64[m]); short sessions have an early close.
    """

    days: DayArray  #: [S]
    opens: npt.NDArray[np.datetime64]  #: [S]
    closes: npt.NDArray[np.datetime64]  #: [S]


_NO_SESSIONS = SessionHours(
    np.empty(0, "datetime64[D]"), np.empty(0, "datetime64[m]"), np.empty(0, "datetime64[m]")
)


def parse_day(
    text: str | np.datetime64, where: str = "", kind: type[KtdevalError] = DataError
) -> np.datetime64:
    """Return a calendar day from a string such as `2024-01-02`, the one date format that sorts as
    text. Raises `kind` if the string has any other format; the message starts with `where`.
    """
    try:
        day = date.fromisoformat(str(text))  # Python 3.11+ also accepts `20240102`, `2024-W01-2`
        if str(day) != str(text):
            raise ValueError(text)

        return np.datetime64(day, "D")
    except ValueError as error:
        raise kind(f"{where}{str(text)!r} is not a date; write it as 2024-01-02") from error


def session_hours(
    first: str | np.datetime64, last: str | np.datetime64, exchange: str = "XSHG"
) -> SessionHours:
    """Return an exchange's sessions from `first` to `last`, with their hours. Raises the same
    errors as `sessions`.
    """
    start = parse_day(first)
    end = parse_day(last)
    if start > end:
        raise DataError(f"sessions of {exchange}: {start} lies after {end}; swap them")

    # Heavy: this module builds its pandas calendars on import, and most commands need no calendar.
    import exchange_calendars  # noqa: PLC0415
    from exchange_calendars import errors  # noqa: PLC0415

    known = exchange_calendars.get_calendar_names(include_aliases=False)
    if exchange not in known:
        raise UsageError(f"exchange {exchange!r} is unknown{near_matches(exchange, known)}")

    try:
        # Use whole decades, so that ranges share a calendar: building one takes 0.1 s whatever its
        # length.
        try:
            hours = _calendar_hours(
                exchange, f"{str(start - _MARGIN)[:3]}0-01-01", f"{str(end)[:3]}9-12-31"
            )
        except ValueError:  # the range extends beyond the calendar
            hours = _calendar_hours(exchange, str(start - _MARGIN), str(end))
    except errors.NoSessionsError:
        return _NO_SESSIONS
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise DataError(
            f"the calendar of {exchange} does not cover {start}…{end}: {reason}; choose days inside,"
            " or upgrade exchange_calendars"
        ) from error

    asked = (hours.days >= start) & (hours.days <= end)
    return SessionHours(hours.days[asked], hours.opens[asked], hours.closes[asked])


@lru_cache(maxsize=64)
def _calendar_hours(exchange: str, start: str, end: str) -> SessionHours:
    """Return the sessions in [start, end]. Both bounds are explicit because the calendar's default
    bounds depend on today's date.
    """
    import exchange_calendars  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    calendar = exchange_calendars.get_calendar(
        exchange, start=pd.Timestamp(start), end=pd.Timestamp(end)
    )
    return SessionHours(
        days=calendar.sessions.to_numpy().astype("datetime64[D]"),
        opens=_utc_minutes(calendar.opens),
        closes=_utc_minutes(calendar.closes),
    )


def _utc_minutes(times: pd.Series[Any]) -> npt.NDArray[np.datetime64]:
    """Return timezone-aware times as UTC minutes. Shape: [S]."""
    found: npt.NDArray[np.datetime64] = times.dt.tz_convert(None).to_numpy().astype("datetime64[m]")
    return found


def close_instants(venue: Venue, days: DayArray) -> IntArray:
    """Return a venue's close on each of `days`, in microseconds since 1970 UTC: the earlier of its
    usual close and, on a half day, that of its calendar. The usual close on days without a session,
    and in years which the calendar does not cover. Shape: [D].
    """
    own = Close.parse(f"{venue.close} {venue.zone}")
    usual = np.array([own.instant(day) for day in days], dtype=np.int64)
    return np.minimum(usual, early_closes([venue], days))


def early_closes(venues: Iterable[Venue], days: DayArray) -> IntArray:
    """Return, for each of `days`, the earliest close of the venues that close early on it, in
    microseconds since 1970 UTC; the largest integer if all close as usual. Shape: [D].
    """
    earliest = np.full(len(days), _NEVER, dtype=np.int64)
    for venue in venues:
        if venue.calendar == NEVER_CLOSES:
            continue

        for index, day in enumerate(days):
            year = int(str(day)[:4])
            early = _early_closes(venue.calendar, f"{venue.close} {venue.zone}", year)
            earliest[index] = min(int(earliest[index]), early.get(int(day.astype(int)), _NEVER))

    return earliest


@lru_cache(maxsize=1024)
def _early_closes(calendar: str, usual: str, year: int) -> dict[int, int]:
    """Return the closes of a year's half days, in microseconds since 1970 UTC, keyed by days since
    1970; empty if the calendar does not cover the year.
    """
    own = Close.parse(usual)
    try:
        hours = session_hours(f"{year}-01-01", f"{year}-12-31", calendar)
    except KtdevalError:
        return {}

    found = {}
    for day, closes_at in zip(hours.days, hours.closes.astype("datetime64[us]"), strict=True):
        instant = int(closes_at.astype(np.int64))
        if instant < own.instant(day):
            found[int(day.astype(int))] = instant

    return found
