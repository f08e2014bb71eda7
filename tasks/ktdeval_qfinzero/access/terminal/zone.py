"""Time zone of a market, in which the page writes moments."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

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
