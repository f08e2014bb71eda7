"""Economic releases: their calendar, their values, and what they do to stocks and yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import EventRow, FloatArray, Release
from ktdeval_qfinzero.data.synthetic.engine import Shock
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, shift_sessions, stream
from ktdeval_qfinzero.data.synthetic.macro_table import FOMC, SERIES, Series, reference_period
from ktdeval_qfinzero.moments import MINUTE

_EASING = 0.45  #: How often a meeting cuts by a quarter of a point, once the cycle has begun
_FLOOR = 3.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One release of a series. `day, time_ns, announced_ns`: when it is due, and since when that is known; `consensus, previous,
    actual`: values; `previous` as it was first released.
    """

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


def macro_events(readings: Sequence[Reading]) -> list[EventRow]:
    """Return the calendar's entries of the releases."""
    return [_event(reading) for reading in readings]


def _event(reading: Reading) -> EventRow:
    series = reading.series
    expected: dict[str, JsonValue] = {
        "consensus": _plain(reading.consensus, series),
        "previous": _plain(reading.previous, series),
        "description": series.describe,
    }
    values = [(reading.time_ns, reading.actual), *reading.corrections]
    return EventRow(
        event_id=reading.event_id,
        event_type="macro_calendar",
        title=reading.title,
        time_ns=reading.time_ns,
        announced_ns=reading.announced_ns,
        importance=series.importance,
        country=series.country,
        market=series.market,
        expected=expected,
        releases=tuple(Release(moment, {"actual": _plain(value, series)}) for moment, value in values),
    )


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
    for place, day in enumerate(days):
        noise, surprise = float(rng.standard_normal()), float(rng.standard_normal())
        value = series.mean + series.persistence * (value - series.mean) + series.noise * noise
        correction, revised = float(rng.standard_normal()), bool(rng.random() < series.revised)
        actual = round(value, series.digits) + 0.0
        consensus = round(actual - series.miss * surprise, series.digits) + 0.0
        if place:
            time_ns = new_york(day, series.hour, series.minute)
            readings.append(
                Reading(
                    series=series,
                    day=day,
                    time_ns=time_ns,
                    announced_ns=new_york(days[place - 1], series.hour, series.minute),
                    consensus=consensus,
                    previous=previous,
                    actual=actual,
                    surprise=(actual - consensus) / series.miss,
                    corrections=_corrections(series, grid, days[place:], actual + 0.6 * series.miss * correction)
                    if revised
                    else (),
                )
            )
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
    for place, day in enumerate(days):
        cut = place > 5 and rate > _FLOOR and rng.random() < _EASING
        expected_cut = cut if rng.random() < 0.85 else not cut and rate > _FLOOR
        tone = 0.5 * float(rng.standard_normal())
        previous, rate = rate, rate - 0.25 if cut else rate
        consensus = previous - 0.25 if expected_cut else previous
        if place:
            announced = new_york(days[place - 1], FOMC.hour)
            surprise = (rate - consensus) / FOMC.miss * 1.6 + tone
            readings.append(Reading(FOMC, day, new_york(day, FOMC.hour), announced, consensus, previous, rate, surprise))
    return readings


def _policy(rng: np.random.Generator, series: Series, grid: Grid) -> list[Reading]:
    """Other central banks do what was expected; a step of a quarter of a point now and then."""
    days = _days(series, grid)
    rate, readings = series.mean, []
    for place, day in enumerate(days):
        step = (0.25 if series.country == "JP" else -0.25) if rng.random() < 0.4 and 0.2 < rate < 3.6 else 0.0
        previous, rate = rate, round(rate + step, 2)
        if place:
            announced = new_york(days[place - 1], series.hour, series.minute)
            time_ns = new_york(day, series.hour, series.minute)
            readings.append(Reading(series, day, time_ns, announced, rate, previous, rate, 0.0))
    return readings
