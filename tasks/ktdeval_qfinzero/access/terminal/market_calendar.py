"""Time zone, closed days and trading hours of a market: in the zone the page writes moments, it
steps over closed days, and its clock starts while the market trades.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from zoneinfo import available_timezones

import numpy as np

from ktdeval_qfinzero.timestamps import MINUTE
from ktdeval_qfinzero.trading_hours import TradingHours

_ANY_MONTH = ("2024-01-01", "2024-02-01")  # a calendar of few days is made at once
_FALLBACK = "UTC"
_AFTER_OPEN = 30 * MINUTE


@cache
def market_zone(calendar: str) -> str:
    """Return the IANA name of a calendar's zone; `calendar`: its name in exchange_calendars, such
    as XNYS. UTC where browsers would not know the zone.
    """
    import exchange_calendars  # noqa: PLC0415 - heavy (it builds its calendars on import)

    start, end = _ANY_MONTH
    zone = str(exchange_calendars.get_calendar(calendar, start=start, end=end).tz)
    return zone if zone in available_timezones() else _FALLBACK


def closed_days(hours: TradingHours, first: date, last: date) -> list[str]:
    """Return the days from `first` to `last`, both included, without a session: ISO dates,
    ascending.
    """
    days = np.arange(np.datetime64(first), np.datetime64(last) + 1)
    closed = days[~np.isin(days, hours.days)]
    return [str(day) for day in closed]


def session_moment(hours: TradingHours, latest_ns: int) -> int:
    """Return a moment up to `latest_ns` when the market trades: that one, or half an hour after the
    open of the last session before it; `latest_ns` itself if there is none.
    """
    row = int(np.searchsorted(hours.open_ns, latest_ns, side="right")) - 1
    if row < 0 or latest_ns < hours.close_ns[row]:
        return latest_ns
    return min(int(hours.open_ns[row]) + _AFTER_OPEN, latest_ns)
