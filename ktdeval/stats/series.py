"""Return and risk figures of one NAV series: the formulas, apart from where the series comes from.

Sums are `math.fsum`: exactly rounded, so a figure depends neither on the order of its terms nor on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ktdeval.stats.metric import MetricValue

Series = npt.NDArray[np.float64]

TRADING_DAYS = 252
"""Trading days in a year, the convention of KTD-Fin Appendix G."""

NO_VARIANCE = 1e-12
"""A standard deviation of daily returns below this is rounding: one fen of a NAV of CNY 1,000,000 is 1e-8 of it."""


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean of at least one number, exactly rounded before the division."""
    terms = _floats(values)
    return math.fsum(terms) / len(terms)


def standard_deviation(values: Iterable[float]) -> float:
    """Sample standard deviation (ddof 1) of at least two numbers."""
    terms = _floats(values)
    centre = math.fsum(terms) / len(terms)
    return math.sqrt(math.fsum([(term - centre) * (term - centre) for term in terms]) / (len(terms) - 1))


def _floats(values: Iterable[float]) -> list[float]:
    # Elements of an array are slow one by one.
    terms: list[float] = values.tolist() if isinstance(values, np.ndarray) else [float(value) for value in values]
    return terms


def defined(value: float, n: int) -> MetricValue:
    """A metric value; -0.0 becomes 0.0, so that equal values have equal text."""
    return MetricValue(float(value) + 0.0, n)


def undefined(reason: str, n: int) -> MetricValue:
    """A metric that has no value, and why."""
    return MetricValue(None, n, reason)


def simple_returns(levels: Series) -> Series:
    """[n - 1] simple returns of [n] positive levels."""
    result: Series = levels[1:] / levels[:-1] - 1.0
    return result


def total_return(nav: Series) -> MetricValue:
    """Geometric return of a NAV series, as a fraction: `nav[-1] / nav[0] - 1`.

    Args:
        nav: [n + 1] CNY, base value first.

    Returns:
        The metric, with n the number of days; undefined without a day or on a series that `level_problem` refuses.
    """
    problem = level_problem(nav)
    return undefined(problem, len(nav) - 1) if problem else defined(nav[-1] / nav[0] - 1.0, len(nav) - 1)


def max_drawdown(nav: Series) -> MetricValue:
    """Largest fall from a running peak, as a positive fraction of the peak: `max(1 - nav / cummax(nav))`.

    Args:
        nav: [n + 1] CNY, base value first; the base counts as a peak.
    """
    problem = level_problem(nav)
    if problem:
        return undefined(problem, len(nav) - 1)
    return defined(float(np.max(1.0 - nav / np.maximum.accumulate(nav))), len(nav) - 1)


def sharpe(returns: Series) -> MetricValue:
    """Annualised Sharpe ratio at a zero risk-free rate: `mean(r) / std(r, ddof=1) * sqrt(252)`.

    Args:
        returns: [n] simple daily returns.
    """
    return _annualised_ratio(returns, "returns have no variance")


def information_ratio(returns: Series, benchmark_returns: Series) -> MetricValue:
    """Annualised information ratio: `mean(e) / std(e, ddof=1) * sqrt(252)` with `e = r - b`, the daily excess return.

    Args:
        returns: [n] simple daily returns of the portfolio.
        benchmark_returns: [n] simple daily returns of the benchmark over the same days.
    """
    return _annualised_ratio(returns - benchmark_returns, "excess returns have no variance")


def _annualised_ratio(returns: Series, reason: str) -> MetricValue:
    n = len(returns)
    if n < 2:
        return undefined("fewer than two days", n)
    spread = standard_deviation(returns)
    if spread < NO_VARIANCE:
        return undefined(reason, n)
    return defined(mean(returns) / spread * math.sqrt(TRADING_DAYS), n)


def level_problem(levels: Series) -> str | None:
    """Why a series of levels has no returns (no day, a missing or a non-positive level), or None."""
    if len(levels) < 2:
        return "no steps"
    if not np.isfinite(levels).all():
        return "a level is missing"
    if (levels <= 0).any():
        return "a level is not positive"
    return None
