"""The economic calendar's series: when each is due, how it behaves, how the market takes a surprise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ktdeval_qfinzero.data.rows import Importance, Market
from ktdeval_qfinzero.data.synthetic.grid import session_before, shift_sessions

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
Rule = Callable[[int, int], Sequence[date]]
"""Days of a series in a month of a year, all of them sessions."""


class Series(NamedTuple):
    """A series.

    Attributes:
        key, title: of its events' ids and titles.
        importance, market, country: as events have them.
        hour, minute: by the clock of New York.
        days: when in a month it is due.
        describe: what the number says.
        unit: how texts write it: `pct` (2.9%), `count` (215,000), `index` (49.3).
        mean, persistence, noise: the series as an autoregression.
        miss: standard deviation of the actual value around the consensus.
        digits: decimals of the number; -3 is thousands.
        market_pct: percent that stocks move on a surprise of one `miss`.
        rate_bp: basis points that yields move on one.
        revised: how often the next release corrects the last.
        period: what the title says of the reference period: the month before, the quarter before, the week, or nothing.
    """

    key: str
    title: str
    importance: Importance
    hour: int
    minute: int
    days: Rule
    describe: str
    unit: str
    mean: float
    persistence: float
    noise: float
    miss: float
    digits: int
    market_pct: float = 0.0
    rate_bp: float = 0.0
    revised: float = 0.0
    period: str = "month"
    market: Market = "us"
    country: str = "US"


def weekday_in(year: int, month: int, weekday: int, count: int) -> date:
    """The `count`-th weekday of a month (Monday is 0); the last one where `count` is -1."""
    if count > 0:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (count - 1))
    last = date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - weekday) % 7)


def payroll_day(year: int, month: int) -> date:
    """The first Friday from the fourth on, or the session before it."""
    fourth = date(year, month, 4)
    return session_before(fourth + timedelta(days=(4 - fourth.weekday()) % 7))


def _cpi_day(year: int, month: int) -> date:
    return shift_sessions(payroll_day(year, month) + timedelta(days=5))


def _fomc_day(year: int, month: int) -> Sequence[date]:
    counts = {1: -1, 3: 3, 5: 1, 6: 3, 7: -1, 9: 3, 11: 1, 12: 3}
    if month not in counts:
        return ()
    day = weekday_in(year, month, 2, counts[month])
    return (day if shift_sessions(day) == day else session_before(day - timedelta(days=7)),)


def _from_day(day_of_month: int) -> Rule:
    return lambda year, month: (shift_sessions(date(year, month, day_of_month)),)


def _claims_days(year: int, month: int) -> Sequence[date]:
    thursdays = (weekday_in(year, month, 3, count) for count in range(1, 6))
    return tuple(session_before(day) for day in thursdays if day.month == month)


def _quarterly(months: tuple[int, ...], weekday: int, count: int) -> Rule:
    every = _monthly(weekday, count)
    return lambda year, month: every(year, month) if month in months else ()


def _monthly(weekday: int, count: int) -> Rule:
    """On a weekday of each month; on the session before where it is none, so that the day stays in its month."""
    return lambda year, month: (session_before(weekday_in(year, month, weekday, count)),)


SERIES: tuple[Series, ...] = (
    Series("cpi", "Consumer Price Index", "high", 8, 30, lambda y, m: (_cpi_day(y, m),),
        "Consumer prices, change on a year before, percent", "pct", 2.9, 0.9, 0.12, 0.1, 1, -0.55, 5.0),
    Series("core_cpi", "Core Consumer Price Index", "high", 8, 30, lambda y, m: (_cpi_day(y, m),),
        "Consumer prices without food and energy, change on a year before, percent", "pct", 3.2, 0.92, 0.08, 0.1, 1, -0.35, 3.0),
    Series("nfp", "Nonfarm Payrolls", "high", 8, 30, lambda y, m: (payroll_day(y, m),),
        "Jobs outside farming, change on the month before", "count", 175_000, 0.4, 55_000, 45_000, -3, 0.25, 4.5, 0.6),
    Series("unemployment", "Unemployment Rate", "high", 8, 30, lambda y, m: (payroll_day(y, m),),
        "Share of the labour force, percent", "pct", 4.1, 0.95, 0.08, 0.1, 1, -0.10, -2.0),
    Series("pce", "PCE Price Index", "high", 8, 30, _monthly(4, -1),
        "Prices of personal consumption, change on a year before, percent", "pct", 2.5, 0.9, 0.1, 0.1, 1, -0.30, 3.0),
    Series("gdp", "Gross Domestic Product", "high", 8, 30, _quarterly((1, 4, 7, 10), 3, -1),
        "Real output, change on the quarter before at an annual rate, percent",
        "pct", 2.4, 0.5, 0.7, 0.4, 1, 0.30, 2.0, 1.0, "quarter"),
    Series("retail_sales", "Retail Sales", "high", 8, 30, _from_day(15),
        "Sales of shops, change on the month before, percent", "pct", 0.3, 0.1, 0.4, 0.3, 1, 0.25, 2.0, 0.5),
    Series("ism_manufacturing", "ISM Manufacturing PMI", "high", 10, 0, _from_day(1),
        "Purchasing managers' index; above 50 is growth", "index", 49.2, 0.85, 0.8, 0.8, 1, 0.30, 1.5),
    Series("ism_services", "ISM Services PMI", "medium", 10, 0, _from_day(4),
        "Purchasing managers' index; above 50 is growth", "index", 52.8, 0.7, 1.0, 1.0, 1, 0.20, 1.5),
    Series("ppi", "Producer Price Index", "medium", 8, 30, lambda y, m: (shift_sessions(_cpi_day(y, m), 1),),
        "Producers' prices, change on a year before, percent", "pct", 2.6, 0.85, 0.25, 0.2, 1, -0.20, 2.0, 0.3),
    Series("claims", "Initial Jobless Claims", "medium", 8, 30, _claims_days,
        "New claims for unemployment insurance of the week", "count", 222_000, 0.7, 7_000, 7_000, -3, -0.08, -0.8, 0.6, "week"),
    Series("durable_goods", "Durable Goods Orders", "medium", 8, 30, _from_day(25),
        "New orders, change on the month before, percent", "pct", 0.2, -0.2, 2.0, 1.2, 1, 0.10, 0.8, 0.5),
    Series("housing_starts", "Housing Starts", "medium", 8, 30, _from_day(18),
        "Homes begun, at an annual rate", "count", 1_380_000, 0.6, 45_000, 40_000, -3, 0.08, 0.5, 0.5),
    Series("consumer_sentiment", "Consumer Sentiment", "medium", 10, 0, _monthly(4, 4),
        "Index of households' confidence", "index", 70.0, 0.8, 2.5, 2.0, 1, 0.08, 0.3),
    Series("existing_home_sales", "Existing Home Sales", "low", 10, 0, _from_day(21),
        "Homes sold, at an annual rate", "count", 4_050_000, 0.7, 90_000, 70_000, -4),
    Series("wholesale_inventories", "Wholesale Inventories", "low", 10, 0, _from_day(9),
        "Change on the month before, percent", "pct", 0.2, 0.2, 0.3, 0.2, 1),
    Series("consumer_credit", "Consumer Credit", "low", 15, 0, _from_day(7),
        "Change on the month before, dollars", "count", 9_000_000_000, 0.2, 4_000_000_000, 3_000_000_000, -8),
    Series("ecb", "ECB Deposit Rate Decision", "medium", 8, 15, _quarterly((1, 3, 4, 6, 7, 9, 10, 12), 3, 2),
        "Deposit facility rate, percent", "pct", 3.25, 0.97, 0.0, 0.0, 2, 0.0, 0.0, 0.0, "none", "global", "EU"),
    Series("boj", "Bank of Japan Rate Decision", "low", 22, 30, _quarterly((1, 3, 4, 6, 7, 9, 10, 12), 3, 3),
        "Overnight call rate, percent", "pct", 0.25, 0.97, 0.0, 0.0, 2, 0.0, 0.0, 0.0, "none", "global", "JP"),
)  # fmt: skip

FOMC = Series(
    "fomc",
    "FOMC Rate Decision",
    "high",
    14,
    0,
    _fomc_day,
    "Upper bound of the federal funds target range, percent",
    "pct",
    5.5,
    1.0,
    0.0,
    0.25,
    2,
    -0.9,
    7.0,
    0.0,
    "none",
)


def reference_period(series: Series, day: date) -> str:
    """What a release is about: ` (December)`, ` (Q4 2024)`, ` (week to January 4)` or nothing, to be put behind the title."""
    before = date(day.year, day.month, 1) - timedelta(days=1)
    if series.period == "week":
        saturday = day - timedelta(days=(day.weekday() + 2) % 7)
        return f" (week to {MONTHS[saturday.month - 1]} {saturday.day})"
    if series.period == "quarter":
        return f" (Q{(before.month - 1) // 3 + 1} {before.year})"
    return f" ({MONTHS[before.month - 1]})" if series.period == "month" else ""
