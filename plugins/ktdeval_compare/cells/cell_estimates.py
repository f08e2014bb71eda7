"""Means within cells, differences between the means of two cells, and their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval_compare.pairs.compared_cards import DailyTable, Values

Days = npt.NDArray[np.bool_]  #: [days], True for the days in the cell

#: minimum number of windows in a cell; with two windows, Student's t has one degree of freedom
MIN_WINDOWS = 3
MIN_DAYS = 20  #: minimum number of days in a cell, as for every interval computed over days


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, from which an interval is computed."""

    n: int
    value: float | None = None
    error: float | None = None
    freedom: float = 0.0
    reason: str | None = None

    def half_width(self, alpha: float) -> float | None:
        """Return half the width of the t interval, or None if the interval is undefined."""
        if self.value is None or not self.error:
            return None
        return stats.student_quantile(self.freedom, 1.0 - alpha / 2.0) * self.error

    def p(self) -> float | None:
        """Return the two-sided p-value of the t test against zero."""
        if self.value is None or not self.error:
            return None
        return 2.0 * stats.student_probability(self.freedom, -abs(self.value) / self.error)


def mean_of_windows(values: Values, correlation: Values) -> Estimate:
    """Estimate the mean over windows, which are correlated if they share days."""
    n = len(values)
    if n < MIN_WINDOWS:
        return Estimate(n, reason=f"fewer than {MIN_WINDOWS} windows")

    mean = stats.estimate_mean(stats.level_sizes(values), correlation)
    return Estimate(n, mean.value, mean.se, n - 1, mean.reason)


def welch(one: Estimate, other: Estimate) -> Estimate:
    """Estimate the difference between two means over windows, assumed to be independent (Welch
    1947).
    """
    n = one.n + other.n
    if one.value is None or other.value is None:
        return Estimate(n, reason=f"of a cell: {one.reason or other.reason}")

    value = one.value - other.value
    if not one.error or not other.error:
        return Estimate(n, value, reason=one.reason or other.reason)

    left = one.error**2
    right = other.error**2
    freedom = (left + right) ** 2 / (left**2 / one.freedom + right**2 / other.freedom)
    return Estimate(n, value, math.sqrt(left + right), freedom)


def mean_of_days(table: DailyTable, values: Values, is_in: Days, less: Days | None) -> Estimate:
    """Estimate the annualised mean over the days in a cell. With `less`, estimate the difference
    from the mean over the days in `less`, another cell.

    The Newey-West standard error is computed over all days in chronological order, so the
    correlation between days in a cell depends on how far apart they actually are. Because the mean
    of a short cell is itself estimated, the standard error is corrected, and the interval uses the
    equivalent degrees of freedom of the Bartlett kernel, `1.5 n / (lags + 1)` (Priestley 1981,
    "Spectral Analysis and Time Series", section 6.2.4).
    """
    sizes = [int(is_in.sum())]
    if less is not None:
        sizes.append(int(less.sum()))

    n = sum(sizes)
    if min(sizes) < MIN_DAYS:
        few = f"fewer than {MIN_DAYS} days"
        return Estimate(n, reason=few if less is None else f"of a cell: {few}")

    lags = stats.automatic_lags(len(values))
    value = float(values[is_in].mean())
    influence = _influence(values, is_in, lags)
    if less is not None:
        value -= float(values[less].mean())
        influence -= _influence(values, less, lags)

    value *= table.days_a_year
    if stats.has_no_variance(float(influence.std()), table.resolution):
        return Estimate(n, value, reason="returns have no variance")

    error = stats.newey_west_mean(influence, lags).se * table.days_a_year
    freedom = 1.5 * len(sizes) * min(sizes) / (lags + 1)
    return Estimate(n, value, error, freedom)


def _influence(values: Values, is_in: Days, lags: int) -> Values:
    """Return a [days] series with mean 0. The standard error of its mean equals the standard error
    of the cell's mean.

    Deviations from the mean of n days understate the long-run variance of independent days by the
    fraction `(lags + 1) / n`.
    """
    deviations = np.where(is_in, values - values[is_in].mean(), 0.0)
    understated = 1.0 - (lags + 1) / is_in.sum()
    return np.asarray(deviations / is_in.mean() / math.sqrt(understated))
