"""Estimates of a daily series: Sharpe ratio with its interval, tests, and the days they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.stats import (
    Bootstrap,
    annualisation_problem,
    deflated_sharpe_ratio,
    expected_best_sharpe,
    has_no_variance,
    normal_quantile,
    probabilistic_sharpe,
    shape_of,
    student_quantile,
)
from ktdeval_published.prices import Array, Stamps
from ktdeval_published.report import AccountTrack, IntervalEstimate, Power

MIN_DAYS = 5  #: days from which on a probability is given
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class GainPath:
    """Daily gains of an account, in currency."""

    days: Stamps  #: [D]
    gains: Array  #: [D]
    capital: float | None  #: value before the first day; None for a ladder without a capital
    gross: float = 1.0  #: size of a ladder without a capital, by which its gains are divided

    @property
    def returns(self) -> Array:
        """Daily returns; without a capital, daily gains on the ladder's gross size. Shape: [D]."""
        if self.capital is None:
            return np.asarray(self.gains / self.gross)
        levels = self.capital + np.concatenate([[0.0], np.cumsum(self.gains)[:-1]])
        return np.asarray(self.gains / levels)

    def where(self, chosen: np.ndarray) -> Array:
        """Return the returns of some days."""
        return np.asarray(self.returns[chosen])


def path_of_nav(days: Stamps, nav: Array, capital: float) -> GainPath:
    """Return the path of an account value at each day's close, from its capital before."""
    return GainPath(days, np.diff(np.concatenate([[capital], nav])), capital)


def track_of(path: GainPath, a_year: int) -> AccountTrack:
    """Return the figures of a path."""
    gain = math.fsum(path.gains)
    levels = np.concatenate([[0.0], np.cumsum(path.gains)])
    total = None
    if path.capital is not None:
        levels = path.capital + levels
        total = gain / path.capital
        drop = 1 - levels / np.maximum.accumulate(levels)
    else:
        drop = np.maximum.accumulate(levels) - levels

    return AccountTrack(
        gain=gain,
        total_return=total,
        sharpe=sharpe_of(path.returns, a_year),
        days=len(path.gains),
        first=str(path.days[0]) if len(path.days) else "",
        last=str(path.days[-1]) if len(path.days) else "",
        max_drawdown=float(drop.max()),
    )


def sharpe_of(returns: Array, a_year: int) -> IntervalEstimate:
    """Return the annual Sharpe ratio of daily returns with a 95 % interval from resampled blocks of
    days. Too few days are not annualised, as on cards.
    """
    n = len(returns)
    problem = annualisation_problem(n, a_year)
    if problem is not None:
        return IntervalEstimate(n=n, reason=problem)
    if has_no_variance(float(np.std(returns))):
        return IntervalEstimate(n=n, reason="no variance")

    value = float(np.mean(returns) / np.std(returns, ddof=1)) * math.sqrt(a_year)
    interval = Bootstrap(np.asarray(returns)).ratio(a_year)
    return IntervalEstimate(
        value=value,
        low=interval.low,
        high=interval.high,
        n=n,
        kind="blocks of days",
        reason=interval.reason or "",
    )


def mean_of(values: Sequence[float]) -> IntervalEstimate:
    """Return the mean with Student's 95 % interval."""
    n = len(values)
    if not n:
        return IntervalEstimate(reason="no pairs")
    value = math.fsum(values) / n
    if n < 3:
        return IntervalEstimate(value=value, n=n, reason="no interval with fewer than three")

    spread = float(np.std(values, ddof=1))
    half = student_quantile(n - 1, 1 - (1 - LEVEL) / 2) * spread / math.sqrt(n)
    return IntervalEstimate(value=value, low=value - half, high=value + half, n=n, kind="t")


def psr_of(returns: Array) -> float | None:
    """Return the probabilistic Sharpe ratio against 0; None if it is not defined."""
    if len(returns) < MIN_DAYS or has_no_variance(float(np.std(returns))):
        return None
    return probabilistic_sharpe(shape_of(returns))


def p_value_of(returns: Array) -> float | None:
    """Return the one-sided p-value of a positive mean, 1 - PSR; None if it is not defined."""
    psr = psr_of(returns)
    return None if psr is None else 1 - psr


def dsr_of(returns: Array, all_returns: Sequence[Array]) -> float | None:
    """Return the deflated Sharpe ratio among all entrants; None if it is not defined."""
    ratios = [float(np.mean(one) / np.std(one, ddof=1)) for one in all_returns if np.std(one) > 0]
    if len(returns) < MIN_DAYS or len(ratios) < 2:
        return None
    value = deflated_sharpe_ratio(returns, ratios).value
    return value if isinstance(value, float) else None


def ceiling_of(entrants: int, days: int, a_year: int) -> float | None:
    """Return the annual Sharpe ratio to expect of the best of N entrants without skill, whose
    daily ratios have the variance 1 / days.
    """
    if entrants < 2 or days < 2:
        return None
    return expected_best_sharpe(entrants, 1 / days) * math.sqrt(a_year)


def power_of(days: int, a_year: int) -> Power:
    """Return the days that a two-sided test at 5 % needs for a power of 0.8, for independent
    normal returns, and the Sharpe ratio that these days detect.
    """
    needed = normal_quantile(0.975) + normal_quantile(0.8)
    detectable = needed * math.sqrt(a_year / days) if days else None
    return Power(
        days=days,
        days_for_one=_days_for(1.0, needed, a_year),
        days_for_two=_days_for(2.0, needed, a_year),
        detectable=detectable,
    )


def _days_for(ratio: float, needed: float, a_year: int) -> int:
    daily = ratio / math.sqrt(a_year)
    return math.ceil((needed / daily) ** 2 * (1 + daily**2 / 2))
