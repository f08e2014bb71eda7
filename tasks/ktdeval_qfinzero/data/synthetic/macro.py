"""Economic releases (`series.yaml`): their calendar, their values, and their effects on stocks and
yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import numpy as np

from ktdeval.values import JsonValue, Value, from_plain, load_yaml
from ktdeval_qfinzero.data.rows import EventRelease, EventRow, FloatArray, Importance, Market
from ktdeval_qfinzero.data.synthetic.engine import PriceShock
from ktdeval_qfinzero.data.synthetic.minute_grid import (
    MinuteGrid,
    new_york,
    session_before,
    shift_sessions,
    stream,
)
from ktdeval_qfinzero.timestamps import MINUTE

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December"
)  # fmt: skip


class Series(Value, frozen=True, kw_only=True):
    """An economic series. Its values follow an autoregression (`mean`, `persistence`, `noise`), and
    it is released at `hour`:`minute` in New York.
    """

    key: str
    title: str
    importance: Importance
    hour: int
    minute: int = 0
    #: rule for the release days in a month. `day`: the first session from this day onwards.
    #: `weekday`: the `count`-th such weekday, in all months or in `months`, or the session before
    #: it. `claims`: each Thursday. The other rules follow US release calendars.
    due: Literal["day", "weekday", "claims", "payroll", "cpi", "ppi", "fomc"]
    day: int = 0
    weekday: int = 0
    count: int = 0
    months: tuple[int, ...] = ()
    describe: str  #: meaning of the number
    unit: Literal["pct", "count", "index"]  #: written as 2.9%, 215,000 or 49.3
    mean: float
    persistence: float
    noise: float
    miss: float  #: standard deviation of the actual value around consensus
    digits: int  #: decimals of the number; -3 means thousands
    market_pct: float = 0.0  #: move in stocks for a surprise of one `miss`, in percent
    rate_bp: float = 0.0  #: move in yields for a surprise of one `miss`, in basis points
    revised: float = 0.0  #: probability that a value is corrected later
    #: reference period in the title; interest-rate decisions have none
    period: Literal["month", "quarter", "week", "none"] = "month"
    market: Market = "us"
    country: str = "US"

    def days(self, year: int, month: int) -> Sequence[date]:
        """Return the days of a month on which the series is due; all are sessions."""
        match self.due:
            case "day":
                return (shift_sessions(date(year, month, self.day)),)
            case "weekday":
                if self.months and month not in self.months:
                    return ()
                return (session_before(weekday_in(year, month, self.weekday, self.count)),)
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
    """Return the `count`-th weekday of a month (Monday is 0); -1 means the last one."""
    if count > 0:
        first = date(year, month, 1)
        days_ahead = (weekday - first.weekday()) % 7
        return first + timedelta(days=days_ahead + 7 * (count - 1))

    first_of_next = date(year + month // 12, month % 12 + 1, 1)
    last = first_of_next - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - weekday) % 7)


def payroll_day(year: int, month: int) -> date:
    """Return the first Friday on or after the fourth of a month, or the session before it."""
    fourth = date(year, month, 4)
    friday = fourth + timedelta(days=(4 - fourth.weekday()) % 7)
    return session_before(friday)


def _cpi_day(year: int, month: int) -> date:
    return shift_sessions(payroll_day(year, month) + timedelta(days=5))


#: Month -> which Wednesday of it; the FOMC meets eight times a year
_FOMC_WEDNESDAYS = {1: -1, 3: 3, 5: 1, 6: 3, 7: -1, 9: 3, 11: 1, 12: 3}


def _fomc_days(year: int, month: int) -> Sequence[date]:
    """Return the day of a month's FOMC meeting, if there is one; a week earlier if it is a
    holiday.
    """
    if month not in _FOMC_WEDNESDAYS:
        return ()

    day = weekday_in(year, month, 2, _FOMC_WEDNESDAYS[month])
    is_session = shift_sessions(day) == day
    if not is_session:
        day = session_before(day - timedelta(days=7))

    return (day,)


_FILE = Path(__file__).with_name("series.yaml")
_BY_KEY = {
    key: from_plain({"key": key, **fields}, Series, str(_FILE))
    for key, fields in load_yaml(_FILE).items()
}
FOMC = _BY_KEY["fomc"]
SERIES = tuple(series for series in _BY_KEY.values() if series is not FOMC)


def reference_period(series: Series, day: date) -> str:
    """Return the end of a title: ` (December)`, ` (Q4 2024)`, ` (week to January 4)` or an empty
    string.
    """
    month_before = date(day.year, day.month, 1) - timedelta(days=1)
    match series.period:
        case "week":
            saturday = day - timedelta(days=(day.weekday() + 2) % 7)
            return f" (week to {MONTHS[saturday.month - 1]} {saturday.day})"
        case "quarter":
            quarter = (month_before.month - 1) // 3 + 1
            return f" (Q{quarter} {month_before.year})"
        case "month":
            return f" ({MONTHS[month_before.month - 1]})"
        case "none":
            return ""


_EASING = 0.45  #: Probability that a meeting cuts by a quarter of a point, once cuts have begun
_FLOOR = 3.0  #: Lowest FOMC rate, in percent


@dataclass(frozen=True, slots=True)
class SeriesRelease:
    """One release of a series."""

    series: Series
    day: date
    time_ns: int
    announced_ns: int  #: when the calendar first shows the release
    consensus: float
    previous: float  #: last value, without later corrections
    actual: float
    surprise: float  #: actual minus consensus, in standard deviations
    corrections: tuple[tuple[int, float], ...] = ()  #: (time, value) of later corrections

    @property
    def event_id(self) -> str:
        """Id such as `econ_cpi_2025_01`, with the day if there are several releases in a month."""
        event_id = f"econ_{self.series.key}_{self.day.year}_{self.day.month:02d}"
        if self.series.period == "week":
            event_id += f"_{self.day.day:02d}"
        return event_id

    @property
    def title(self) -> str:
        """Title such as `Consumer Price Index (December)`."""
        return self.series.title + reference_period(self.series, self.day)

    @property
    def bounded_surprise(self) -> float:
        """Surprise limited to three standard deviations, to which markets react."""
        return float(np.clip(self.surprise, -3.0, 3.0))


def draw_readings(seed: int, grid: MinuteGrid) -> tuple[SeriesRelease, ...]:
    """Return all releases on the days of the grid, sorted by time."""
    readings: list[SeriesRelease] = []
    for series in (FOMC, *SERIES):
        readings.extend(_draw_releases(seed, series, grid))

    return tuple(sorted(readings, key=lambda reading: (reading.time_ns, reading.event_id)))


def market_shocks(readings: Sequence[SeriesRelease], grid: MinuteGrid) -> list[PriceShock]:
    """Return the jumps in all stocks at releases. A release before the open moves the open."""
    shocks = []
    for reading in readings:
        series = reading.series
        row = grid.row_on_or_after(reading.day)
        if row is None or not series.market_pct:
            continue

        minute = (reading.time_ns - int(grid.open_ns[row])) // MINUTE
        if minute >= grid.lengths[row]:
            continue

        size = series.market_pct / 100.0 * reading.bounded_surprise
        trading = 1.3
        if series.importance == "high":
            trading = 2.0
        shocks.append(PriceShock(row, max(0, minute), size, trading))

    return shocks


def rate_changes(readings: Sequence[SeriesRelease], grid: MinuteGrid) -> FloatArray:
    """Return the [D] change in yields due to each day's surprises, in percentage points."""
    change = np.zeros(len(grid))
    for reading in readings:
        row = grid.row_on_or_after(reading.day)
        if row is not None:
            change[row] += reading.series.rate_bp / 100.0 * reading.bounded_surprise

    return change


def policy_rate(readings: Sequence[SeriesRelease], grid: MinuteGrid) -> FloatArray:
    """Return the [D] upper bound of the target range after each day."""
    rate = np.full(len(grid), FOMC.mean)
    for reading in readings:
        row = grid.row_on_or_after(reading.day)
        if reading.series is FOMC and row is not None:
            rate[row:] = reading.actual

    return rate


def macro_event(reading: SeriesRelease) -> EventRow:
    """Return a release as a calendar event."""
    series = reading.series
    values = [(reading.time_ns, reading.actual), *reading.corrections]
    return EventRow(
        reading.event_id,
        "macro_calendar",
        reading.title,
        reading.time_ns,
        reading.announced_ns,
        series.importance,
        country=series.country,
        market=series.market,
        expected={
            "consensus": _plain_value(reading.consensus, series),
            "previous": _plain_value(reading.previous, series),
            "description": series.describe,
        },
        releases=tuple(
            EventRelease(moment, {"actual": _plain_value(value, series)})
            for moment, value in values
        ),
    )


def _plain_value(value: float, series: Series) -> JsonValue:
    """Return a value as JSON; without decimals it is an integer."""
    if series.digits <= 0:
        return round(value)
    return value


def _due_days(series: Series, grid: MinuteGrid) -> list[date]:
    """Return the due days of a series on the grid and the last due day before the grid, in
    ascending order.
    """
    first = grid.days[0]
    last = grid.days[-1]
    days: set[date] = set()
    for year in range(first.year - 1, last.year + 1):
        for month in range(1, 13):
            days.update(series.days(year, month))

    due = sorted(day for day in days if day <= last)
    before = sum(day < first for day in due)

    return due[max(0, before - 1) :]


@dataclass(frozen=True, slots=True)
class _Outcome:
    consensus: float
    previous: float
    actual: float
    surprise: float
    corrected: float | None = None


def _draw_releases(seed: int, series: Series, grid: MinuteGrid) -> Iterator[SeriesRelease]:
    """Draw the releases of a series. The first day lies before the grid; it gives the previous
    value and the announcement of the first release.
    """
    days = _due_days(series, grid)
    moments = [new_york(day, series.hour, series.minute) for day in days]
    draw = _draw_statistic
    if series.period == "none":
        draw = _draw_policy
    if series is FOMC:
        draw = _draw_decisions

    outcomes = draw(stream(seed, "macro", series.key), series, len(days))
    for index, outcome in enumerate(outcomes):
        if index == 0:
            continue

        corrections: tuple[tuple[int, float], ...] = ()
        if outcome.corrected is not None:
            corrections = _corrections(series, grid, days[index:], outcome.corrected)

        yield SeriesRelease(
            series=series,
            day=days[index],
            time_ns=moments[index],
            announced_ns=moments[index - 1],
            consensus=outcome.consensus,
            previous=outcome.previous,
            actual=outcome.actual,
            surprise=outcome.surprise,
            corrections=corrections,
        )


def _draw_statistic(rng: np.random.Generator, series: Series, count: int) -> Iterator[_Outcome]:
    """Draw the values of a statistic. All random numbers for a day are drawn, whether or not they
    are used, so that a longer grid does not change earlier releases.
    """
    value = series.mean
    previous = _round_value(value, series)
    for _ in range(count):
        noise = float(rng.standard_normal())
        surprise = float(rng.standard_normal())
        value = series.mean + series.persistence * (value - series.mean) + series.noise * noise
        correction = float(rng.standard_normal())
        is_revised = bool(rng.random() < series.revised)
        actual = _round_value(value, series)
        consensus = _round_value(actual - series.miss * surprise, series)
        corrected = None
        if is_revised:
            corrected = actual + 0.6 * series.miss * correction

        yield _Outcome(consensus, previous, actual, (actual - consensus) / series.miss, corrected)
        previous = actual


def _round_value(value: float, series: Series) -> float:
    return round(value, series.digits) + 0.0  # -0.0 becomes 0.0


def _corrections(
    series: Series, grid: MinuteGrid, days: Sequence[date], value: float
) -> tuple[tuple[int, float], ...]:
    """Return the correction to the value of `days[0]`: after a month for quarterly series, at the
    next release for other series. No correction follows the end of the grid.
    """
    if series.period == "quarter":
        day = shift_sessions(days[0], 20)
    elif len(days) > 1:
        day = days[1]
    else:
        return ()

    if day > grid.days[-1]:
        return ()
    return ((new_york(day, series.hour, series.minute), _round_value(value, series)),)


def _draw_decisions(rng: np.random.Generator, series: Series, count: int) -> Iterator[_Outcome]:
    """Draw the FOMC's decisions: no change at first, then some cuts. Part of each surprise is the
    tone of the statement, so that a meeting without a cut moves markets too.
    """
    rate = series.mean
    for index in range(count):
        can_cut = rate > _FLOOR
        cut = index > 5 and can_cut and rng.random() < _EASING
        is_foreseen = rng.random() < 0.85
        expected_cut = cut
        if not is_foreseen:
            expected_cut = not cut and can_cut

        tone = 0.5 * float(rng.standard_normal())
        previous = rate
        consensus = rate - 0.25 * expected_cut
        rate -= 0.25 * cut
        yield _Outcome(consensus, previous, rate, (rate - consensus) / series.miss * 1.6 + tone)


def _draw_policy(rng: np.random.Generator, series: Series, count: int) -> Iterator[_Outcome]:
    """Draw another central bank's decisions: some steps of a quarter of a point, up in Japan and
    down elsewhere, all of them expected.
    """
    rate = series.mean
    step = -0.25
    if series.country == "JP":
        step = 0.25

    for _ in range(count):
        previous = rate
        if rng.random() < 0.4 and 0.2 < rate < 3.6:
            rate = rate + step

        rate = round(rate, 2)
        yield _Outcome(rate, previous, rate, 0.0)
