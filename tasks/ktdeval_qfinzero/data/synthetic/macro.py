"""Economic releases (`series.yaml`): their calendar, their values, and what they do to stocks and yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval.typed import Value, from_plain
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.data.rows import EventRow, FloatArray, Importance, Market, Release
from ktdeval_qfinzero.data.synthetic.engine import Shock
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, session_before, shift_sessions, stream
from ktdeval_qfinzero.moments import MINUTE

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December"
)  # fmt: skip


class Series(Value, frozen=True, kw_only=True):
    """A series; `mean, persistence, noise`: as an autoregression; `hour, minute`: by the clock of New York."""

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
    #: reference period in the title: the month before, the quarter before, the week, or nothing
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


_EASING = 0.45  #: How often a meeting cuts by a quarter of a point, once the cycle has begun
_FLOOR = 3.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One release of a series; `announced_ns`: since when it is known to be due; `previous` as it was first released."""

    series: Series  #: which
    day: date
    time_ns: int
    announced_ns: int
    consensus: float
    previous: float
    actual: float
    surprise: float  #: actual against consensus in standard deviations
    corrections: tuple[tuple[int, float], ...] = ()  #: later moments and values

    @property
    def event_id(self) -> str:
        """Such as `econ_cpi_2025_01`; with the day where there are several in a month."""
        day = f"_{self.day.day:02d}" if self.series.period == "week" else ""
        return f"econ_{self.series.key}_{self.day.year}_{self.day.month:02d}{day}"

    @property
    def title(self) -> str:
        """Such as `Consumer Price Index (December)`."""
        return self.series.title + reference_period(self.series, self.day)


def draw_readings(seed: int, grid: Grid) -> tuple[Reading, ...]:
    """Return all releases on the days of the grid, by time."""
    readings = _decisions(stream(seed, "macro", FOMC.key), grid)
    for series in SERIES:
        policy = series.period == "none"
        rng = stream(seed, "macro", series.key)
        readings += _policy(rng, series, grid) if policy else _values(rng, series, grid)
    return tuple(sorted(readings, key=lambda reading: (reading.time_ns, reading.event_id)))


def market_shocks(readings: Sequence[Reading], grid: Grid) -> list[Shock]:
    """Jumps of all stocks at the releases: a gap at the open for those before it, a jump in the session for the others."""
    shocks = []
    for reading in readings:
        row = grid.row_on_or_after(reading.day)
        if row is None or not reading.series.market_pct:
            continue
        minute = (reading.time_ns - int(grid.open_ns[row])) // MINUTE
        size = reading.series.market_pct / 100.0 * float(np.clip(reading.surprise, -3.0, 3.0))
        if minute < grid.lengths[row]:
            shocks.append(Shock(row, max(0, minute), size, 2.0 if reading.series.importance == "high" else 1.3))
    return shocks


def rate_changes(readings: Sequence[Reading], grid: Grid) -> FloatArray:
    """[D] percentage points that the day's surprises move yields."""
    change = np.zeros(len(grid))
    for reading in readings:
        row = grid.row_on_or_after(reading.day)
        if row is not None:
            change[row] += reading.series.rate_bp / 100.0 * float(np.clip(reading.surprise, -3.0, 3.0))
    return change


def policy_rate(readings: Sequence[Reading], grid: Grid) -> FloatArray:
    """[D] upper bound of the target range after each day."""
    rate = np.full(len(grid), FOMC.mean)
    for reading in readings:
        row = grid.row_on_or_after(reading.day)
        if reading.series is FOMC and row is not None:
            rate[row:] = reading.actual
    return rate


def macro_event(reading: Reading) -> EventRow:
    """Return the calendar's entry of a release."""
    series = reading.series
    expected = {"consensus": _plain(reading.consensus, series), "previous": _plain(reading.previous, series)}
    values = [(reading.time_ns, reading.actual), *reading.corrections]
    releases = tuple(Release(moment, {"actual": _plain(value, series)}) for moment, value in values)
    due = (reading.time_ns, reading.announced_ns)
    row = EventRow(reading.event_id, "macro_calendar", reading.title, *due, series.importance, (), series.country, series.market)
    return replace(row, expected={**expected, "description": series.describe}, releases=releases)


def _plain(value: float, series: Series) -> JsonValue:
    return round(value) if series.digits <= 0 else value


def _days(series: Series, grid: Grid) -> list[date]:
    """Due days of a series on the grid, and the one before the first, ascending."""
    first, last = grid.days[0], grid.days[-1]
    months = [(year, month) for year in range(first.year - 1, last.year + 1) for month in range(1, 13)]
    days = sorted({day for year, month in months for day in series.days(year, month) if day <= last})
    before = sum(day < first for day in days)
    return days[max(0, before - 1) :]


def _values(rng: np.random.Generator, series: Series, grid: Grid) -> list[Reading]:
    days = _days(series, grid)
    value, readings = series.mean, []
    previous = round(value, series.digits)
    for index, day in enumerate(days):
        noise, surprise = float(rng.standard_normal()), float(rng.standard_normal())
        value = series.mean + series.persistence * (value - series.mean) + series.noise * noise
        correction, revised = float(rng.standard_normal()), bool(rng.random() < series.revised)
        actual = round(value, series.digits) + 0.0
        consensus = round(actual - series.miss * surprise, series.digits) + 0.0
        if index:
            time_ns = new_york(day, series.hour, series.minute)
            announced_ns = new_york(days[index - 1], series.hour, series.minute)
            later = _corrections(series, grid, days[index:], actual + 0.6 * series.miss * correction) if revised else ()
            surprise = (actual - consensus) / series.miss
            readings.append(Reading(series, day, time_ns, announced_ns, consensus, previous, actual, surprise, later))
        previous = actual
    return readings


def _corrections(series: Series, grid: Grid, days: Sequence[date], value: float) -> tuple[tuple[int, float], ...]:
    """Estimate a quarter's output again after a month; correct other series at the next release."""
    day = shift_sessions(days[0], 20) if series.period == "quarter" else days[1] if len(days) > 1 else None
    if day is None or day > grid.days[-1]:
        return ()
    return ((new_york(day, series.hour, series.minute), round(value, series.digits) + 0.0),)


def _decisions(rng: np.random.Generator, grid: Grid) -> list[Reading]:
    """Hold for a while, then cut now and then, as the FOMC; a surprise in tone moves the market when the rate does not."""
    days = _days(FOMC, grid)
    rate, readings = FOMC.mean, []
    for index, day in enumerate(days):
        cut = index > 5 and rate > _FLOOR and rng.random() < _EASING
        expected_cut = cut if rng.random() < 0.85 else not cut and rate > _FLOOR
        tone = 0.5 * float(rng.standard_normal())
        previous, rate = rate, rate - 0.25 if cut else rate
        consensus = previous - 0.25 if expected_cut else previous
        if index:
            announced = new_york(days[index - 1], FOMC.hour)
            surprise = (rate - consensus) / FOMC.miss * 1.6 + tone
            readings.append(Reading(FOMC, day, new_york(day, FOMC.hour), announced, consensus, previous, rate, surprise))
    return readings


def _policy(rng: np.random.Generator, series: Series, grid: Grid) -> list[Reading]:
    """Other central banks do what was expected; a step of a quarter of a point now and then."""
    days = _days(series, grid)
    rate, readings = series.mean, []
    for index, day in enumerate(days):
        step = (0.25 if series.country == "JP" else -0.25) if rng.random() < 0.4 and 0.2 < rate < 3.6 else 0.0
        previous, rate = rate, round(rate + step, 2)
        if index:
            announced = new_york(days[index - 1], series.hour, series.minute)
            time_ns = new_york(day, series.hour, series.minute)
            readings.append(Reading(series, day, time_ns, announced, rate, previous, rate, 0.0))
    return readings
