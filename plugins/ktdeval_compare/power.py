"""Power of a plan of windows and seeds, before money is spent on it.

The test is the one that `compare` uses: a two-sided Wilcoxon signed-rank test over windows, each window giving one difference, the
median over its seeds. Windows are taken as independent and differences as normal.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri

from ktdeval.stats import EXACT_UP_TO, positive_rank_sums, rank_null

_LARGEST_PLAN = EXACT_UP_TO
_LARGEST_EFFECT = 64.0
_GRID = 4001


def smallest_p(pairs: int) -> float:
    """Smallest two-sided p that an exact signed-rank or sign-flip test can give: all pairs of one sign, `2 / 2**pairs`."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(alpha: float, comparisons: int = 1) -> int:
    """Return the fewest pairs whose smallest p reaches `alpha / comparisons` (Bonferroni; the first step of Holm)."""
    pairs = 1
    while smallest_p(pairs) > alpha / comparisons:
        pairs += 1
    return pairs


@functools.cache
def median_variance(seeds: int) -> float:
    """Variance of the median of `seeds` independent standard normal values: 1 for one, 1/2 for two, 0.449 for three, … π/(2n)."""
    if seeds == 1:
        return 1.0
    if seeds > 60:
        return math.pi / (2.0 * seeds)
    x = np.linspace(-8.0, 8.0, _GRID)
    step = x[1] - x[0]
    log_density, log_below, log_above = -(x**2) / 2.0 - math.log(math.sqrt(2.0 * math.pi)), log_ndtr(x), log_ndtr(-x)
    half = (seeds - 1) // 2
    constant = math.lgamma(seeds + 1) - 2.0 * math.lgamma(half + 1)
    if seeds % 2:
        density = np.exp(constant + half * (log_below + log_above) + log_density)
        return float((x**2 * density).sum() * step)
    # Even: the mean of the two middle values u < v has variance E[(u + v)^2] / 4 under their joint density
    # n! / (half!)^2 * F(u)^half * f(u) * f(v) * (1 - F(v))^half; inner integrals over v > u from cumulative sums.
    left = np.exp(half * log_below + log_density)
    right = np.exp(half * log_above + log_density)
    moments = [_from_above(x**power * right, step) for power in range(3)]
    inner = x**2 * moments[0] + 2.0 * x * moments[1] + moments[2]
    return float(math.exp(constant) * (left * inner).sum() * step / 4.0)


def _from_above(values: npt.NDArray[np.float64], step: float) -> npt.NDArray[np.float64]:
    """[n] trapezoidal integrals from each grid point to the end."""
    parts = (values[1:] + values[:-1]) * (step / 2.0)
    return np.concatenate([np.cumsum(parts[::-1])[::-1], [0.0]])


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the difference of two agents varies."""

    window_sd: float  #: standard deviation over windows of the true difference: market and strategy, which no seed averages out
    seed_sd: float = 0.0  #: standard deviation over seeds of one agent's figure in one window: decoding

    def of_pairs(self, seeds: int) -> float:
        """Standard deviation of a window's difference when it is the median over `seeds` paired differences."""
        return math.sqrt(self.window_sd**2 + 2.0 * self.seed_sd**2 * median_variance(seeds))


def normal_effect(pair_sd: float, windows: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the mean difference a z test finds with probability `power`: `(z_{1-alpha/2} + z_power) * sd / sqrt(n)`."""
    return float(ndtri(power) - ndtri(alpha / 2.0)) * pair_sd / math.sqrt(windows)


def wilcoxon_power(effect: float, windows: int, alpha: float = 0.05, draws: int = 20_000, seed: int = 0) -> float:
    """Probability that the exact signed-rank test is significant, by simulation (standard error at most 0.004)."""
    cut = _critical_sum(windows, alpha)
    if cut < 0:
        return 0.0
    sums = positive_rank_sums(_standard_normals(windows, draws, seed) + effect)
    top = windows * (windows + 1) // 2
    return float(((sums <= cut) | (sums >= top - cut)).mean())


@functools.lru_cache(maxsize=2)
def _standard_normals(windows: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    # The same numbers at every effect: power then rises with the effect, and a search over it is smooth.
    return np.random.default_rng(seed).standard_normal((draws, windows))


@functools.cache
def _critical_sum(windows: int, alpha: float) -> int:
    """Largest rank sum that is significant on the low side; -1 when none is."""
    below = rank_null(np.arange(1.0, windows + 1.0)).at_or_below
    return int(np.searchsorted(below, alpha / 2.0 * (1 + 1e-12), side="right")) - 1


@functools.cache
def wilcoxon_effect(windows: int, alpha: float = 0.05, power: float = 0.8, draws: int = 20_000, seed: int = 0) -> float | None:
    """Return the effect, in standard deviations of a window's difference, that the exact test finds with probability `power`.

    None when no result of so many windows can be significant, whatever the effect.
    """
    if _critical_sum(windows, alpha) < 0:
        return None
    if wilcoxon_power(0.0, windows, alpha, draws, seed) >= power:
        return 0.0  # so little is asked for that chance alone gives it
    high = max(1e-3, normal_effect(math.sqrt(math.pi / 3.0), windows, alpha, power))
    while wilcoxon_power(high, windows, alpha, draws, seed) < power and high < _LARGEST_EFFECT:
        high *= 1.1
    low = 0.8 * high
    while wilcoxon_power(low, windows, alpha, draws, seed) >= power:
        low *= 0.8
    while high - low > 1e-4 * high:
        middle = (low + high) / 2.0
        if wilcoxon_power(middle, windows, alpha, draws, seed) < power:
            low = middle
        else:
            high = middle
    return high


def windows_needed(effect: float, alpha: float = 0.05, power: float = 0.8, draws: int = 20_000, seed: int = 0) -> int | None:
    """Return the fewest windows with which the exact test finds `effect` (in standard deviations) with probability `power`.

    None when even a few hundred are not enough.
    """
    size = abs(effect)
    # A z test needs a few windows less (the efficiency of signed ranks is 3/pi): a bracket around that saves most of the search.
    guess = math.pi / 3.0 * normal_effect(1.0, 1, alpha, power) ** 2 / size**2 if size > 0 else math.inf
    if guess > 1.2 * _LARGEST_PLAN:
        return None
    low, high = 0, min(_LARGEST_PLAN, math.ceil(1.1 * guess) + pairs_needed(alpha))
    while wilcoxon_power(size, high, alpha, draws, seed) < power:
        if high == _LARGEST_PLAN:
            return None
        low, high = high, min(_LARGEST_PLAN, 2 * high)
    below = math.floor(0.9 * guess) - 3
    if below > low and wilcoxon_power(size, below, alpha, draws, seed) < power:
        low = below
    while high - low > 1:
        middle = (low + high) // 2
        if wilcoxon_power(size, middle, alpha, draws, seed) < power:
            low = middle
        else:
            high = middle
    return high


def estimate_spread(differences: npt.NDArray[np.float64]) -> tuple[Spread | None, str | None]:
    """Window and seed variance of the difference of two agents, from a table of paired differences, by moments.

    One-way random effects: the variance within windows estimates twice that of a seed; the variance of window means, less what
    seeds put into it, that of windows (not below zero). `differences`: [windows, seeds] finite differences. Returns the spread, or
    None and the reason.
    """
    windows, seeds = differences.shape
    if windows < 2:
        return None, "one window does not show how much windows differ"
    within = float(differences.var(axis=1, ddof=1).mean()) if seeds > 1 else 0.0
    between = float(differences.mean(axis=1).var(ddof=1))
    return Spread(math.sqrt(max(0.0, between - within / seeds)), math.sqrt(within / 2.0)), None
