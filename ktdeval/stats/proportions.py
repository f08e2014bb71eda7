"""Shares of successes: intervals, exact bounds, and how many successes chance alone would give when it differs by trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from ktdeval.market.snapshot import FloatArray
from ktdeval.stats.intervals import Interval, no_interval


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's (1927) score interval of a share: the shares p that a z test at this level does not reject.

    (p̂ + z²/2n ± z √(p̂(1 - p̂)/n + z²/4n²)) / (1 + z²/n); with no success it begins at 0, with nothing else it ends at 1.

    Own arithmetic, as cards hold its last bits: statsmodels' `proportion_confint` differs in them for 5,726 of the 7,259 shares of
    up to 119 trials, by 3e-16 at most, and takes 30 times as long (46 against 1.5 µs).

    Args:
        successes: how many of the trials.
        n: trials; without any there is no interval.
        level: nominal coverage, such as 0.95.

    Raises:
        ValueError: `successes` is not within 0 … n, or `level` not between 0 and 1.
    """
    _check(successes, n, level)
    if n == 0:
        return no_interval("no trials", 0, level)
    z = float(ndtri((1.0 + level) / 2.0))
    share = successes / n
    centre = share + z * z / (2.0 * n)
    reach = z * math.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2)
    whole = 1.0 + z * z / n
    # At the ends the difference is 0 or 1 but for rounding.
    low = 0.0 if successes == 0 else (centre - reach) / whole
    high = 1.0 if successes == n else (centre + reach) / whole
    return Interval(low, high, level, "Wilson score", n)


def clopper_pearson_upper(successes: int, n: int, level: float = 0.95) -> float:
    """Clopper and Pearson's (1934) one-sided upper bound of a share: exact, so it holds at least as often as `level` says.

    It is the share under which so few successes have a probability of 1 - `level`, that is a quantile of
    Beta(successes + 1, n - successes). Without trials, or when all succeeded, it is 1.

    Args:
        successes: how many of the trials.
        n: trials.
        level: nominal coverage, such as 0.95.

    Raises:
        ValueError: `successes` is not within 0 … n, or `level` not between 0 and 1.
    """
    _check(successes, n, level)
    return 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, level))


@dataclass(frozen=True, eq=False, slots=True)
class PoissonBinomial:
    """How many of n independent trials succeed when each has a chance of its own.

    Attributes:
        probabilities: [n + 1] probability of 0 … n successes.
    """

    probabilities: FloatArray

    @property
    def n(self) -> int:
        """How many trials."""
        return len(self.probabilities) - 1

    @property
    def mean(self) -> float:
        """Expected successes, the sum of the chances."""
        return float(np.arange(self.n + 1) @ self.probabilities)

    def at_least(self, successes: int) -> float:
        """Probability of this many successes or more: the one-sided p-value of an attacker that is no better than chance."""
        return min(1.0, float(self.probabilities[max(successes, 0) :].sum()))

    def at_most(self, successes: int) -> float:
        """Probability of this many successes or fewer."""
        return min(1.0, float(self.probabilities[: max(successes + 1, 0)].sum()))

    def mid_p(self, successes: int) -> float:
        """Two-sided mid-p value (Lancaster 1961) of a count: twice the smaller tail, of which the count itself makes half.

        Unlike the exact test's it is not conservative: over many counts that chance made, about 5 % lie below 0.05.
        """
        half = float(self.probabilities[successes]) / 2.0
        return min(1.0, 2.0 * min(self.at_most(successes) - half, self.at_least(successes) - half))

    def middle(self, level: float = 0.95) -> tuple[int, int]:
        """Return the fewest and most successes of the central range: below and above it lies at most (1 - `level`) / 2 each.

        Counts come in whole steps, so the range holds at least `level` of the probability, and mostly more.

        Raises:
            ValueError: `level` is not between 0 and 1.
        """
        _check(0, 0, level)
        tail = (1.0 - level) / 2.0
        low = int(np.searchsorted(np.cumsum(self.probabilities), tail, side="right"))
        high = self.n - int(np.searchsorted(np.cumsum(self.probabilities[::-1]), tail, side="right"))
        return low, high


def poisson_binomial(chances: Sequence[float]) -> PoissonBinomial:
    """Return the distribution of the number of successes over trials with these chances, exact (by convolution, trial by trial).

    Args:
        chances: probability of success of each trial.

    Raises:
        ValueError: a chance lies outside 0 … 1.
    """
    probabilities = np.ones(1)
    for chance in chances:
        if not 0.0 <= chance <= 1.0:
            raise ValueError(f"a chance lies in 0 … 1, was {chance!r}")
        longer = np.zeros(len(probabilities) + 1)
        longer[:-1] = probabilities * (1.0 - chance)
        longer[1:] += probabilities * chance
        probabilities = longer
    return PoissonBinomial(probabilities)


def _check(successes: int, n: int, level: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes lie in 0 … {n}, were {successes!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level lies between 0 and 1, was {level!r}")
