"""Trading days and hours in a dataset's market, including early closes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval_qfinzero.errors import ServiceError, invalid
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start

#: Date range of calendars; those known for fewer years cover less
FIRST = date(2015, 1, 1)
LAST = date(2035, 12, 31)
_EARLY_TRADING = 330 * MINUTE
DEFAULT = "XNYS"  #: Calendar of the embedded market, and of datasets that specify no calendar


@dataclass(frozen=True, eq=False)
class TradingHours:
    """Sessions of the exchange.

    `open_ns`, `close_ns`: [n] int64, the start of each session and the end of its last minute.
    `begin_ns`, `end_ns`: [m] int64, the same for each trading period; a session with a lunch break
    has two.
    """

    days: npt.NDArray[np.datetime64]  #: [n] datetime64[D], ascending
    open_ns: npt.NDArray[np.int64]
    close_ns: npt.NDArray[np.int64]
    begin_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]

    @property
    def reach(self) -> str:
        """First and last day, for messages."""
        return f"{self.day(0)} to {self.day(len(self.days) - 1)}"

    def row_of(self, day: date) -> int | None:
        """Return the row of a trading day; None for a day without a session."""
        row = int(np.searchsorted(self.days, np.datetime64(day)))
        return row if row < len(self.days) and self.days[row] == np.datetime64(day) else None

    def day(self, row: int) -> date:
        """Return the day of a row."""
        day: date = self.days[row].astype(object)
        return day

    def close_of(self, day: date) -> int:
        """Return the time at which a day's bar is complete: the session's close or, on a day
        without a session, the following midnight.
        """
        row = self.row_of(day)
        return day_start(day) + DAY if row is None else int(self.close_ns[row])

    def ex_ns(self, row: int) -> int:
        """Return the time from which prices exclude the dividends and splits of a trading day. This
        is five and a half hours before the open (04:00 in New York), or the previous close if that
        is later.
        """
        early_ns = int(self.open_ns[row]) - _EARLY_TRADING
        return max(early_ns, int(self.close_ns[row - 1])) if row else early_ns

    def session_day(self, ns: int) -> date:
        """Return the trading day of the session that contains a point in time, or else of the next
        session. Raises ServiceError `invalid_argument` outside the calendar.
        """
        return self._day_in_reach(int(np.searchsorted(self.close_ns, ns)))

    def last_closed(self, ns: int) -> date:
        """Return the last trading day whose session is over. Raises ServiceError `invalid_argument`
        outside the calendar.
        """
        if ns > self.close_ns[-1]:
            raise self._out_of_reach()
        return self._day_in_reach(int(np.searchsorted(self.close_ns, ns, side="right")) - 1)

    def last_expiry_session(self, expiry: date) -> date:
        """Return the last trading day on or before an expiry date. Raises ServiceError
        `invalid_argument` outside the calendar.
        """
        if np.datetime64(expiry) > self.days[-1]:
            raise self._out_of_reach()
        return self._day_in_reach(
            int(np.searchsorted(self.days, np.datetime64(expiry), side="right")) - 1
        )

    def _day_in_reach(self, row: int) -> date:
        if not 0 <= row < len(self.days):
            raise self._out_of_reach()
        return self.day(row)

    def _out_of_reach(self) -> ServiceError:
        return invalid(
            "calendar", f"the calendar of sessions reaches from {self.reach}; choose moments within"
        )

    def minutes(self, row: int) -> npt.NDArray[np.int64]:
        """Return the [m] starts of the minutes in a session."""
        return np.arange(self.open_ns[row], self.close_ns[row], MINUTE, dtype=np.int64)


@cache
def trading_hours(calendar: str = DEFAULT) -> TradingHours:
    """Return a calendar of exchange_calendars by name (`XSHG`, `24/7`). It is read once, and its
    date range is fixed, so the result does not depend on today's date. Raises DataError if the
    calendar does not exist or can't be made.
    """
    import exchange_calendars  # noqa: PLC0415 - heavy (it builds its calendars on import)
    import pandas as pd  # noqa: PLC0415 - as above
    from exchange_calendars.errors import InvalidCalendarName  # noqa: PLC0415 - as above

    first = pd.Timestamp(FIRST)
    last = pd.Timestamp(LAST + timedelta(days=14))
    get_calendar = exchange_calendars.get_calendar

    try:
        try:
            exchange = get_calendar(calendar, start=first, end=last)
        except ValueError:  # the calendar's holidays are not known for the whole range
            usual = get_calendar(calendar)
            first = max(first, usual.bound_min() or first)
            last = min(last, usual.bound_max() or last)
            exchange = get_calendar(calendar, start=first, end=last)
    except InvalidCalendarName as error:
        raise DataError(
            "calendar: expected a name of exchange_calendars such as XNYS, XSHG or 24/7, was"
            f" {calendar[:20]!r}"
        ) from error
    except (ValueError, NotImplementedError) as error:
        raise DataError(
            f"calendar: the installed exchange_calendars fails on {calendar}"
            f" ({type(error).__name__})"
        ) from error

    schedule = exchange.schedule.loc[: pd.Timestamp(LAST)]
    opens, closes, break_starts, break_ends = (
        schedule[name]
        .dropna()
        .dt.tz_convert(None)
        .to_numpy()
        .astype("datetime64[ns]")
        .astype(np.int64)
        for name in ("open", "close", "break_start", "break_end")
    )
    begins, ends = (
        np.sort(np.concatenate(pair)) for pair in ((opens, break_ends), (break_starts, closes))
    )

    return TradingHours(
        schedule.index.to_numpy().astype("datetime64[D]"), opens, closes, begins, ends
    )
