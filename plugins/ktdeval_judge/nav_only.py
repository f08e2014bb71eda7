"""Figures for a NAV without decisions, computed from its returns and, if a market is given, from
the market's benchmark.

The regression on the benchmark follows Jensen (1968): r = alpha + beta b + e, by least squares on
simple daily returns. The standard error of alpha is the Newey-West standard error for the mean of r
- beta b.

The precision of a file limits the precision of returns: for example, a value of 100,000 in cents is
known to 1e-7. If the dispersion of returns is below this resolution, it is a rounding error, and a
ratio to it is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from ktdeval.cards import percent
from ktdeval.errors import DataError
from ktdeval.market import MarketSnapshot
from ktdeval.stats import (
    NEVER,
    Bootstrap,
    Interval,
    MetricValue,
    annualisation_problem,
    benchmark_problem,
    beta_to,
    deflated_sharpe_ratio,
    dominance_words,
    dominant_return,
    information_ratio,
    level_problem,
    minimum_track_record,
    newey_west_mean,
    shape_of,
    sharpe,
    simple_returns,
    total_return,
)
from ktdeval_judge.document import Figure

Path = npt.NDArray[np.float64]
Days = npt.NDArray[np.datetime64]
NO_MARKET = "no market is named (--data)"
NO_YEAR = "its days are irregularly spaced; give --periods"
_BESIDE = ("excess_sharpe", "alpha_a_year", "beta")  #: figures that need a benchmark
_Z = 1.959964  #: normal quantile for a two-sided 95 % interval
_MIN_DAYS = 20  #: minimum number of days for a regression
_LARGEST_GROWTH = 1e3  #: daily growth factor above which values must be in different units
#: a day is reported if it is further from the other days than this number of standard deviations
_OUTLYING = 8.0
#: ratio of the standard deviation to the median absolute deviation of a normal distribution
_NORMAL_MAD = 1.4826
_MIN_USUAL = 0.9  #: minimum share of usual days; with fewer, all days are treated as usual
_MIN_OTHERS = 4  #: minimum number of returns for comparing one day with the other days
_MAX_SHOWN = 5
#: maximum number of calendar days between two daily values, based on the longest exchange holidays
_LONGEST_BREAK = 11
_WEEKDAYS, _ALL_DAYS = 252.0, 365.0
_YEAR = 365.25  #: days
#: largest ratio of the number of days that the spacing implies for a span to the number in the file
_MAX_UNEVEN = 1.25
_SPACINGS: Mapping[float, tuple[int, int]] = {
    52.0: (6, 8),
    12.0: (28, 31),
    4.0: (89, 92),
    1.0: (364, 366),
}
"""Returns per year -> range of calendar days from one value to the next."""


@dataclass(frozen=True, kw_only=True)
class NavTrack:
    """Account values at daily closes, with what is needed to compute figures."""

    days: Days  #: [n + 1]
    values: Path  #: [n + 1], all above 0
    a_year: float | None  #: number of returns per year; None if unknown
    benchmark: Path | str  #: levels, [n + 1], or the reason why they are missing

    @property
    def returns(self) -> Path:
        """Simple returns, [n]."""
        return simple_returns(self.values)

    @property
    def resolution(self) -> float:
        """Smallest return that can be represented with the file's precision."""
        return resolution_of(self.values)


def check_values(source: str, days: Days, values: Path) -> None:
    """Raise DataError if values can't be account values: if there are fewer than two, if one is not
    above 0, or if one is more than a thousand times the previous value.
    """
    if len(values) < 2:
        raise DataError(f"{source}: fewer than two days of account value; give more days")

    for day, value in zip(days, values, strict=True):
        if not value > 0:
            raise DataError(
                f"{source}: the value of {day} is not above 0; end the file before that day"
            )

    # differences of logarithms, because a quotient may overflow
    growth = np.diff(np.log(values))
    largest = int(np.argmax(growth))
    if growth[largest] > math.log(_LARGEST_GROWTH):
        raise DataError(
            f"{source}: {values[largest + 1]:g} on {days[largest + 1]} comes after "
            f"{values[largest]:g}: such growth in a day is implausible; write all values in one "
            "unit"
        )


def day_before(days: Days) -> np.datetime64:
    """Return the day at whose close the first return in `days` began. `days` are [n], at least two.
    If they are all weekdays, this is the previous weekday; if they include weekends, it is the
    previous day. For weekly or monthly days, it is one period earlier.
    """
    a_year = returns_a_year(days)
    step = 1
    if a_year is None or a_year <= max(_SPACINGS):
        step = int(np.median(_gaps(days)))
    before: np.datetime64 = days[0] - np.timedelta64(step, "D")
    if step == 1 and np.is_busday(days).all():
        before = np.busday_offset(days[0], -1)
    return before


def resolution_of(values: Path) -> float:
    """Return the smallest return that the values can represent: one unit in their last digit,
    divided by the lowest value.
    """
    digits = [Decimal(repr(value)).normalize().as_tuple().exponent for value in values.tolist()]
    last = min(0, *(int(exponent) for exponent in digits))
    return float(10.0**last / values.min())


def returns_a_year(days: Days) -> float | None:
    """Return the number of returns per year for this spacing of days: 252 for weekdays, 365 for all
    days, 52 for weeks, 12 for months, 4 for quarters, 1 for years. Return None if the spacing is
    irregular, or if the number of days in the whole span differs from it by more than a quarter.
    """
    number = _usual_number(days)
    if number is None:
        return None

    expected = (days[-1] - days[0]).astype(np.int64) * number / _YEAR
    if number == _WEEKDAYS:
        expected = np.busday_count(days[0], days[-1])
    if number == _ALL_DAYS:
        expected = (days[-1] - days[0]).astype(np.int64)

    count = len(days) - 1
    is_regular = expected <= _MAX_UNEVEN * count and count <= _MAX_UNEVEN * expected
    return number if is_regular else None


def _usual_number(days: Days) -> float | None:
    """Return the number of returns per year for the usual gap from one day to the next."""
    usual = float(np.median(_gaps(days)))
    if usual == 1:
        weekdays = len({int(day.astype(int)) % 7 for day in days})
        if weekdays == 7:
            return _ALL_DAYS
        return _WEEKDAYS if weekdays <= 5 else None

    for number, (least, most) in _SPACINGS.items():
        if least <= usual <= most:
            return number
    return None


def nav_figures(track: NavTrack) -> dict[str, Figure]:
    """Return a NAV's figures, by field of the document."""
    own = Bootstrap(track.returns, resolution=track.resolution, days=track.days[1:])
    psr = deflated_sharpe_ratio(track.returns, (), resolution=track.resolution)
    problem = annualisation_problem(len(track.returns), track.a_year)
    if psr.value is not None and track.a_year is None:
        problem = problem or NO_YEAR
    if psr.value is not None and problem is not None:
        psr = MetricValue(None, psr.n, problem)
    return {
        "claimed_return": _figure(total_return(track.values), own.total_return()),
        "sharpe": _annual(sharpe(track.returns, 1, track.resolution), own, track.a_year),
        "psr": Figure(value=psr.value, reason=psr.reason),
        "years_needed": _years_needed(track, psr),
        **_beside_benchmark(track),
    }


def benchmark_return(levels: Path | str) -> Figure:
    """Return a benchmark's total return."""
    if isinstance(levels, str):
        return Figure(value=None, reason=levels)
    return Figure(value=float(levels[-1] / levels[0] - 1.0))


def levels_of(first_row: int, last_row: int, snapshot: MarketSnapshot) -> Path | str:
    """Return the benchmark's levels at the closes of the rows, or the reason why levels are
    missing.
    """
    levels = np.asarray(snapshot.benchmark[first_row : last_row + 1])
    return benchmark_problem(snapshot, levels) or levels


def _years_needed(track: NavTrack, psr: MetricValue) -> Figure:
    """Return the number of years until a Sharpe ratio of this size would be significantly above 0
    at 95 %.
    """
    if psr.value is None or track.a_year is None:
        return Figure(value=None, reason=psr.reason or NO_YEAR)

    days = minimum_track_record(shape_of(track.returns))
    if days is None:
        return Figure(value=None, reason=f"{NEVER}the Sharpe ratio is not positive")
    return Figure(value=days / track.a_year)


def _beside_benchmark(track: NavTrack) -> dict[str, Figure]:
    """Return a NAV's figures relative to its benchmark."""
    levels = track.benchmark
    if isinstance(levels, str):
        return dict.fromkeys(_BESIDE, Figure(value=None, reason=levels))
    # if all returns are 0, the ratio is undefined, whatever the benchmark did
    own = sharpe(track.returns, 1, track.resolution)
    if own.value is None:
        return dict.fromkeys(_BESIDE, Figure(value=None, reason=own.reason))

    moves = simple_returns(levels)
    ratio = information_ratio(track.returns, moves, 1, track.resolution)
    over = Bootstrap(track.returns - moves, resolution=track.resolution, days=track.days[1:])
    figures = {"excess_sharpe": _annual(ratio, over, track.a_year)}

    slope = beta_to(moves, track.returns)
    if slope is None or len(moves) < _MIN_DAYS or track.a_year is None:
        reason = f"fewer than {_MIN_DAYS} days, or a constant benchmark"
        return {**dict.fromkeys(_BESIDE, Figure(value=None, reason=reason)), **figures}

    unexplained = newey_west_mean(track.returns - slope * moves)
    reach = _Z * unexplained.se
    figures["alpha_a_year"] = Figure(
        value=unexplained.mean * track.a_year,
        low=(unexplained.mean - reach) * track.a_year,
        high=(unexplained.mean + reach) * track.a_year,
    )
    figures["beta"] = Figure(value=slope)
    return figures


def _annual(ratio: MetricValue, series: Bootstrap, a_year: float | None) -> Figure:
    """Annualise a ratio of daily mean to daily standard deviation, with its interval."""
    if a_year is None:
        return Figure(value=None, reason=NO_YEAR)
    problem = annualisation_problem(len(series.values), a_year)
    if ratio.value is not None and problem is not None:
        return Figure(value=None, reason=problem)
    return _figure(ratio, series.ratio(1), math.sqrt(a_year))


def _figure(found: MetricValue, interval: Interval, scale: float = 1.0) -> Figure:
    if found.value is None:
        return Figure(value=None, reason=found.reason)
    if interval.low is None or interval.high is None:
        return Figure(value=found.value * scale, no_interval=interval.reason)
    return Figure(value=found.value * scale, low=interval.low * scale, high=interval.high * scale)


# ---- notes, and what puts the data in doubt


def doubts_of(track: NavTrack, is_executed: bool) -> Iterator[str]:
    """Yield the reasons why an account's returns may not be returns of a strategy, or rest on one
    day. The returns of executed decisions are known, but may rest on one day.
    """
    if level_problem(track.values):
        return
    outlying = [] if is_executed else _outlying(track.days, track.values)
    largest = dominant_return(track.returns)
    if outlying:
        yield (
            f"{outlying[0]} lies more than {_OUTLYING:.0f} standard deviations from the other days,"
            " as a deposit or an error would"
        )
    elif largest is not None:
        yield dominance_words(track.returns, largest, str(track.days[largest + 1]))
    if is_executed:
        return

    longest = _longest_break(track.days)
    if longest is not None:
        yield f"the account has no value from {track.days[longest]} to {track.days[longest + 1]}"


def track_notes(track: NavTrack) -> Iterator[str]:
    """Yield notes on outlying days and on long gaps between days."""
    yield from outlying_days(track.days, track.values)
    longest = _longest_break(track.days)
    if longest is not None:
        yield (
            f"the NAV has no value from {track.days[longest]} to {track.days[longest + 1]}: the "
            "return over these days is treated as a daily return"
        )


def _longest_break(days: Days) -> int | None:
    """Return the index of the day before the longest break of a daily series, if it is longer than
    any holiday of an exchange; else None.
    """
    gaps = _gaps(days)
    longest = int(np.argmax(gaps))
    if np.median(gaps) == 1 and gaps[longest] > _LONGEST_BREAK:
        return longest
    return None


def outlying_days(days: Days, values: Path) -> Iterator[str]:
    """Yield a note on the days whose returns are more than eight standard deviations away from the
    mean of the other days.
    """
    found = _outlying(days, values)
    if found:
        shown = ", ".join(found[:_MAX_SHOWN])
        more = ""
        if len(found) > _MAX_SHOWN:
            more = f" and {len(found) - _MAX_SHOWN} more"
        yield (
            f"more than {_OUTLYING:.0f} standard deviations from the other days: {shown}{more}; "
            "if these are deposits or withdrawals, name them with --flows; if they are errors in the"
            " file, remove them"
        )


def _outlying(days: Days, values: Path) -> list[str]:
    """Return the outlying days with their returns, such as `2024-03-01 (+45.05 %)`."""
    returns = simple_returns(values)
    if len(returns) < _MIN_OTHERS:
        return []

    resolution = resolution_of(values)
    distances = np.abs(returns - np.median(returns))
    # Outlying days must not hide each other, so they are not among the other days. But if many days
    # are outlying, none of them is an outlier. The same applies to an account that seldom trades.
    usual = float(np.median(distances))
    is_usual = distances <= _OUTLYING * _NORMAL_MAD * usual
    if usual <= resolution or is_usual.mean() < _MIN_USUAL:
        is_usual[:] = True

    found = []
    for number, own in enumerate(returns):
        is_other = is_usual.copy()
        is_other[number] = False
        others = returns[is_other]
        spread = max(float(others.std(ddof=1)), resolution)
        if abs(float(own - others.mean())) > _OUTLYING * spread:
            found.append(f"{days[number + 1]} ({percent(own, '+.2f')})")

    return found


def _gaps(days: Days) -> npt.NDArray[np.int64]:
    """Return the number of calendar days from each day to the next, [n]."""
    return np.diff(days).astype(np.int64)
