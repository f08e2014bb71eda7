"""Anytime-valid confidence intervals for a mean, which hold however often one looks and whenever
one stops.

A fixed 95 % interval covers the mean at one sample size, chosen in advance. With daily looks and a
stop at a favourable time, its error rate is far higher than 5 %. The intervals here cover the mean
at all times simultaneously, with the stated probability.

`symmetric_sequence` requires each deviation from the mean to be symmetric conditional on the past;
it does not require bounded, finite-variance or identically distributed values. It is the sequential
form of a sign-flip test: with S the sum and V the sum of squares of the deviations from a candidate
mean,

    sqrt(rho / (V + rho)) * exp(S^2 / (2 (V + rho)))

has expectation at most 1 at any stopping time (de la Pena 1999, Annals of Probability 27, theorem
6.1; mixture of Robbins 1970). It therefore reaches 1 / alpha with probability at most alpha
(Ville). The candidates for which it has not reached 1 / alpha form the interval at that time. A few
values can't reject very distant candidates: seen from such a candidate, all values are about
equally large deviations, which add little evidence.

`asymptotic_sequence` needs no symmetry, but holds only in the limit of many days (Waudby-Smith,
Arbour, Sinha, Kennedy, Ramdas 2024, Annals of Statistics 52, theorem 2.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

FIRST_ASYMPTOTIC = 100
"""First day on which the asymptotic sequence gives an interval."""
_MAX_STEPS = 100  # maximum steps of Newton's method, which usually needs about 6


@dataclass(frozen=True)
class Sequence:
    """An interval at each time. Each interval lies inside the earlier ones, because all cover the
    mean simultaneously. Ends are infinite while nothing can be concluded. If the low end is above
    the high end, the interval is empty, and an assumption of the sequence is violated.
    """

    low: Series  #: [T], or [N, T] for N rows of values
    high: Series  #: of the same shape
    level: float  #: probability with which all intervals of a row simultaneously cover the mean


def mixture_variance(narrowest_at: float, level: float = 0.95) -> float:
    """Return the mixture parameter rho for which the interval is narrowest when the sum of squares
    is `narrowest_at` (Howard, Ramdas, McAuliffe, Sekhon 2021, Annals of Statistics 49, section
    3.5). Raises ValueError if an argument is out of range.
    """
    from scipy.special import lambertw  # noqa: PLC0415 - heavy, and only these intervals need it

    if not narrowest_at > 0 or not 0 < level < 1:
        raise ValueError("narrowest_at must be above 0, and level between 0 and 1")

    alpha = 1.0 - level
    branch = float(np.real(lambertw(-(alpha**2) / math.e, k=-1)))
    return narrowest_at / (-branch - 1.0)


def symmetric_sequence(
    values: npt.ArrayLike, rho: float, level: float = 0.95, most: float = 1.0
) -> Sequence:
    """Return an interval for the mean after each of [T] values. For [N, T] values, each row is
    treated separately.

    `rho` must be chosen before the values are seen (see `mixture_variance`). `most` is a bound on
    the distance between the true mean and the mean of the values so far; candidates beyond this
    bound are not considered. The bound should be impossible to reach, such as 1.0 for daily
    returns. Ends are infinite until every distant candidate within `most` is rejected. This takes
    the first 15 days if `most` is 1.0 and `rho` is chosen for a volatility of 10 % a year. Raises
    ValueError if values are not finite, or `rho` or `most` is not above 0.
    """
    series = _checked_series(values)
    if not rho > 0 or not most > 0:
        raise ValueError("rho and most must be above 0")

    count, means, squares = _running_moments(series)
    return _nest_intervals(means, _distance(count, squares, rho, 1.0 - level, most), level)


def _checked_series(values: npt.ArrayLike) -> Series:
    series = np.asarray(values, dtype=np.float64)
    if series.ndim not in (1, 2) or not np.isfinite(series).all():
        raise ValueError("give finite values, in one row or a table of rows")
    return series


def _running_moments(series: Series) -> tuple[Series, Series, Series]:
    """Return the count, the mean, and the sum of squared deviations from the mean, after
    each value.
    """
    count = np.arange(1, series.shape[-1] + 1, dtype=np.float64)
    origin = series[..., :1]  # close to the values, so that squares don't cancel
    moved = series - origin
    means = np.cumsum(moved, axis=-1) / count
    squares = np.maximum(np.cumsum(moved**2, axis=-1) - count * means**2, 0.0)
    return count, means + origin, squares


def _nest_intervals(means: Series, distance: Series, level: float) -> Sequence:
    """Return intervals around means, each intersected with all earlier intervals."""
    # All intervals cover the mean simultaneously, and so does their intersection.
    low = np.maximum.accumulate(means - distance, axis=-1)
    high = np.minimum.accumulate(means + distance, axis=-1)
    return Sequence(low, high, level)


def _distance(count: Series, squares: Series, rho: float, alpha: float, most: float) -> Series:
    """Return the distance from the mean beyond which all candidates, up to `most`, are rejected. If
    a distant candidate within `most` is not rejected, the distance is infinite.

    A candidate at distance d adds a fraction q = count d^2 / (squares + rho) to the spread, and is
    rejected if `_evidence` of q is positive. As a function of q, the evidence is concave, and it is
    negative at 0. So it has a single root below any point where it is positive. Newton's method,
    started at 0, converges to this root without overshooting.
    """
    spread = squares + rho
    # The mixture reaches 1 / alpha here: Robbins (1970), de la Pena (1999), theorem 6.1
    height = np.log(spread / (rho * alpha**2))
    is_finite = _evidence(count * most**2 / spread, count, height) > 0
    count = np.broadcast_to(count, spread.shape)
    slopes = np.where(is_finite, count - height - 1.0, 1.0)

    part = np.zeros(spread.shape)
    for _ in range(_MAX_STEPS):
        move = np.where(is_finite, -_evidence(part, count, height) / slopes, 0.0)
        if (move <= 1e-15 * part).all():
            break

        part += np.maximum(move, 0.0)
        slopes = np.where(is_finite, count - height - np.log1p(part) - 1.0, 1.0)

    return np.where(is_finite, np.sqrt(spread * part / count), np.inf)


def _evidence(part: Series, count: Series, height: Series) -> Series:
    """Return by how much the squared sum of deviations from a candidate exceeds its bound, relative
    to the spread around the mean.
    """
    return count * part - (1.0 + part) * (height + np.log1p(part))


def asymptotic_sequence(
    values: npt.ArrayLike, narrowest_at: int = 250, level: float = 0.95
) -> Sequence:
    """Return an interval for the mean after each of [T] values, narrowest after `narrowest_at`
    values. For [N, T] values, each row is treated separately. Infinite before day
    `FIRST_ASYMPTOTIC`. Raises ValueError if values are not finite.
    """
    series = _checked_series(values)
    if narrowest_at < 1:
        raise ValueError("narrowest_at must be at least 1")

    alpha = 1.0 - level
    rho = mixture_variance(narrowest_at, level)
    count, means, squares = _running_moments(series)
    spread = count + rho  # as if deviations had variance 1
    # Waudby-Smith et al. (2024), theorem 2.2
    half = np.sqrt(squares / count * spread * np.log(spread / (rho * alpha**2))) / count
    return _nest_intervals(means, np.where(count >= FIRST_ASYMPTOTIC, half, np.inf), level)


def expected_half_width(
    days: int, deviation: float, rho: float, level: float = 0.95, draws: int = 64
) -> float:
    """Return the mean half-width of `symmetric_sequence` after `days` normally distributed values
    with standard deviation `deviation`. It is the smallest effect that a test of this length can
    detect; infinite for very few days. The simulation uses a fixed seed.
    """
    generator = np.random.default_rng(0)
    intervals = symmetric_sequence(generator.normal(0.0, deviation, (draws, days)), rho, level)
    return float(np.mean(intervals.high[:, -1] - intervals.low[:, -1])) / 2.0
