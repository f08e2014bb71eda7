"""Intervals for a mean that hold at every moment: one may look each day, and stop when one likes.

A fixed interval of 95 % covers the mean at one sample size that was chosen before. Whoever looks
every day and stops at a good moment is wrong far more often. The intervals here cover the mean at
all times together with the stated probability.

`symmetric_sequence` needs that each deviation from the mean is distributed symmetrically, given what
came before; it needs no bound, no variance and no equal distribution. It is the sequential form of
a sign-flip test: with S the sum and V the sum of squares of the deviations from a candidate mean,

    sqrt(rho / (V + rho)) * exp(S^2 / (2 (V + rho)))

is at most 1 on average at any stopping time (de la Pena 1999, Annals of Probability 27, theorem 6.1;
mixture of Robbins 1970), and so reaches 1 / alpha with probability alpha at most (Ville). Candidates
at which it has not reached it form the interval at that moment. Candidates very far out are not
refused by a few values: each of these is then a huge surprise, and so little evidence.

`asymptotic_sequence` needs no symmetry, and holds in the limit of many days (Waudby-Smith, Arbour,
Sinha, Kennedy, Ramdas 2024, Annals of Statistics 52, theorem 2.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

FIRST_ASYMPTOTIC = 100
"""Days before which the asymptotic sequence says nothing."""
_MAX_STEPS = 100  # of Newton's method, which takes some 6


@dataclass(frozen=True)
class Sequence:
    """An interval at each moment, each inside of those before it, as all cover the mean together.
    Ends are infinite where nothing can be said yet. An interval whose low end is above its high end
    holds no mean: what the sequence rests on does not hold.
    """

    low: Series  #: [T], or [N, T] of N rows of values
    high: Series  #: of the same shape
    level: float  #: probability with which all of a row cover the mean together


def mixture_variance(narrowest_at: float, level: float = 0.95) -> float:
    """Return the mixture's parameter rho that makes the interval narrowest where the sum of squares
    is `narrowest_at` (Howard, Ramdas, McAuliffe, Sekhon 2021, Annals of Statistics 49, section
    3.5). Raises ValueError if a value is out of range.
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
    """Return the intervals for the mean of [T] values after each of them; of [N, T] values those of
    N rows, each on its own.

    `rho` must be chosen before the values are seen (`mixture_variance`). `most`: a bound on how far
    the mean lies from the mean of what was seen; candidates beyond it are not looked at. It should
    be far out of reach, such as 1.0 of daily returns. Ends are infinite as long as any candidate
    further out, but within `most`, is not refused: for 1.0 and the rho of 10 % a year that is in the
    first 15 days. Raises ValueError: values are not finite, or rho or most is not above 0.
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
    """Return [T] counts, and after each value the mean and the sum of squares around it."""
    count = np.arange(1, series.shape[-1] + 1, dtype=np.float64)
    origin = series[..., :1]  # near the values, so that squares don't cancel out
    moved = series - origin
    means = np.cumsum(moved, axis=-1) / count
    squares = np.maximum(np.cumsum(moved**2, axis=-1) - count * means**2, 0.0)
    return count, means + origin, squares


def _nest_intervals(means: Series, distance: Series, level: float) -> Sequence:
    """Return intervals around means, each cut to those before it."""
    # All intervals cover the mean together, so their intersection does, too.
    low = np.maximum.accumulate(means - distance, axis=-1)
    high = np.minimum.accumulate(means + distance, axis=-1)
    return Sequence(low, high, level)


def _distance(count: Series, squares: Series, rho: float, alpha: float, most: float) -> Series:
    """Return the distance from the mean from which on candidates are refused, until `most`; infinite
    if one within `most` is not.

    A candidate at a distance d adds a part q = count d^2 / (squares + rho) to the spread, and is
    refused where `_evidence` of q is above 0. That is concave in q and below 0 at 0: it has one
    root before a point at which it is above 0, and Newton's method goes to it from 0 without ever
    passing it.
    """
    spread = squares + rho
    # Where the mixture reaches 1 / alpha: Robbins (1970), de la Pena (1999), theorem 6.1
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
    """Return how far the squared sum of deviations from a candidate lies above its bound, over the
    spread around the mean.
    """
    return count * part - (1.0 + part) * (height + np.log1p(part))


def asymptotic_sequence(
    values: npt.ArrayLike, narrowest_at: int = 250, level: float = 0.95
) -> Sequence:
    """Return the intervals for the mean of [T] values after each of them, narrowest after
    `narrowest_at`; of [N, T] values those of N rows. Infinite before day `FIRST_ASYMPTOTIC`. Raises
    ValueError: values are not finite.
    """
    series = _checked_series(values)
    if narrowest_at < 1:
        raise ValueError("narrowest_at must be at least 1")

    alpha = 1.0 - level
    rho = mixture_variance(narrowest_at, level)
    count, means, squares = _running_moments(series)
    spread = count + rho  # of deviations with variance 1
    # Waudby-Smith et al. (2024), theorem 2.2
    half = np.sqrt(squares / count * spread * np.log(spread / (rho * alpha**2))) / count
    return _nest_intervals(means, np.where(count >= FIRST_ASYMPTOTIC, half, np.inf), level)


def expected_half_width(
    days: int, deviation: float, rho: float, level: float = 0.95, draws: int = 64
) -> float:
    """Return the mean half width of `symmetric_sequence` after normal days of a standard deviation:
    what a test of this length can show; infinite for a test of a few days. It is simulated, always
    with the same draws.
    """
    generator = np.random.default_rng(0)
    intervals = symmetric_sequence(generator.normal(0.0, deviation, (draws, days)), rho, level)
    return float(np.mean(intervals.high[:, -1] - intervals.low[:, -1])) / 2.0
