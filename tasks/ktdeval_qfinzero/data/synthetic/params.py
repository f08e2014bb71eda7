"""Parameters of the synthetic market, separate from its generator so that importing them loads
nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ktdeval.errors import DataError
from ktdeval.values import option

#: Part of the cache folder's name; increment it with every change to the generated data
GENERATOR_VERSION = 2


@dataclass(frozen=True)
class SyntheticMarketParams:
    """Parameters of a synthetic market; days are trading days of XNYS, or the next ones after."""

    seed: int = option(0, help="seed of the generator; each seed is another market", minimum=0)
    first_day: str = option("2024-01-02", help="first day with daily bars (ISO date)")
    last_day: str = option("2025-06-30", help="last day with bars of a day (ISO date)")
    minute_first: str = option("2025-01-02", help="first day with bars of minutes (ISO date)")
    minute_last: str = option("2025-03-31", help="last day with bars of minutes (ISO date)")
    stocks: int = option(36, help="number of stocks", minimum=1, maximum=40)
    coins: int = option(4, help="number of coins", minimum=0, maximum=4)
    option_underlyings: int = option(
        12, help="stocks with listed options, the first of the table that never split", minimum=0
    )
    option_minute_underlyings: int = option(
        2, help="how many of them have option bars of minutes", minimum=0
    )
    option_minute_first: str = option(
        "2025-02-10", help="first day with option bars of minutes (ISO date)"
    )
    option_minute_last: str = option(
        "2025-02-28", help="last day with option bars of minutes (ISO date)"
    )
    as_of_day: str = option(
        "2025-02-14", help="day at whose close a clock starts by default (ISO date)"
    )


@dataclass(frozen=True, slots=True)
class DayRanges:
    """Days of `SyntheticMarketParams`, parsed and checked, with both ends included. `days`,
    `minutes`, `option_minutes`: first and last day.
    """

    days: tuple[date, date]
    minutes: tuple[date, date]
    option_minutes: tuple[date, date]
    as_of_day: date  #: one of the `days`


#: Days that a market can have; the exchange's calendar also covers the year before them
_REACH = (date(2017, 1, 1), date(2034, 12, 31))


def ranges_of(params: SyntheticMarketParams) -> DayRanges:
    """Parse the days. Raises DataError if a string is not an ISO date, or if a range ends before it
    begins or lies outside the days.
    """
    days = _range(params, "first_day", "last_day")
    if not _REACH[0] <= days[0] <= days[1] <= _REACH[1]:
        raise DataError(
            f"synthetic market: first_day … last_day must lie in {_REACH[0]} … {_REACH[1]}"
        )

    minutes = _range(params, "minute_first", "minute_last")
    option_minutes = _range(params, "option_minute_first", "option_minute_last")
    as_of_day = _parse_day(params, "as_of_day")
    if not days[0] <= minutes[0] <= minutes[1] <= days[1]:
        raise DataError(
            "synthetic market: minute_first … minute_last must lie in first_day … last_day"
        )
    if (
        params.option_minute_underlyings
        and not minutes[0] <= option_minutes[0] <= option_minutes[1] <= minutes[1]
    ):
        raise DataError(
            "synthetic market: option_minute_first … option_minute_last must lie in minute_first …"
            " minute_last"
        )
    if not days[0] <= as_of_day <= days[1]:
        raise DataError("synthetic market: as_of_day must lie in first_day … last_day")

    return DayRanges(days, minutes, option_minutes, as_of_day)


def _range(params: SyntheticMarketParams, first: str, last: str) -> tuple[date, date]:
    days = _parse_day(params, first), _parse_day(params, last)
    if days[0] > days[1]:
        raise DataError(f"synthetic market: {first} is after {last}; swap them")
    return days


def _parse_day(params: SyntheticMarketParams, name: str) -> date:
    try:
        return date.fromisoformat(getattr(params, name))
    except ValueError:
        raise DataError(f"synthetic market: {name} must be a day such as 2025-01-02") from None
