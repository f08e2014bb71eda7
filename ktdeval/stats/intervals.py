"""Intervals, exact bounds for proportions, and the distribution of the number of successes when the
success probability differs by trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ktdeval.market.snapshots.snapshot import FloatArray
from ktdeval.stats.distributions import beta_quantile, normal_quantile
from ktdeval.values.documents.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends, in the same unit as the figure, or the reason why they are missing.

    Example:
        Interval(0.31, 0.69, level=0.95, kind="Wilson score", n=25)
    """

    low: float | None
    high: float | None
    level: float  #: nominal coverage, such as 0.95
    kind: str  #: method used to compute the interval
    n: int  #: number of observations
    block_days: float | None = None  #: mean block length of the resamples, if any
    draws: int | None = None  #: number of resamples, if any
    #: fraction of simulated samples of about this size in which this kind of interval covered the
    #: truth; the lowest over the simulated processes. None if not measured.
    coverage: float | None = None
    reason: str | None = None  #: why there is no interval
    #: standard error of the less certain end that results from the finite number of resamples, in
    #: the same unit as the figure
    monte_carlo_se: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None) or (self.low is None) == (self.reason is None):
            raise ValueError("an interval needs two ends, or no ends and a reason")
        if (
            self.low is not None
            and self.high is not None
            and not -float("inf") < self.low <= self.high < float("inf")
        ):
            raise ValueError("the ends of an interval must be finite, the low end first")

    def transform_ends(self, function: Callable[[float], float]) -> Interval:
        """Return the interval for an increasing function of the figure."""
        if self.low is None or self.high is None:
            return self

        noise = self.monte_carlo_se
        if noise is not None:
            noise = (
                max(function(end + noise) - function(end - noise) for end in (self.low, self.high))
                / 2
            )

        return replace(self, low=function(self.low), high=function(self.high), monte_carlo_se=noise)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the interval as a JSON object. Without ends, the object has nulls and the
        reason.
        """
        fields: dict[str, JsonValue] = {
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "kind": self.kind,
            "n": self.n,
        }
        optional = {
            "block_days": self.block_days,
            "draws": self.draws,
            "monte_carlo_se": self.monte_carlo_se,
            "coverage": self.coverage,
            "reason": self.reason,
        }
        return fields | {name: value for name, value in optional.items() if value is not None}


def no_interval(reason: str, n: int, level: float = 0.95) -> Interval:
    """Return an interval without ends, with the reason why it could not be computed."""
    return Interval(None, None, level, "none", n, reason=reason)


def ends_of_difference(
    first: tuple[float, Interval], second: tuple[float, Interval]
) -> tuple[float, float] | None:
    """Return the interval ends for the difference of two independent estimates, from their own
    intervals (MOVER: Zou and Donner 2008; for proportions with Wilson intervals: Newcombe 1998).
    None if either interval has no ends.
    """
    (left, of_left), (right, of_right) = first, second
    if of_left.low is None or of_left.high is None or of_right.low is None or of_right.high is None:
        return None

    # MOVER (Zou and Donner 2008)
    below = math.hypot(left - of_left.low, of_right.high - right)
    above = math.hypot(of_left.high - left, right - of_right.low)
    return left - right - below, left - right + above


MIN_RESAMPLED = 5
"""With fewer independent values than this, a studentised bootstrap gives no interval."""
_DRAWS = 4999
_VALUES_AT_ONCE = 1 << 20
_ROUNDING = 1e-12  # relative to the largest value


def studentised_mean(
    values: FloatArray,
    of: str,
    seed: int = 0,
    level: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Return an interval for the mean of [n] independent values by the studentised bootstrap
    (bootstrap-t: Efron and Tibshirani 1993, section 12.5). This method can handle few or skewed
    values, for example with many zeros. `of`: description of the values, in the plural; `bounds`:
    range of possible values.

    There is no interval if all values are equal. There is also none if an end has no bound and so
    many resamples have no spread that this end can't be determined.
    """
    n = len(values)
    if n < MIN_RESAMPLED:
        return no_interval(f"an interval takes {MIN_RESAMPLED} {of}", n, level)
    if float(np.ptp(values)) <= _ROUNDING * float(np.abs(values).max()):
        return no_interval(f"all {of} have the same figure", n, level)

    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(n)
    ratios = np.sort(_resampled_ratios(values, np.random.default_rng(seed)))
    cut = round((_DRAWS + 1) * (1.0 - level) / 2.0)
    low = max(bounds[0], mean - float(ratios[-cut]) * error)
    high = min(bounds[1], mean - float(ratios[cut - 1]) * error)
    if not (math.isfinite(low) and math.isfinite(high)):
        return no_interval(f"too few of {n} {of} differ for an interval", n, level)

    return Interval(low, high, level, f"studentised bootstrap over {of}", n, draws=_DRAWS)


def _resampled_ratios(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return, for each resample, the deviation of its mean from the sample mean in units of the
    resample's own standard error. Infinite if the resample has no spread. Shape: [draws].
    """
    n = len(values)
    mean = values.mean()
    scale = np.abs(values).max()
    most = max(1, _VALUES_AT_ONCE // n)
    ratios = []
    for start in range(0, _DRAWS, most):
        drawn = values[generator.integers(n, size=(min(most, _DRAWS - start), n))]
        away = drawn.mean(axis=1) - mean
        errors = drawn.std(axis=1, ddof=1) / math.sqrt(n)
        away[np.abs(away) <= _ROUNDING * scale] = 0.0
        errors[errors <= _ROUNDING * scale] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(np.nan_to_num(away / errors, nan=0.0, posinf=math.inf, neginf=-math.inf))

    return np.concatenate(ratios)


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's (1927) score interval for a proportion, (p̂ + z²/2n ± z √(p̂(1 - p̂)/n +
    z²/4n²)) / (1 + z²/n). It is computed here because cards record its last bits; statsmodels
    differs by up to 3e-16 and takes 30 times as long. Raises ValueError unless 0 <= successes <= n.
    """
    _check_successes(successes, n, level)
    if n == 0:
        return no_interval("no trials", 0, level)

    z = normal_quantile((1.0 + level) / 2.0)
    share = successes / n
    centre = share + z * z / (2.0 * n)
    reach = z * math.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2)
    whole = 1.0 + z * z / n
    # With no or only successes, an end is exactly 0 or 1 except for rounding.
    low = 0.0 if successes == 0 else (centre - reach) / whole
    high = 1.0 if successes == n else (centre + reach) / whole

    return Interval(low, high, level, "Wilson score", n)


def clopper_pearson_upper(successes: int, n: int, level: float = 0.95) -> float:
    """Return Clopper and Pearson's (1934) exact one-sided upper bound for a proportion. It is a
    quantile of Beta(successes + 1, n - successes), or 1 if all trials succeeded. Raises ValueError
    unless 0 <= successes <= n and 0 < level < 1.
    """
    _check_successes(successes, n, level)
    if successes == n:
        return 1.0
    return beta_quantile(successes + 1, n - successes, level)


def poisson_binomial(chances: Sequence[float]) -> FloatArray:
    """Return the exact probabilities of 0 … n successes in n independent trials with these success
    probabilities, by convolution. Shape: [n + 1]. Raises ValueError if a probability is outside 0 …
    1.
    """
    probabilities: FloatArray = np.ones(1)
    for chance in chances:
        if not 0.0 <= chance <= 1.0:
            raise ValueError(f"a probability must be between 0 and 1, got {chance!r}")

        longer = np.zeros(len(probabilities) + 1)
        longer[:-1] = probabilities * (1.0 - chance)
        longer[1:] += probabilities * chance
        probabilities = longer

    return probabilities


def _check_successes(successes: int, n: int, level: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be between 0 and {n}, got {successes!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level must be between 0 and 1, got {level!r}")
