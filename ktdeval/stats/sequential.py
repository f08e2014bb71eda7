"""Interim looks at a question as its windows arrive, with the type I error controlled over all
looks.

A spending function fixes in advance how much of alpha may be spent up to each information fraction
(Lan and DeMets 1983, Biometrika 70). There are two kinds of boundary.

`normal_boundaries` is for normal statistics with independent increments. Its critical values are
found by numerical integration of the density over the region in which no look has stopped
(Armitage, McPherson and Rowe 1969, Journal of the Royal Statistical Society A 132). They are used
to plan a design, and give its power and expected number of windows.

`sequential_signs` makes the actual decision from the windows, of which there are few. If each
difference is symmetric about zero, then, given the sizes, the signs are fair coins. So all sign
patterns are equally likely, and a look may stop as large a fraction of the patterns as its share of
alpha allows. This is exact for any sizes, including ties and zeros. Alpha left unused because the
statistic is discrete passes to later looks. With many windows, a subgroup of all patterns is used.
Any subgroup keeps the error rate exact, whereas a mere sample would not (Hemerik and Goeman 2018,
TEST 27).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.stats.distributions import normal_probability, normal_quantile
from ktdeval.stats.paired import level_sizes

Vector = npt.NDArray[np.float64]
Table = npt.NDArray[np.float64]

SpendingFunction = Literal["obrien-fleming", "pocock"]
SignStatistic = Literal["signed-rank", "sign-flip"]

ENUMERATE_UP_TO = 14
"""Maximum number of windows for which a design evaluates all 2**windows sign patterns."""
#: maximum number of patterns; with more windows, a subgroup of all patterns is used
PATTERNS = 1 << ENUMERATE_UP_TO

_MAX_LOOKS = 100
_NODES_A_STEP = 6.0  # quadrature nodes per standard deviation of an increment
_MIN_NODES = 48
_LARGEST_Z = 37.0  # beyond this, normal tail probabilities are 0 in floating point
_BISECTIONS = 100
_SLACK = 1e-9  # tolerance for sums of the same numbers in another order
_SEED = 20_831_983  # seed for choosing the subgroup; any seed works, but it must not change


# ---- how much of alpha may be used


def alpha_spent(spending: SpendingFunction, alpha: float, fractions: Sequence[float]) -> Vector:
    """Return the two-sided error that may be spent up to each information fraction. Shape: [k].

    Each side spends alpha / 2 by the function of Lan and DeMets (1983), as in `ldbounds`: for
    `obrien-fleming` 2 - 2 Phi(z(1 - alpha / 4) / sqrt(t)), for `pocock` alpha / 2 log(1 + (e - 1)
    t). Raises ValueError if `alpha` or a fraction is out of range, or fractions do not increase.
    """
    shares = _checked_fractions(fractions)
    if not 0 < alpha < 1:
        raise ValueError("alpha must be between 0 and 1")

    if spending == "pocock":
        return np.asarray(alpha * np.log1p((math.e - 1.0) * shares))

    quantile = normal_quantile(alpha / 4)
    sides = [4.0 * normal_probability(quantile / math.sqrt(share)) for share in shares]
    return np.asarray(sides)


def _checked_fractions(fractions: Sequence[float]) -> Vector:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or not 1 <= len(shares) <= _MAX_LOOKS:
        raise ValueError(f"give 1 to {_MAX_LOOKS} information fractions")
    if not (np.diff(shares, prepend=0.0) > 0).all() or shares[-1] > 1.0:
        raise ValueError("information fractions must increase, above 0 and up to 1")

    return shares


# ---- boundaries for a normal statistic


@dataclass(frozen=True, slots=True)
class NormalBoundaries:
    """Critical values of a two-sided group-sequential test of a normal mean."""

    fractions: Vector  #: [k] information fractions at the looks
    spent: Vector  #: [k] two-sided error spent up to each look
    z: Vector  #: [k] critical values of |Z|; infinite where no error may be spent


@dataclass(frozen=True, slots=True)
class _Density:
    """Density of the sum S of increments at quadrature nodes, restricted to the case that no look
    has stopped.
    """

    nodes: Vector  #: [n] values of S
    mass: Vector  #: [n] density times quadrature weight; the sum is the probability of continuing


_START = _Density(np.zeros(1), np.ones(1))


def normal_boundaries(
    spending: SpendingFunction, alpha: float, fractions: Sequence[float]
) -> NormalBoundaries:
    """Return the boundaries that spend alpha as a spending function allows. Raises the same errors
    as `alpha_spent`.
    """
    shares = _checked_fractions(fractions)
    allowed = alpha_spent(spending, alpha, fractions)
    steps = np.sqrt(np.diff(shares, prepend=0.0))
    density = _START
    values = []

    for share, step, gain in zip(shares, steps, np.diff(allowed, prepend=0.0), strict=True):
        bound = _bound_of(density, step, gain / 2.0, math.sqrt(share))
        values.append(bound / math.sqrt(share))
        density = _move_density(density, step, -bound, bound, 0.0)

    return NormalBoundaries(shares, allowed, np.asarray(values))


def stopping_probabilities(boundaries: NormalBoundaries, drift: float) -> Table:
    """Return the probability that each look stops, below and above. Z over all windows is assumed
    to have mean `drift` and variance 1. Shape: [k, 2].
    """
    density = _START
    before = 0.0
    rows = []
    for share, value in zip(boundaries.fractions, boundaries.z, strict=True):
        step = math.sqrt(share - before)
        shift = drift * (share - before)
        bound = value * math.sqrt(share)
        below = _mass_above(_mirror_density(density), step, bound, -shift)
        rows.append([below, _mass_above(density, step, bound, shift)])

        density = _move_density(density, step, -bound, bound, shift)
        before = float(share)

    return np.asarray(rows)


def _bound_of(density: _Density, step: float, wanted: float, scale: float) -> float:
    """Return the bound on S that is exceeded after an increment with the probability `wanted`, by
    bisection.
    """
    low = 0.0
    high = _LARGEST_Z * scale
    if _mass_above(density, step, high, 0.0) >= wanted:
        return math.inf if wanted <= 0 else high

    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if _mass_above(density, step, middle, 0.0) > wanted:
            low = middle
        else:
            high = middle

    return high


def _mass_above(density: _Density, step: float, bound: float, shift: float) -> float:
    from scipy.special import ndtr  # noqa: PLC0415 - heavy, and only these boundaries need it

    return float(density.mass @ ndtr((density.nodes + shift - bound) / step))


def _mirror_density(density: _Density) -> _Density:
    return _Density(-density.nodes, density.mass)


def _move_density(
    density: _Density, step: float, low: float, high: float, shift: float
) -> _Density:
    """Return the density after a normal increment, truncated to the continuation region."""
    farthest = float(np.abs(density.nodes).max()) + abs(shift) + _LARGEST_Z * step
    low = max(low, -farthest)
    high = min(high, farthest)
    count = max(_MIN_NODES, math.ceil(_NODES_A_STEP * (high - low) / step))
    points, weights = _quadrature(count)
    nodes = (high - low) / 2.0 * points + (high + low) / 2.0

    distances = (nodes[:, None] - density.nodes[None, :] - shift) / step
    normal = np.exp(-0.5 * distances**2) / (math.sqrt(2.0 * math.pi) * step)
    mass = (high - low) / 2.0 * weights * (normal @ density.mass)
    return _Density(nodes, mass)


@cache
def _quadrature(count: int) -> tuple[Vector, Vector]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return points, weights


# ---- the exact test over windows


@dataclass(frozen=True, slots=True)
class Look:
    """One planned look at the windows so far."""

    windows: int  #: number of windows so far
    fraction: float  #: fraction of all planned windows
    may_spend: float  #: two-sided error that may be spent up to this look
    #: error actually spent up to this look; at most `may_spend`, because the statistic is discrete
    used: float
    statistic: float  #: sum of signed ranks, or of signed differences
    #: the look stops if |statistic| is at least this; None if no value can stop it
    boundary: float | None
    is_stopped: bool  #: whether this look settles the question


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """Looks up to the first one that settles the question, or as many as the available
    windows allow.
    """

    looks: tuple[Look, ...]
    #: number of the look that settled the question, from 1; None if none has
    settled_at: int | None
    sign: int  #: sign of the settled difference, 1 or -1; 0 if nothing is settled
    #: sign patterns used: all patterns or a subgroup; both are exact
    method: Literal["all", "subgroup"]


def sequential_signs(
    differences: Vector,
    looks: Sequence[int],
    spending: SpendingFunction,
    alpha: float = 0.05,
    statistic: SignStatistic = "signed-rank",
) -> SequentialTest:
    """Test at planned looks that [n] finite differences are symmetric about zero.

    `looks` is the number of windows at each look; the last entry is the planned number of windows.
    Patterns depend only on this number, so a look never changes when later windows arrive. There
    may be fewer differences than planned; looks without enough windows are then not made. Raises
    ValueError if values are not finite, there are more than planned, or `looks` do not increase.
    """
    values = np.asarray(differences, dtype=np.float64)
    counts = _checked_looks(looks)
    if not np.isfinite(values).all() or values.ndim != 1:
        raise ValueError("differences must be finite; omit pairs whose difference is unknown")
    if len(values) > counts[-1]:
        raise ValueError(f"{len(values)} differences, but only {counts[-1]} planned windows")

    total = counts[-1]
    allowed = alpha_spent(spending, alpha, [count / total for count in counts])
    walk = _begin(total)
    made = []
    for count, limit in zip(counts, allowed, strict=True):
        if count > len(values):
            break

        look = walk.look(values[:count], total, float(limit), statistic)
        made.append(look)
        if look.is_stopped:
            break

    method: Literal["all", "subgroup"] = "all" if total <= ENUMERATE_UP_TO else "subgroup"
    if not made or not made[-1].is_stopped:
        return SequentialTest(tuple(made), None, 0, method)

    sign = int(math.copysign(1, made[-1].statistic))
    return SequentialTest(tuple(made), len(made), sign, method)


def looks_that_can_stop(
    looks: Sequence[int], spending: SpendingFunction, alpha: float = 0.05
) -> list[bool]:
    """Return, for each look, whether it can stop at all. With few windows, even equal signs in all
    windows may be more likely than the error that a look may spend.
    """
    counts = _checked_looks(looks)
    rising = np.arange(1.0, counts[-1] + 1.0)  # without ties, as for continuous differences
    total = counts[-1]
    allowed = alpha_spent(spending, alpha, [count / total for count in counts])
    walk = _begin(total)
    can_stop = []
    for count, limit in zip(counts, allowed, strict=True):
        look = walk.look(rising[:count], total, float(limit), "signed-rank")
        can_stop.append(look.boundary is not None)

    return can_stop


def _checked_looks(looks: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(looks)
    if not 1 <= len(counts) <= _MAX_LOOKS:
        raise ValueError(f"plan 1 to {_MAX_LOOKS} looks")
    if any(after <= before for before, after in zip((0, *counts), counts, strict=False)):
        raise ValueError("the windows of the looks must increase, starting with at least 1")

    return counts


@cache
def sign_patterns(windows: int) -> Table:
    """Return sign patterns. The first is the observed pattern, all +1. Shape: [p, windows].

    With up to `ENUMERATE_UP_TO` windows, these are all patterns. With more windows, they are a
    subgroup: all patterns of the first windows, where each later sign is a fixed product of the
    first windows' signs. Signs are relative to the observed signs, so the set is the same whichever
    of its patterns was observed.
    """
    free = min(windows, ENUMERATE_UP_TO)
    numbers = np.arange(1 << free)[:, None]
    bits = (numbers >> np.arange(free)) & 1
    later = np.random.default_rng(_SEED).integers(0, 2, (windows - free, free))
    # No later sign may be constant over all patterns.
    later[:, 0] |= ~later.any(axis=1)

    every = np.hstack([bits, (bits @ later.T) & 1])
    patterns = np.asarray(1 - 2 * every, dtype=np.float64)
    patterns.flags.writeable = False
    return patterns


@dataclass
class _Walk:
    """The state of all sign patterns as they pass through the looks."""

    patterns: Table  #: [p, planned windows]; row 0 is the observed pattern
    goes_on: npt.NDArray[np.bool_]  #: [p] whether no look has stopped the pattern yet

    def look(self, values: Vector, total: int, limit: float, statistic: SignStatistic) -> Look:
        """Make the next look, at these windows out of `total`, with a cumulative error of at most
        `limit`.
        """
        scores = _signed_scores(values, statistic)
        sums = self.patterns[:, : len(values)] @ scores
        sizes = np.abs(sums)
        going = sizes[self.goes_on]
        room = math.floor(limit * len(self.patterns) + _SLACK) - int((~self.goes_on).sum())
        boundary = _boundary_of(going, room)

        is_stopped = False
        if boundary is not None:
            reached = sizes >= boundary - _SLACK * boundary
            is_stopped = bool(self.goes_on[0] and reached[0])
            self.goes_on &= ~reached

        used = float((~self.goes_on).sum()) / len(self.patterns)
        observed = float(sums[0])
        fraction = len(values) / total
        return Look(len(values), fraction, limit, used, observed, boundary, is_stopped)


def _begin(windows: int) -> _Walk:
    patterns = sign_patterns(windows)
    return _Walk(patterns, np.ones(len(patterns), dtype=bool))


def _boundary_of(sizes: Vector, room: int) -> float | None:
    """Return the smallest positive size that at most `room` of the sizes reach, or None."""
    if room <= 0:
        return None

    ordered = np.sort(sizes)[::-1]
    if room >= len(ordered):
        smallest = float(ordered[-1])
        return smallest if smallest > 0 else None

    # Sizes equal to the first excluded size must be excluded as well.
    first_out = float(ordered[room])
    above = ordered[:room]
    above = above[above > first_out * (1.0 + _SLACK) + _SLACK * float(ordered[0])]
    return float(above[-1]) if len(above) else None


def _signed_scores(values: Vector, statistic: SignStatistic) -> Vector:
    """Return each difference's contribution to the statistic. It is the difference's rank by size,
    or the difference itself, with the observed sign; 0 for a difference of 0. Shape: [n].
    """
    level = level_sizes(values)
    if statistic == "sign-flip":
        return level

    sizes = np.abs(level)
    differing = sizes > 0
    scores = np.zeros(len(level))
    if differing.any():
        # Wilcoxon (1945) drops zeros before ranking; equal sizes share their mean rank.
        _, groups, counts = np.unique(sizes[differing], return_inverse=True, return_counts=True)
        ranks = np.cumsum(counts) - (counts - 1) / 2.0
        scores[differing] = ranks[groups]

    return np.copysign(scores, level)
