"""Tear-sheet figures that are not in the metric panel: annual growth, individual drawdowns, rolling
ratios and monthly returns. All are pure functions of levels and daily returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.stats.distributions import normal_quantile, student_quantile
from ktdeval.stats.metric import MetricValue
from ktdeval.stats.series import (
    NO_VARIANCE,
    TRADING_DAYS,
    Series,
    beta_to,
    level_problem,
    make_undefined,
    make_value,
    max_drawdown,
    mean,
    sharpe,
)
from ktdeval.stats.sharpe_significance import shape_of

_LEVEL = 0.95  #: nominal coverage of the bands around rolling figures


def cagr(nav: Series, days_a_year: int = TRADING_DAYS) -> MetricValue:
    """Return the compound annual growth rate of [n + 1] levels, `(nav[-1] / nav[0]) ** (days a year
    / n) - 1`.

    A year is counted in trading days, as in `sharpe`. Undefined if `level_problem` gives a reason,
    or if the rate overflows floating-point numbers.

    Example:
        cagr(np.array([100.0, 101.0]), 252).value  # 1.01 ** 252 - 1 = 11.27
    """
    n = len(nav) - 1
    problem = level_problem(nav)
    if problem:
        return make_undefined(problem, max(n, 0))

    exponent = math.log(nav[-1] / nav[0]) * days_a_year / n
    if exponent > math.log(np.finfo(np.float64).max):
        return make_undefined("the growth of a year is beyond floating-point numbers", n)
    return make_value(math.expm1(exponent), n)


def calmar(nav: Series, days_a_year: int = TRADING_DAYS) -> MetricValue:
    """Return the Calmar ratio of [n + 1] levels, `cagr / max_drawdown`, over the whole series.
    Young (1991) uses 36 months.

    Undefined if there is no drawdown, or if either figure is undefined.

    Example:
        calmar(np.array([100.0, 90.0, 99.0]), 2).value  # (0.99 - 1) / 0.1 = -0.1
    """
    growth = cagr(nav, days_a_year)
    if growth.value is None:
        return growth

    deepest = max_drawdown(nav)
    if not deepest.value:
        return make_undefined("there is no drawdown", growth.n)
    return make_value(growth.value / deepest.value, growth.n)


def hit_rate(returns: Series) -> MetricValue:
    """Return the fraction of days with a gain among days with a non-zero return.

    Example:
        hit_rate(np.array([0.01, 0.0, -0.01, 0.02])).value  # 2 of 3
    """
    moved = int(np.count_nonzero(returns))
    if not moved:
        return make_undefined("no day has a return other than 0", 0)
    return make_value(int(np.count_nonzero(returns > 0.0)) / moved, moved)


def beta(returns: Series, market_returns: Series) -> MetricValue:
    """Return the slope of [n] daily returns on market returns, by least squares with an intercept
    (`beta_to`).

    Example:
        beta(np.array([0.02, -0.02]), np.array([0.01, -0.01])).value  # 2.0
    """
    n = len(returns)
    if n < 2:
        return make_undefined("fewer than two days", n)

    slope = beta_to(market_returns, returns)
    if slope is None:
        return make_undefined("the benchmark does not vary", n)
    return make_value(slope, n)


def underwater(levels: Series) -> Series:
    """Return the declines of [n] levels from their running maximum, as fractions from -1 to 0.
    Shape: [n].
    """
    return np.asarray(levels / np.maximum.accumulate(levels) - 1.0)


@dataclass(frozen=True, slots=True)
class Drawdown:
    """A fall from a peak and the recovery. Days are indices into the levels, of which the first is
    the base.
    """

    start: int  #: last day at the peak
    trough: int  #: day of the lowest level
    end: int | None  #: first day back at the peak level; None if the series ends earlier
    depth: float  #: fall from peak to trough, as a positive fraction of the peak
    days: int  #: trading days from the peak to `end`, or to the last day


def worst_drawdowns(levels: Series, most: int = 5) -> list[Drawdown]:
    """Return the deepest drawdowns of [n] levels, deepest first; ties in chronological order.

    A drawdown begins on the last day at a peak and ends on the first day back at the peak level, so
    drawdowns do not overlap.

    Example:
        worst_drawdowns(np.array([100.0, 90.0, 100.0]))  # one: start 0, trough 1, end 2, depth 0.1
    """
    falls = underwater(levels)
    at_peak = np.flatnonzero(falls > -NO_VARIANCE)  # linked levels recover except for rounding
    found: list[Drawdown] = []

    for order, start in enumerate(at_peak.tolist()):
        end = None
        stop = len(levels)
        if order + 1 < len(at_peak):
            end = int(at_peak[order + 1])
            stop = end

        if stop - start < 2:
            continue  # the next day is also at a peak

        trough = start + 1 + int(np.argmin(falls[start + 1 : stop]))
        last = stop - 1 if end is None else end
        found.append(Drawdown(start, trough, end, -float(falls[trough]), last - start))

    found.sort(key=lambda drawdown: (-drawdown.depth, drawdown.start))
    return found[:most]


@dataclass(frozen=True, slots=True)
class Rolling:
    """A figure for each window of days, with its 95 % band; NaN where undefined."""

    window: int  #: window length in days
    values: Series  #: [n] figure at the last day of each window; NaN on the first `window - 1` days
    low: Series  #: [n]
    high: Series  #: [n]

    def put(self, day: int, value: float, half: float) -> None:
        """Set the figure of the window that ends at `day`, and its band of half-width `half`."""
        self.values[day] = value
        self.low[day] = value - half
        self.high[day] = value + half


def rolling_sharpe(
    returns: Series, window: int, days_a_year: int = TRADING_DAYS, resolution: float = NO_VARIANCE
) -> Rolling:
    """Return the annualised Sharpe ratio (`sharpe`) of the last `window` days, at each of [n] days.

    The band applies to a single window. It is the ratio ± 1.96 standard errors of `sqrt(error
    variance / (window - 1))` (Mertens 2002; see `SharpeMoments`). Neighbouring windows share days,
    so bands of different days are not independent.
    """
    rolling = _empty(len(returns), window)
    reach = normal_quantile((1.0 + _LEVEL) / 2.0)
    for last in range(window - 1, len(returns)):
        days = returns[last + 1 - window : last + 1]
        ratio = sharpe(days, days_a_year, resolution).value
        if ratio is None:
            continue

        shape = shape_of(days)
        error = math.sqrt(max(shape.error_variance, 0.0) / (window - 1))
        rolling.put(last, ratio, reach * error * math.sqrt(days_a_year))

    return rolling


def rolling_beta(returns: Series, market_returns: Series, window: int) -> Rolling:
    """Return the slope on the market's returns (`beta_to`) over the last `window` days, at each of
    [n] days.

    The band is the 95 % least-squares t interval for the slope in one window. It assumes
    independent errors of equal variance.
    """
    rolling = _empty(len(returns), window)
    if window < 3:
        return rolling

    reach = student_quantile(window - 2, (1.0 + _LEVEL) / 2.0)
    for last in range(window - 1, len(returns)):
        own = returns[last + 1 - window : last + 1]
        others = market_returns[last + 1 - window : last + 1]
        slope = beta_to(others, own)
        if slope is None:
            continue

        own_deviations = own - mean(own)
        deviations = others - mean(others)
        errors = own_deviations - slope * deviations
        variance = float(errors @ errors) / (window - 2)
        rolling.put(last, slope, reach * math.sqrt(variance / float(deviations @ deviations)))

    return rolling


def _empty(days: int, window: int) -> Rolling:
    columns = [np.full(days, np.nan) for _ in range(3)]
    return Rolling(window, *columns)


@dataclass(frozen=True, slots=True)
class MonthReturn:
    """Compounded return over those days of a month that are in the series."""

    year: int
    month: int  #: 1 to 12
    value: float  #: as a fraction
    days: int  #: number of daily returns in the month


@dataclass(frozen=True, slots=True)
class YearReturn:
    """Compounded return over those days of a calendar year that are in the series."""

    year: int
    value: float  #: as a fraction
    days: int  #: number of daily returns in the year


def yearly_returns(
    returns: Series, days: Sequence[np.datetime64] | npt.NDArray[np.datetime64]
) -> list[YearReturn]:
    """Return compounded returns by calendar year, from [n] daily returns on [n] days in
    chronological order. A return belongs to the year of its day.

    Example:
        yearly_returns(np.array([0.1, 0.1]), np.array(["2023-12-29", "2024-01-02"], "M8[D]"))
        # two years of 10 %
    """
    growth: dict[int, float] = {}
    counts: dict[int, int] = {}
    for month in monthly_returns(returns, days):
        growth[month.year] = growth.get(month.year, 1.0) * (1.0 + month.value)
        counts[month.year] = counts.get(month.year, 0) + month.days
    return [YearReturn(year, growth[year] - 1.0, counts[year]) for year in growth]


def monthly_returns(
    returns: Series, days: Sequence[np.datetime64] | npt.NDArray[np.datetime64]
) -> list[MonthReturn]:
    """Return compounded returns by calendar month, from [n] daily returns on [n] days in
    chronological order.

    A return belongs to the month of its day, so a month's first return starts at the last close of
    the previous month.

    Example:
        monthly_returns(np.array([0.1, 0.1]), np.array(["2024-01-31", "2024-02-01"], "M8[D]"))
        # two months of 10 %
    """
    months = np.asarray(days, dtype="datetime64[D]").astype("datetime64[M]")
    found = []
    for month in np.unique(months):
        inside = returns[months == month]
        year, number = divmod(int(month.astype(np.int64)), 12)
        growth = math.prod((1.0 + inside).tolist())
        found.append(MonthReturn(1970 + year, number + 1, growth - 1.0, len(inside)))

    return found
