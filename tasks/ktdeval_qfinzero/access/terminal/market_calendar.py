"""Time zone and closed days of a market: in the zone the page writes moments, and it steps over
closed days.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from zoneinfo import available_timezones

import numpy as np

from ktdeval_qfinzero.trading_hours import TradingHours

_ANY_MONTH = ("2024-01-01", "2024-02-01")  # a calendar of few days is made at once
_FALLBACK = "UTC"


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
