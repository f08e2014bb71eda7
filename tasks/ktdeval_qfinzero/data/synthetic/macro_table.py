"""Series of the economic calendar (`series.yaml`): when each is due, how it behaves, how the market takes a surprise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

from ktdeval.typed import Value, from_plain
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.data.rows import Importance, Market
from ktdeval_qfinzero.data.synthetic.grid import session_before, shift_sessions

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December"
)  # fmt: skip


class Series(Value, frozen=True, kw_only=True):
    """A series. `key, title`: of its events' ids and titles; `importance, market, country`: as events have them; `hour, minute`: by
    the clock of New York; `mean, persistence, noise`: the series as an autoregression.
    """

    key: str
    title: str
    importance: Importance
    hour: int
    minute: int = 0
    #: when in a month: on the first session from a `day` on; on a `weekday` (or the session before it), the `count`-th of the month
    #: or of some `months`; on every Thursday (`claims`); with the `payroll` report or after it
    due: Literal["day", "weekday", "claims", "payroll", "cpi", "ppi", "fomc"]
    day: int = 0
    weekday: int = 0
    count: int = 0
    months: tuple[int, ...] = ()
    describe: str  #: what the number says
    unit: Literal["pct", "count", "index"]  #: how texts write it: `pct` (2.9%), `count` (215,000), `index` (49.3)
    mean: float
    persistence: float
    noise: float
    miss: float  #: standard deviation of the actual value around the consensus
    digits: int  #: decimals of the number; -3 is thousands
    market_pct: float = 0.0  #: percent that stocks move on a surprise of one `miss`
    rate_bp: float = 0.0  #: basis points that yields move on one
    revised: float = 0.0  #: how often the next release corrects the last
    #: what the title says of the reference period: the month before, the quarter before, the week, or nothing
    period: Literal["month", "quarter", "week", "none"] = "month"
    market: Market = "us"
    country: str = "US"

    def days(self, year: int, month: int) -> Sequence[date]:
        """Return the days of a month on which it is due, all of them sessions."""
        match self.due:
            case "day":
                return (shift_sessions(date(year, month, self.day)),)
            case "weekday":
                is_due = not self.months or month in self.months
                return (session_before(weekday_in(year, month, self.weekday, self.count)),) if is_due else ()
            case "claims":
                thursdays = (weekday_in(year, month, 3, count) for count in range(1, 6))
                return tuple(session_before(day) for day in thursdays if day.month == month)
            case "payroll":
                return (payroll_day(year, month),)
            case "cpi":
                return (_cpi_day(year, month),)
            case "ppi":
                return (shift_sessions(_cpi_day(year, month), 1),)
            case "fomc":
                return _fomc_days(year, month)


def weekday_in(year: int, month: int, weekday: int, count: int) -> date:
    """Return the `count`-th weekday of a month (Monday is 0); the last one where `count` is -1."""
    if count > 0:
        first = date(year, month, 1)
        return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (count - 1))
    last = date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - weekday) % 7)


def payroll_day(year: int, month: int) -> date:
    """Return the first Friday from the fourth on, or the session before it."""
    fourth = date(year, month, 4)
    return session_before(fourth + timedelta(days=(4 - fourth.weekday()) % 7))


def _cpi_day(year: int, month: int) -> date:
    return shift_sessions(payroll_day(year, month) + timedelta(days=5))


def _fomc_days(year: int, month: int) -> Sequence[date]:
    """Return a Wednesday of eight months; where that is a holiday, a week earlier."""
    counts = {1: -1, 3: 3, 5: 1, 6: 3, 7: -1, 9: 3, 11: 1, 12: 3}
    if month not in counts:
        return ()
    day = weekday_in(year, month, 2, counts[month])
    return (day if shift_sessions(day) == day else session_before(day - timedelta(days=7)),)


_FILE = Path(__file__).with_name("series.yaml")
_BY_KEY = {key: from_plain({"key": key, **fields}, Series, str(_FILE)) for key, fields in load_yaml(_FILE).items()}
FOMC = _BY_KEY["fomc"]
SERIES = tuple(series for series in _BY_KEY.values() if series is not FOMC)


def reference_period(series: Series, day: date) -> str:
    """Text behind a title: ` (December)`, ` (Q4 2024)`, ` (week to January 4)` or nothing, to be put behind the title."""
    before = date(day.year, day.month, 1) - timedelta(days=1)
    if series.period == "week":
        saturday = day - timedelta(days=(day.weekday() + 2) % 7)
        return f" (week to {MONTHS[saturday.month - 1]} {saturday.day})"
    if series.period == "quarter":
        return f" (Q{(before.month - 1) // 3 + 1} {before.year})"
    return f" ({MONTHS[before.month - 1]})" if series.period == "month" else ""
