"""Skill or luck: probabilistic Sharpe ratio, deflated Sharpe ratio and minimum track record length.

Bailey and López de Prado, *The Sharpe Ratio Efficient Frontier* (2012) and *The Deflated Sharpe
Ratio* (2014); with autocorrelation, López de Prado, Lipton and Zoonekynd, *How to Use the Sharpe
Ratio* (2025). Sharpe ratios here are daily (mean over standard deviation), not annualised. Skewness
and kurtosis are sample moments (third and fourth standardised moments about the mean; 0 and 3 for a
normal distribution).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.stats.distributions import normal_probability, normal_quantile
from ktdeval.stats.metric import NEVER, MetricValue, built_in
from ktdeval.stats.series import (
    NO_VARIANCE,
    Series,
    has_no_variance,
    level_problem,
    make_undefined,
    standard_deviation,
)
from ktdeval.trading.ledger import Ledger

EULER_GAMMA = 0.5772156649015329
CONFIDENCE = 0.95  #: confidence level of the minimum track record length


@dataclass(frozen=True, slots=True)
class SharpeMoments:
    """Moments that determine the error of a Sharpe ratio."""

    days: int  #: number of daily returns
    sharpe: float  #: daily Sharpe ratio
    skew: float = 0.0  #: third standardised moment
    kurtosis: float = 3.0  #: fourth standardised moment (3 for a normal distribution)
    #: AR(1) coefficient rho, between -1 and 1, if returns follow an AR(1) process
    autocorrelation: float = 0.0

    @property
    def error_variance(self) -> float:
        """Variance of sqrt(days - 1) times the estimate, `a - b * skew * SR + c * (kurtosis - 1) /
        4 * SR^2`. Without autocorrelation, a, b and c are 1, and the variance is never below 0.
        """
        # Long-run (co)variances of an AR(1) process x and its square, relative to independent days:
        # of x, of x with x^2, and of x^2. López de Prado, Lipton and Zoonekynd 2025.
        rho = self.autocorrelation
        of_mean = (1.0 + rho) / (1.0 - rho)
        of_square = (1.0 + rho**2) / (1.0 - rho**2)
        of_both = (of_mean + of_square) / 2.0

        by_skew = of_both * self.skew * self.sharpe
        return of_mean - by_skew + of_square * (self.kurtosis - 1.0) / 4.0 * self.sharpe**2


def shape_of(returns: Series) -> SharpeMoments:
    """Return the Sharpe ratio (standard deviation with ddof 1, as in the panel) and the moments of
    at least two returns that vary.
    """
    scores = returns - math.fsum(returns) / len(returns)
    variance = float(np.mean(scores**2))
    return SharpeMoments(
        days=len(returns),
        sharpe=math.fsum(returns) / len(returns) / standard_deviation(returns),
        skew=float(np.mean(scores**3)) / variance**1.5,
        kurtosis=float(np.mean(scores**4)) / variance**2,
    )


def probabilistic_sharpe(shape: SharpeMoments, benchmark: float = 0.0) -> float:
    """Return the probabilistic Sharpe ratio (PSR), the probability that the true ratio exceeds
    `benchmark`: `Phi((SR - SR*) * sqrt(days - 1) / sqrt(error variance))`.
    """
    spread = math.sqrt(max(shape.error_variance, 0.0))
    if not spread:
        return float(shape.sharpe > benchmark)
    # Bailey and López de Prado 2012
    return normal_probability((shape.sharpe - benchmark) * math.sqrt(shape.days - 1) / spread)


def minimum_track_record(
    shape: SharpeMoments, benchmark: float = 0.0, confidence: float = CONFIDENCE
) -> float | None:
    """Return the minimum track record length (MinTRL), the number of days after which this ratio
    would exceed `benchmark` with this `confidence`: `1 + error variance * (z / (SR - SR*))^2`. None
    if the ratio does not exceed the benchmark by more than rounding.
    """
    if shape.sharpe - benchmark < NO_VARIANCE:
        return None
    # Bailey and López de Prado 2012
    return (
        1.0 + shape.error_variance * (normal_quantile(confidence) / (shape.sharpe - benchmark)) ** 2
    )


def expected_best_sharpe(trials: int, sharpe_variance: float) -> float:
    """Return the expected Sharpe ratio of the best among `trials` trials without skill: `sqrt(V) *
    ((1 - gamma) * Phi^-1(1 - 1/N) + gamma * Phi^-1(1 - 1/(N e)))`, where V is the variance of their
    daily ratios. 0 for a single trial.
    """
    if trials < 2:
        return 0.0
    # Bailey and López de Prado 2014: expected maximum of N normal ratios
    best = (1 - EULER_GAMMA) * normal_quantile(1 - 1 / trials)
    best += EULER_GAMMA * normal_quantile(1 - 1 / (trials * math.e))
    return math.sqrt(sharpe_variance) * best


def deflated_sharpe_ratio(
    returns: Series,
    trial_sharpes: Sequence[float],
    trials: int | None = None,
    resolution: float = NO_VARIANCE,
) -> MetricValue:
    """Return the deflated Sharpe ratio of [n] daily returns, given multiple trials.

    `trial_sharpes`: daily Sharpe ratios of the trials, including this trial. `trials`: number of
    trials, if some of their ratios are unknown. `detail` has `trials`, `sharpe_variance` and
    `expected_best`, the ratio to beat. Undefined if the returns vary by less than their
    `resolution`.
    """
    n = len(returns)
    problem = _series_problem(returns, resolution)
    if problem:
        return make_undefined(problem, n)

    count = max(len(trial_sharpes), trials or 0, 1)
    if count > 1 and len(trial_sharpes) < 2:
        return make_undefined("the Sharpe ratios of the other trials are not known", n)

    variance = standard_deviation(trial_sharpes) ** 2 if count > 1 else 0.0
    best = expected_best_sharpe(count, variance)
    detail = {"trials": count, "sharpe_variance": variance, "expected_best": best}

    return MetricValue(probabilistic_sharpe(shape_of(returns), best), n, None, detail)


def sharpe_shape(ledger: Ledger) -> SharpeMoments | None:
    """Return the Sharpe ratio and the moments of an episode's daily returns; None if they are
    undefined.
    """
    if _ledger_problem(ledger):
        return None
    return shape_of(ledger.returns)


@built_in
def psr(ledger: Ledger) -> MetricValue | str:
    """Probability that the true Sharpe ratio of an episode's NAV is positive; `detail` holds its
    inputs.
    """
    problem = _ledger_problem(ledger)
    if problem:
        return problem

    shape = shape_of(ledger.returns)
    detail = {"sharpe_per_day": shape.sharpe, "skew": shape.skew, "kurtosis": shape.kurtosis}
    return MetricValue(probabilistic_sharpe(shape), len(ledger.steps), None, detail)


@built_in
def min_track_record(ledger: Ledger) -> float | str:
    """Return the years after which a Sharpe ratio like this episode's would be significantly
    positive (95 % confidence); never, if it is not positive.
    """
    problem = _ledger_problem(ledger)
    if problem:
        return problem

    days = minimum_track_record(shape_of(ledger.returns))
    if days is None:
        return f"{NEVER}the Sharpe ratio is not positive"
    return days / ledger.days_a_year


def _ledger_problem(ledger: Ledger) -> str | None:
    """Return the reason why an episode's NAV has no Sharpe ratio with a standard error, or None."""
    return level_problem(ledger.nav) or _series_problem(ledger.returns, ledger.return_resolution)


def _series_problem(returns: Series, resolution: float = NO_VARIANCE) -> str | None:
    if len(returns) < 3:
        return "fewer than three days"
    if (returns <= -1.0).any():
        return "a level is not positive"
    if not np.isfinite(returns).all():
        return "a daily return is missing"
    if has_no_variance(standard_deviation(returns), resolution):
        return "returns have no variance"

    return None
