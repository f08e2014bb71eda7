"""Trading days: an exchange's sessions with their hours, and the market rows of a window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market.snapshots.snapshot import DayArray
from ktdeval.values.config_options import near_matches

if TYPE_CHECKING:
    import pandas as pd

_MARGIN = np.timedelta64(14, "D")  # enough for one-day ranges


@dataclass(frozen=True)
class Window:
    """An evaluation window; dates are ISO days, both ends included.

    Example:
        Window("W1", "2024-01-02", "2024-06-28")
    """

    name: str
    first: str
    last: str


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


def sessions(
    first: str | np.datetime64, last: str | np.datetime64, exchange: str = "XSHG"
) -> DayArray:
    """Return the trading days of an exchange (ISO 10383 code) from `first` to `last`, both
    inclusive. Raises DataError if the installed calendar doesn't cover the range or `first` is
    after `last`, UsageError if the exchange is unknown.
    """
    return session_hours(first, last, exchange).days


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


def window_rows(
    days: DayArray, first: str | np.datetime64, last: str | np.datetime64
) -> tuple[int, int]:
    """Return `(start, stop)` such that the window's days are `days[start:stop]`. `start >= 1`,
    because the first decision is made on the previous row. Raises DataError if the window extends
    beyond the data or contains no trading day.
    """
    start_day = parse_day(first)
    last_day = parse_day(last)
    if start_day > last_day:
        raise DataError(f"window {start_day}…{last_day} ends before it begins; swap the dates")

    if len(days) < 2 or start_day < days[1] or last_day > days[-1]:
        covered = f"{days[1]}…{days[-1]}" if len(days) > 1 else "no window at all"
        raise DataError(
            f"window {start_day}…{last_day} lies outside the data, which allow {covered} (nothing"
            " is filled on the first day, which only decides); choose a window inside, such as by"
            " --windows FIRST:LAST, or other data"
        )

    start = int(np.searchsorted(days, start_day, side="left"))
    stop = int(np.searchsorted(days, last_day, side="right"))
    if start == stop:
        raise DataError(f"window {start_day}…{last_day} holds no trading day; choose a longer one")

    return start, stop
