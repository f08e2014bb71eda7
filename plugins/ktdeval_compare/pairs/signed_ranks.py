"""Signed-rank test over windows, which may share days, and the test's power. The test and the power
computation use the same null distribution.

Differences in windows that share days are modelled as normal, with a correlation due to the shared
days, both with and without an effect. If no days are shared, the null distribution is exact.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ktdeval.stats import (
    EXACT_UP_TO,
    RankNull,
    SignedRank,
    correlated_normals,
    effective_count,
    level_sizes,
    normal_effect,
    overlap_null,
    positive_rank_sums,
    rank_null,
    signed_rank,
)
from ktdeval.values import csv_rows

FloatArray = npt.NDArray[np.float64]
Span = tuple[str, str]  #: First and last day, ISO
Pattern = tuple[tuple[float, ...], ...]
#: Correlation matrix for windows that share no days
APART: Pattern = ((1.0,),)

_LARGEST_PLAN = EXACT_UP_TO
_LARGEST_EFFECT = 64.0


def published_spans(name: str) -> dict[str, Span]:
    """Return the first and last day of each window in a published design, in order."""
    rows = csv_rows(Path(__file__).parents[1] / "plans" / "published" / f"{name}.csv")
    return {row["window"]: (row["first"], row["last"]) for row in rows}


def pattern_of(correlation: FloatArray) -> Pattern:
    """Return the pattern of shared days that corresponds to this [n, n] correlation between
    windows.
    """
    return tuple(map(tuple, correlation.tolist()))


@functools.lru_cache(maxsize=256)
def shared_null(pattern: Pattern, seed: int = 0) -> RankNull | None:
    """Return the null distribution for the windows in a pattern, or None if they share no days."""
    return overlap_null(np.array(pattern), seed)


def rank_test_of(values: FloatArray, correlation: FloatArray, seed: int = 0) -> SignedRank:
    """Test the [n] differences of windows that have this [n, n] correlation.

    Raises ValueError if a difference is not finite.
    """
    moving = np.flatnonzero(level_sizes(values))
    null = None
    if len(moving):
        null = shared_null(pattern_of(correlation[np.ix_(moving, moving)]), seed)

    return signed_rank(values, null)


@dataclass(frozen=True, slots=True)
class RankTest:
    """Two-sided Wilcoxon signed-rank test for planned windows, whose power is simulated.

    Example:
        RankTest(alpha=0.05).effect(windows=10)  # 1.02 standard deviations of a window's difference
    """

    alpha: float = 0.05
    #: correlation between the first windows; additional windows share days in the same pattern
    pattern: Pattern = APART
    #: number of draws per simulated power; with this default, its standard error is at most 0.004
    draws: int = 20_000
    seed: int = 0  #: seed for these draws and for the null distribution

    def correlation(self, windows: int) -> FloatArray:
        """Return the [windows, windows] correlation between planned windows."""
        repeats = -(-windows // len(self.pattern))
        return np.kron(np.eye(repeats), np.array(self.pattern))[:windows, :windows]

    def effective(self, windows: int) -> float:
        """Return the number of independent windows whose mean would have the same uncertainty."""
        return effective_count(self.correlation(windows))

    def smallest_p(self, windows: int) -> float:
        """Return the smallest p-value that `windows` windows can give; it occurs if all differences
        have the same sign.
        """
        return _null(self.pattern, self.seed, windows).two_sided(0.0)

    @property
    def fewest(self) -> int:
        """Minimum number of windows with which the p-value can be as small as `alpha`."""
        windows = 1
        while self.smallest_p(windows) > self.alpha and windows < _LARGEST_PLAN:
            windows += 1

        return windows

    def power(self, effect: float, windows: int) -> float:
        """Return the probability that the test is significant, by simulation. `effect` is in
        standard deviations of a window's difference.
        """
        cut = _critical_sum(self, windows)
        if cut < 0:
            return 0.0

        sums = positive_rank_sums(_normals(self.pattern, self.draws, self.seed, windows) + effect)
        top = windows * (windows + 1) // 2
        return float(((sums <= cut) | (sums >= top - cut)).mean())

    def effect(self, windows: int, power: float = 0.8) -> float | None:
        """Return the effect, in standard deviations of a window's difference, that the test detects
        with probability `power`. Return None if no result can be significant with this number of
        windows.
        """
        return _effect(self, windows, power)

    def windows_needed(self, effect: float, power: float = 0.8) -> int | None:
        """Return the minimum number of windows with which the test detects an effect with
        probability `power`. Return None if even a few hundred windows are not enough.
        """
        size = abs(effect)
        if size == 0:
            return None

        # A z test needs slightly fewer windows (the relative efficiency of signed ranks is 3/pi).
        # Starting from a bracket around its result saves most of the search.
        shared = len(self.pattern) / self.effective(len(self.pattern))
        guess = math.pi / 3.0 * normal_effect(1.0, 1, self.alpha, power) ** 2 / size**2 * shared
        if guess > 1.2 * _LARGEST_PLAN:
            return None

        low = 0
        high = min(_LARGEST_PLAN, math.ceil(1.1 * guess) + self.fewest)
        while self.power(size, high) < power:
            if high == _LARGEST_PLAN:
                return None

            low = high
            high = min(_LARGEST_PLAN, 2 * high)

        below = math.floor(0.9 * guess) - 3
        if below > low and self.power(size, below) < power:
            low = below

        while high - low > 1:
            middle = (low + high) // 2
            if self.power(size, middle) < power:
                low = middle
            else:
                high = middle

        return high


@functools.cache
def _null(pattern: Pattern, seed: int, windows: int) -> RankNull:
    """Return the null distribution of the statistic, assuming no zero differences and no ties."""
    shared = shared_null(pattern_of(RankTest(pattern=pattern).correlation(windows)), seed)
    return shared or rank_null(np.arange(1.0, windows + 1.0))


@functools.lru_cache(maxsize=2)
def _normals(pattern: Pattern, draws: int, seed: int, windows: int) -> FloatArray:
    """Return [draws, windows] differences without an effect. The same draws are used for every
    effect. The simulated power is therefore monotonic in the effect, and a search over effects is
    smooth.
    """
    correlation = RankTest(pattern=pattern).correlation(windows)
    return correlated_normals(correlation, draws, np.random.default_rng(seed))


@functools.cache
def _critical_sum(test: RankTest, windows: int) -> int:
    """Return the largest rank sum that is significant on the low side, or -1 if no rank sum is."""
    if test.smallest_p(windows) > test.alpha * (1 + 1e-12):
        return -1

    below = _null(test.pattern, test.seed, windows).at_or_below
    return int(np.searchsorted(below, test.alpha / 2.0 * (1 + 1e-12), side="right")) - 1


@functools.cache
def _effect(test: RankTest, windows: int, power: float) -> float | None:
    if _critical_sum(test, windows) < 0:
        return None
    if test.power(0.0, windows) >= power:
        return 0.0  # the requested power is so low that the test reaches it without an effect

    high = max(1e-3, normal_effect(math.sqrt(math.pi / 3.0), windows, test.alpha, power))
    while test.power(high, windows) < power and high < _LARGEST_EFFECT:
        high *= 1.1

    low = 0.8 * high
    while test.power(low, windows) >= power:
        low *= 0.8

    while high - low > 1e-4 * high:
        middle = (low + high) / 2.0
        if test.power(middle, windows) < power:
            low = middle
        else:
            high = middle

    return high
