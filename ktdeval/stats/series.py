"""Return and risk figures of one NAV series. The formulas do not depend on where the series comes
from.

Sums use `math.fsum`, which rounds exactly, so a figure depends neither on the order of its terms
nor on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.metric import MetricValue

T = TypeVar("T")


class Same(Generic[T]):
    """A cache key that is equal only to itself. Ledgers and snapshots are too large to hash or
    compare.
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def day_rows(market: MarketSnapshot, days: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """Return the rows of trading days. Raises DataError if a day is not a trading day of
    the snapshot.
    """
    rows: npt.NDArray[np.int64] = np.searchsorted(market.days, days)
    is_day = market.days[np.minimum(rows, len(market.days) - 1)] == days
    if not is_day.all():
        market.day_index(days[int(np.argmin(is_day))])
    return rows


class HacMean(NamedTuple):
    """A mean and its standard error, both in the same unit as the series."""

    mean: float
    se: float


def automatic_lags(n: int) -> int:
    """Return the number of lags of the Bartlett kernel for n observations: `floor(4 * (n /
    100)**(2/9))`, at most n - 1 (Newey and West 1994).
    """
    return min(int(4 * (n / 100) ** (2 / 9)), max(n - 1, 0))


def newey_west_mean(values: npt.ArrayLike, lags: int | None = None) -> HacMean:
    """Return the mean of a series in chronological order, and its Newey-West standard error,
    `sqrt(S) / n * sqrt(n / (n - 1))` with `S = g(0) + 2 * sum over l of (1 - l/(lags+1)) * g(l)`,
    `g(l) = sum of e[t]*e[t-l]`. This equals the HAC error of statsmodels with
    `use_correction=True`, except for the last bits, which cards record. Raises ValueError unless
    there are at least two values, all finite, and `lags` is within 0…n-1.
    """
    series = np.asarray(values, dtype=np.float64)
    n = series.size
    used = automatic_lags(n) if lags is None else lags
    if series.ndim != 1 or n < 2 or not np.isfinite(series).all():
        raise ValueError("a Newey-West standard error needs a series of at least two finite values")
    if not 0 <= used < n:
        raise ValueError(f"{used} lags for {n} values: use 0 to {n - 1}")

    mean = math.fsum(series) / n
    errors = series - mean
    total = float(errors @ errors)

    for lag in range(1, used + 1):
        total += 2.0 * (1.0 - lag / (used + 1)) * float(errors[lag:] @ errors[:-lag])

    # Except for rounding, the Bartlett kernel can't yield a negative variance.
    return HacMean(mean, math.sqrt(max(total, 0.0) / (n * (n - 1))))


Series = npt.NDArray[np.float64]
#: trading days per year for A-shares, following KTD-Fin Appendix G; other venues have their own
#: number
TRADING_DAYS = 252
#: A standard deviation below this is floating-point rounding. NAV returns have a coarser
#: resolution, `Ledger.return_resolution`: a cent in a NAV of 1,000,000 is 1e-8 of it.
NO_VARIANCE = 1e-12


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean of at least one number, from an exactly rounded sum."""
    terms = _floats(values)
    return math.fsum(terms) / len(terms)


def standard_deviation(values: Iterable[float]) -> float:
    """Return the sample standard deviation (ddof 1) of at least two numbers."""
    terms = _floats(values)
    centre = math.fsum(terms) / len(terms)
    return math.sqrt(
        math.fsum([(term - centre) * (term - centre) for term in terms]) / (len(terms) - 1)
    )


def _floats(values: Iterable[float]) -> list[float]:
    # Accessing array elements one by one is slow.
    terms: list[float] = (
        values.tolist() if isinstance(values, np.ndarray) else [float(value) for value in values]
    )
    return terms


def make_value(value: float, n: int) -> MetricValue:
    """Return a metric value. -0.0 becomes 0.0, so that equal values have equal text."""
    return MetricValue(float(value) + 0.0, n)


def make_undefined(reason: str, n: int) -> MetricValue:
    """Return a metric without a value, with the reason."""
    return MetricValue(None, n, reason)


def simple_returns(levels: Series) -> Series:
    """Return the simple returns of [n] positive levels. Shape: [n - 1]."""
    return np.asarray(levels[1:] / levels[:-1] - 1.0)


def total_return(nav: Series) -> MetricValue:
    """Return the geometric return of [n + 1] levels, `nav[-1] / nav[0] - 1`. Undefined if
    `level_problem` gives a reason.
    """
    problem = level_problem(nav)
    # KTD-Fin Appendix G: geometric return from end-of-day NAV
    return (
        make_undefined(problem, len(nav) - 1)
        if problem
        else make_value(nav[-1] / nav[0] - 1.0, len(nav) - 1)
    )


def max_drawdown(nav: Series) -> MetricValue:
    """Return the maximum decline from a running peak, `max(1 - nav / cummax(nav))`, as a positive
    fraction of the peak. The initial level is the first peak.
    """
    problem = level_problem(nav)
    if problem:
        return make_undefined(problem, len(nav) - 1)
    # KTD-Fin Appendix G: largest peak-to-trough decline
    return make_value(float(np.max(1.0 - nav / np.maximum.accumulate(nav))), len(nav) - 1)


def has_no_variance(spread: float, resolution: float = NO_VARIANCE) -> bool:
    """Return whether a standard deviation is only rounding error, that is, below the resolution of
    the numbers from which it was computed.
    """
    return spread < max(resolution, NO_VARIANCE)


def sharpe(
    returns: Series, days_a_year: int = TRADING_DAYS, resolution: float = NO_VARIANCE
) -> MetricValue:
    """Return the annualised Sharpe ratio of [n] simple daily returns for a risk-free rate of 0:
    `mean(r) / std(r, ddof=1) * sqrt(days a year)`.

    Undefined if the standard deviation is below `resolution`, the resolution of the returns
    (`Ledger.return_resolution`).
    """
    return _annualised_ratio(returns, "returns have no variance", days_a_year, resolution)


def volatility(returns: Series, days_a_year: int = TRADING_DAYS) -> MetricValue:
    """Return the annualised standard deviation of [n] simple daily returns, `std(r, ddof=1) *
    sqrt(days a year)`, as a fraction per year.
    """
    n = len(returns)
    if n < 2:
        return make_undefined("fewer than two days", n)
    return MetricValue(standard_deviation(returns) * math.sqrt(days_a_year), n)


def sortino(
    returns: Series, days_a_year: int = TRADING_DAYS, resolution: float = NO_VARIANCE
) -> MetricValue:
    """Return the annualised Sortino ratio of [n] simple daily returns for a target of 0: `mean(r) /
    d * sqrt(days a year)`. The downside deviation `d = sqrt(sum(min(r, 0)**2) / n)` is over all n
    days, not only those with a loss (Sortino and Price 1994).

    Undefined if no day has a loss, or `d` is below `resolution`, the resolution of the returns
    (`Ledger.return_resolution`).
    """
    n = len(returns)
    if n < 2:
        return make_undefined("fewer than two days", n)

    losses = np.minimum(returns, 0.0)
    deviation = math.sqrt(math.fsum(losses * losses) / n)
    if has_no_variance(deviation, resolution):
        return make_undefined("no day has a loss", n)

    return make_value(mean(returns) / deviation * math.sqrt(days_a_year), n)


def information_ratio(
    returns: Series,
    benchmark_returns: Series,
    days_a_year: int = TRADING_DAYS,
    resolution: float = NO_VARIANCE,
) -> MetricValue:
    """Return the annualised information ratio `mean(e) / std(e, ddof=1) * sqrt(days a year)`, where
    `e = r - b` are the daily excess returns.

    Undefined if the standard deviation of `e` or of `r` is below `resolution`, the resolution of
    the returns. If `r` does not vary, the ratio would describe only the benchmark.
    """
    if len(returns) > 1 and has_no_variance(standard_deviation(returns), resolution):
        return make_undefined("returns have no variance", len(returns))

    excess = returns - benchmark_returns
    return _annualised_ratio(excess, "excess returns have no variance", days_a_year, resolution)


def _annualised_ratio(
    returns: Series, reason: str, days_a_year: int, resolution: float
) -> MetricValue:
    n = len(returns)
    if n < 2:
        return make_undefined("fewer than two days", n)

    spread = standard_deviation(returns)
    if has_no_variance(spread, resolution):
        return make_undefined(reason, n)

    # KTD-Fin Appendix G: annualised with 252 days
    return make_value(mean(returns) / spread * math.sqrt(days_a_year), n)


def level_problem(levels: Series) -> str | None:
    """Return the reason why a series of levels has no returns, or None. The series may have fewer
    than two levels, or a missing or non-positive level.
    """
    if len(levels) < 2:
        return "no steps"
    if not np.isfinite(levels).all():
        return "a level is missing"
    if (levels <= 0).any():
        return "a level is not positive"

    return None


def beta_to(market: Series, returns: Series) -> float | None:
    """Return the slope of [n] returns on a market's returns, by least squares with an intercept.
    None if the market does not vary.
    """
    deviations = market - mean(market)
    variance = math.fsum(deviations * deviations)
    if len(market) < 2 or math.sqrt(variance / (len(market) - 1)) < NO_VARIANCE:
        return None
    return math.fsum((returns - mean(returns)) * deviations) / variance


def least_squares(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], ridge: float = 0.0
) -> npt.NDArray[np.float64]:
    """Return the coefficients `argmin |y - x b|^2 + ridge n |b|^2` for [n, K] observations, without
    an intercept. This is ordinary least squares, or ridge regression (Hoerl and Kennard 1970) with
    a penalty scaled by the number of observations. If columns are linearly dependent, it is the
    minimum-norm solution. Shape: [K].
    """
    if not ridge:
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=np.float64)
    return np.asarray(np.linalg.solve(x.T @ x + ridge * len(y) * np.eye(x.shape[1]), x.T @ y))
