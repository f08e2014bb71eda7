"""Tests and estimates for paired differences: Wilcoxon signed-rank test, Hodges-Lehmann shift,
sign-flip permutation test.

Sources: Wilcoxon (1945), Hodges and Lehmann (1963), Kerby (2014) for the matched-pairs
rank-biserial correlation. Up to `EXACT_UP_TO` pairs, the null distribution of the signed-rank
statistic is exact, even with zeros and ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.stats.distributions import normal_probability, normal_quantile

Vector = npt.NDArray[np.float64]
EXACT_UP_TO = 300
"""Maximum number of non-zero pairs for which the signed-rank distribution is enumerated. Beyond
this number, its normal approximation is accurate to 1e-4.
"""

#: number of draws for the null distribution over windows that share days, and of sign patterns:
#: with these, a p-value of 0.05 has a standard error of about 0.0005
NULL_DRAWS = 100_000
#: maximum number of blocks for which a sign-flip test enumerates all 2**blocks sign patterns
ENUMERATE_UP_TO = 16
_SIMULATION_CHUNK = 20_000
_ROUNDING = 1e-10  # relative to the largest difference in a sample


@dataclass(frozen=True, slots=True)
class RankNull:
    """Distribution of the signed-rank statistic if the differences are symmetric about zero."""

    support: Vector  #: [m] ascending values of the sum of positive ranks
    probabilities: Vector  #: [m] probabilities of these values
    kind: Literal["exact", "simulated"]  #: `exact`, or `simulated` if differences are correlated
    #: smallest p-value that this number of draws can yield (Phipson and Smyth 2010); 0 if exact
    resolution: float = 0.0

    @property
    def at_or_below(self) -> Vector:
        """Cumulative probabilities. Shape: [m]."""
        return np.asarray(np.minimum(np.cumsum(self.probabilities), 1.0))

    def two_sided(self, statistic: float) -> float:
        """Return the probability of a rank sum at least as far from the middle of the symmetric
        distribution as `statistic`.
        """
        middle = float(self.support[0] + self.support[-1]) / 2
        # Sums of halves are exact in floating point. Only a simulated support needs the tolerance.
        far = np.abs(self.support - middle) >= abs(statistic - middle) - 1e-9
        return min(1.0, max(self.resolution, math.fsum(self.probabilities[far])))


@dataclass(frozen=True, slots=True)
class SignedRank:
    """A Wilcoxon signed-rank test."""

    n: int  #: number of pairs
    n_nonzero: int  #: number of pairs that differ
    positive_ranks: float  #: sum of the ranks of positive differences
    negative_ranks: float  #: sum of the ranks of negative differences
    #: `(positive - negative) / (positive + negative)`, -1 … 1; None if no pair differs
    rank_biserial: float | None
    p: float | None  #: two-sided p-value; None without pairs; 1 if no pair differs
    #: smallest possible p-value for this number of differing pairs, if all had the same sign
    smallest_p: float | None
    method: Literal["exact", "normal", "simulated"]  #: method by which `p` was computed
    reason: str | None = None  #: why `p` is None


@dataclass(frozen=True, slots=True)
class Shift:
    """A Hodges-Lehmann estimate of the shift. The ends are None if there is no interval at the
    requested level.
    """

    value: float | None  #: median of the Walsh averages; None without pairs
    low: float | None
    high: float | None
    #: coverage of the interval under symmetry; at least the requested level, since possible levels
    #: are discrete
    confidence: float | None
    reason: str | None = None  #: why a figure is None


def rank_null(ranks: Vector) -> RankNull:
    """Return the exact distribution of a sum in which each rank (a multiple of 1/2) is included
    independently with probability 1/2.
    """
    doubled = np.rint(2.0 * ranks).astype(np.int64)
    step = 2 if bool(np.all(doubled % 2 == 0)) else 1
    units = doubled // step
    counts: Vector = np.zeros(int(units.sum()) + 1)
    counts[0] = 1.0

    for unit in units:
        shifted = np.zeros_like(counts)
        shifted[unit:] = counts[: len(counts) - unit]
        counts = 0.5 * (counts + shifted)

    support: Vector = np.arange(len(counts), dtype=np.float64) * (step / 2.0)
    return RankNull(support, counts, "exact")


def correlated_null(correlation: Vector, draws: int, seed: int) -> RankNull:
    """Return the distribution of the signed-rank statistic for normal differences with this
    correlation, [n, n], such as `overlap_correlation`. The simulation is symmetric, so each of
    `draws` counts twice.
    """
    n = len(correlation)
    generator = np.random.default_rng(seed)
    top = n * (n + 1) // 2
    counts = np.zeros(top + 1)

    for start in range(0, draws, _SIMULATION_CHUNK):
        sample = correlated_normals(correlation, min(_SIMULATION_CHUNK, draws - start), generator)
        counts += np.bincount(positive_rank_sums(sample), minlength=top + 1)

    probabilities = (counts + counts[::-1]) / (2.0 * draws)
    return RankNull(np.arange(top + 1.0), probabilities, "simulated", 1.0 / (draws + 1))


def correlated_normals(correlation: Vector, draws: int, generator: np.random.Generator) -> Vector:
    """Return standard normal values, [draws, n], with this correlation, [n, n]."""
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(generator.standard_normal((draws, len(correlation))) @ root.T)


def overlap_null(correlation: Vector, seed: int = 0) -> RankNull | None:
    """Return the distribution of the signed-rank statistic over windows whose shared days cause
    this correlation, [n, n] (see `overlap_correlation`). None if no two windows share days, in
    which case `rank_null` applies.
    """
    if not np.triu(correlation, 1).any():
        return None

    return correlated_null(correlation, NULL_DRAWS, seed)


def positive_rank_sums(samples: Vector) -> npt.NDArray[np.int64]:
    """Return the sum of the ranks of positive differences in each sample. Shape: [draws].
    `samples`: [draws, n], without zeros or ties.
    """
    # The bits of a positive number increase with the number. So sizes can be sorted as integers
    # that carry the sign in the last bit.
    bits = samples.view(np.uint64)
    keys = np.sort((bits << np.uint64(1)) | (bits >> np.uint64(63)), axis=1)
    positive = (keys & np.uint64(1)) == 0

    return np.asarray((positive @ np.arange(1.0, samples.shape[1] + 1.0)).astype(np.int64))


def level_sizes(differences: Vector) -> Vector:
    """Return [..., n] differences in which sizes that differ only by rounding are made equal; sizes
    that differ from 0 only by rounding become 0. NaN stays. Without this, 5/43 - 3/43 and 12/43 -
    10/43, whose last bits differ, would get different ranks.
    """
    sizes = np.abs(differences)
    order = np.argsort(sizes, axis=-1)  # NaN last
    ordered = np.take_along_axis(sizes, order, axis=-1)
    largest = np.fmax.reduce(sizes, axis=-1, keepdims=True, initial=0.0)
    begins = np.diff(ordered, axis=-1, prepend=0.0) > _ROUNDING * largest
    begin = np.maximum.accumulate(np.where(begins, np.arange(sizes.shape[-1]), -1), axis=-1)
    equal = np.empty_like(sizes)
    np.put_along_axis(
        equal,
        order,
        np.where(begin < 0, 0.0, np.take_along_axis(ordered, np.maximum(begin, 0), axis=-1)),
        axis=-1,
    )

    return np.where(np.isnan(differences), np.nan, np.copysign(equal, differences) + 0.0)


def signed_rank(differences: Vector, null: RankNull | None = None) -> SignedRank:
    """Two-sided Wilcoxon signed-rank test that finite differences are symmetric about zero. Zeros
    are dropped before ranking. The test is exact even with zeros and ties, which `level_sizes`
    determines. `null`: an alternative null distribution, such as `correlated_null`. Raises
    ValueError if a difference is not finite.
    """
    if not np.isfinite(differences).all():
        raise ValueError("differences must be finite; omit pairs whose difference is unknown")

    differences = level_sizes(differences)
    # Wilcoxon (1945) drops zeros before ranking.
    differing = differences[differences != 0]
    n = len(differences)
    n_nonzero = len(differing)
    if n == 0:
        return SignedRank(0, 0, 0.0, 0.0, None, None, None, "exact", "no pair")
    if n_nonzero == 0:
        return SignedRank(n, 0, 0.0, 0.0, None, 1.0, 1.0, "exact")

    ranks = _mean_ranks(np.abs(differing))
    positive = math.fsum(ranks[differing > 0])
    negative = math.fsum(ranks[differing < 0])

    if null is None and n_nonzero <= EXACT_UP_TO:
        null = rank_null(ranks)

    if null is None:
        p = _normal_p(ranks, positive)
        smallest = _normal_p(ranks, positive + negative)
        method = "normal"
    else:
        p = null.two_sided(positive)
        smallest = null.two_sided(positive + negative)
        method = null.kind

    # Kerby (2014): matched-pairs rank-biserial correlation
    effect = (positive - negative) / (positive + negative)
    return SignedRank(n, n_nonzero, positive, negative, effect, p, smallest, method)  # type: ignore[arg-type]


def _mean_ranks(sizes: Vector) -> Vector:
    """Return ranks from 1, smallest first. Equal sizes share their mean rank. Shape: [n]."""
    _, groups, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[groups])


def _normal_p(ranks: Vector, positive: float) -> float:
    # Given the ranks, each sign is a fair coin, so this variance already accounts for ties and
    # zeros.
    deviation = math.sqrt(float(ranks @ ranks) / 4.0)
    return 2.0 * normal_probability(-abs(positive - float(ranks.sum()) / 2.0) / deviation)


def hodges_lehmann(
    differences: Vector, confidence: float = 0.95, null: RankNull | None = None
) -> Shift:
    """Return the median of the Walsh averages `(d_i + d_j) / 2, i <= j`, with the interval that
    inverts the signed-rank test. If there are too few pairs for the confidence level, the ends are
    None; for example, five pairs reach at most 93.75 %.
    """
    n = len(differences)
    if n == 0:
        return Shift(None, None, None, None, "no pair")

    rows, columns = np.triu_indices(n)
    # After Hodges and Lehmann (1963)
    walsh = np.sort((differences[rows] + differences[columns]) / 2.0)
    value = float(np.median(walsh)) + 0.0

    if null is None and n <= EXACT_UP_TO:
        null = rank_null(np.arange(1.0, n + 1.0))

    if null is None:
        # Standard deviation of the signed-rank statistic without ties or zeros
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
        cut = max(0, math.floor(len(walsh) / 2.0 + normal_quantile((1 - confidence) / 2) * spread))
        return Shift(value, float(walsh[cut]) + 0.0, float(walsh[-1 - cut]) + 0.0, confidence)

    tail = null.at_or_below
    cut = int(np.searchsorted(tail, (1 - confidence) / 2 + 1e-12, side="right")) - 1
    if cut < 0:
        best = max(0.0, 1.0 - 2.0 * float(tail[0]))
        return Shift(
            value,
            None,
            None,
            None,
            f"{n} pairs: the highest possible level of an interval is {100 * best:.4g} %",
        )

    return Shift(
        value, float(walsh[cut]) + 0.0, float(walsh[-1 - cut]) + 0.0, 1.0 - 2.0 * float(tail[cut])
    )


@dataclass(frozen=True, slots=True)
class SignFlip:
    """A sign-flip permutation test of the mean."""

    blocks: int  #: number of groups whose differences change sign together
    p: float | None  #: two-sided p-value; None without pairs
    smallest_p: float | None  #: smallest possible p-value for this number of blocks
    method: Literal["exact", "sampled"]  #: `exact` over all patterns, or `sampled`
    reason: str | None = None  #: why `p` is None


def sign_flip(
    differences: Vector,
    blocks: npt.NDArray[np.int64] | None = None,
    draws: int = NULL_DRAWS - 1,
    seed: int = 0,
) -> SignFlip:
    """Two-sided sign-flip test that the mean difference is zero. The signs in a block are flipped
    together. If there are more than `2 ** ENUMERATE_UP_TO` patterns, `draws` of them are sampled.
    """
    if len(differences) == 0:
        return SignFlip(0, None, None, "exact", "no pair")

    labels = (
        np.arange(len(differences)) if blocks is None else np.unique(blocks, return_inverse=True)[1]
    )
    sums = np.bincount(labels, weights=differences)
    count = len(sums)
    moving = sums[sums != 0]
    if len(moving) == 0:
        return SignFlip(count, 1.0, min(1.0, 2.0 ** (1 - count)), "exact")

    observed = abs(math.fsum(moving))
    # sums of the same numbers in different orders differ by rounding
    slack = 1e-12 * float(np.abs(moving).sum())
    if len(moving) <= ENUMERATE_UP_TO:
        reached = np.abs(_all_sign_sums(moving)) >= observed - slack
        return SignFlip(count, float(reached.mean()), min(1.0, 2.0 ** (1 - count)), "exact")

    generator = np.random.default_rng(seed)
    hits = 0
    for start in range(0, draws, _SIMULATION_CHUNK):
        signs = (
            generator.integers(0, 2, (min(_SIMULATION_CHUNK, draws - start), len(moving))) * 2.0
            - 1.0
        )
        hits += int((np.abs(signs @ moving) >= observed - slack).sum())

    # The observed pattern is included, so that a sampled p-value is never zero and is valid
    # (Phipson and Smyth 2010).
    return SignFlip(count, (hits + 1) / (draws + 1), 1 / (draws + 1), "sampled")


def _all_sign_sums(values: Vector) -> Vector:
    """Return the sums of the values under every sign pattern. Shape: [2**n]."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums
