"""Pool cells that have different true values, by the random-effects model of a meta-analysis: `y_i
= mean + u_i + e_i`. The variance of each e_i is known, and the variance of u_i is estimated. It is
tau² for a single window, and `share_i * tau²` for a cell that is a mean of several windows.

tau² is estimated by the method of DerSimonian and Laird (1986). The interval for the mean follows
Hartung and Knapp (2001) and Sidik and Jonkman (2002): with few cells, tau² is poorly estimated, and
a normal interval based on the estimate is too short. Heterogeneity is described by Q (Cochran
1954), I² (Higgins and Thompson 2002) and a prediction interval (Higgins, Thompson and Spiegelhalter
2009, with the variance of Hartung and Knapp: Partlett and Riley 2017). Cells are shrunk by
empirical Bayes (Morris 1983).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ktdeval.stats import chi_square_above, normal_quantile, student_probability, student_quantile

Values = npt.NDArray[np.float64]

#: spread of values, relative to the largest magnitude, below which they differ only by rounding
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MomentEstimates:
    """Moment estimates for many samples of cells at once; […] is one figure per sample."""

    tau2: Values  #: […] variance between cells, at least 0
    q: Values  #: […] Cochran's Q
    mean: Values  #: […] estimate of the mean
    plain_se: Values  #: […] its standard error with tau² treated as known
    scale: Values  #: […] Hartung and Knapp's variance factor
    weights: Values  #: […, k] weights of the cells, which sum to 1


def moment_estimates(
    values: Values, variances: Values, shares: Values | float = 1.0
) -> MomentEstimates:
    """Estimate the model for […, k] values and their known variances, with k at least 2. `shares`:
    variance of each cell's true figure in units of tau², […, k], such as 1/4 for the mean of four
    independent windows.

    Raises ValueError if shapes differ, k is below 2, a value is not finite, or a variance is not a
    positive finite number.
    """
    _check(values, variances)
    k = values.shape[-1]

    # Fixed weights relative to the largest weight keep small variances from overflowing.
    least = variances.min(axis=-1, keepdims=True)
    fixed = least / variances
    total = fixed.sum(axis=-1)
    centre = (fixed * values).sum(axis=-1) / total
    q = (fixed * (values - centre[..., None]) ** 2).sum(axis=-1) / least[..., 0]

    # DerSimonian and Laird (1986): Q minus its expectation without heterogeneity, over its slope in
    # tau²
    slope = (fixed * shares).sum(axis=-1) - (fixed**2 * shares).sum(axis=-1) / total
    tau2 = np.maximum(0.0, (q - (k - 1)) * least[..., 0] / slope)

    spread = variances + tau2[..., None] * shares
    least = spread.min(axis=-1, keepdims=True)
    weights = least / spread
    total = weights.sum(axis=-1)
    mean = (weights * values).sum(axis=-1) / total
    plain_se = np.sqrt(least[..., 0] / total)

    # Hartung and Knapp (2001): the weighted spread of the cells about the mean, 1 in expectation
    deviations = (weights * (values - mean[..., None]) ** 2).sum(axis=-1) / least[..., 0]
    scale = deviations / (k - 1)

    return MomentEstimates(tau2, q, mean, plain_se, scale, weights / total[..., None])


def _check(values: Values, variances: Values) -> None:
    if values.shape != variances.shape or values.ndim == 0 or values.shape[-1] < 2:
        raise ValueError("give at least two values, and a variance of each")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    if not (np.isfinite(variances).all() and (variances > 0).all()):
        raise ValueError("variances must be positive and finite")


@dataclass(frozen=True, slots=True)
class RandomEffects:
    """A pooled estimate over cells. Undefined figures are None, and `reason` explains why."""

    k: int  #: number of cells
    value: float | None = None  #: estimate of the mean
    low: float | None = None  #: low end of the interval of Hartung and Knapp for the mean
    high: float | None = None
    se: float | None = None  #: standard error of Hartung and Knapp
    p: float | None = None  #: two-sided p-value from Student's t with k - 1 degrees of freedom
    plain_low: float | None = None  #: low end of the normal interval with tau² treated as known
    plain_high: float | None = None
    #: variance factor of Hartung and Knapp; if it is below 1, their interval may be the shorter one
    scale: float | None = None
    tau2: float | None = None  #: variance of the true figures between single windows
    q: float | None = None  #: Cochran's Q, with k - 1 degrees of freedom without heterogeneity
    q_p: float | None = None  #: probability of a larger Q without heterogeneity
    i2: float | None = None  #: fraction of the spread that is not due to the cells' errors, 0 … 1
    #: low end of the prediction interval for a further cell's true figure; None with fewer than
    #: three cells
    prediction_low: float | None = None
    prediction_high: float | None = None
    weights: tuple[float, ...] = ()  #: weights of the cells in the mean, which sum to 1
    #: empirical-Bayes estimate of each cell, `mean + s tau² / (s tau² + variance) * (y - mean)`
    shrunk: tuple[float, ...] = ()
    reason: str | None = None


def random_effects(
    values: Values,
    variances: Values,
    confidence: float = 0.95,
    shares: Values | float = 1.0,
) -> RandomEffects:
    """Pool [k] independent values with [k] known variances into one estimate. `shares`: as in
    `moment_estimates`.

    Raises ValueError if a value is not finite, or a variance is not a positive finite number.
    """
    k = len(values)
    if k == 0:
        return RandomEffects(0, reason="no cell")
    if k == 1:
        return RandomEffects(1, reason="a single cell does not show how cells vary")

    found = moment_estimates(values, variances, shares)
    tau2 = float(found.tau2)
    mean = float(found.mean)
    kept = tau2 * shares / (tau2 * shares + variances)
    q = float(found.q)
    described = RandomEffects(
        k,
        value=mean + 0.0,
        tau2=tau2,
        q=q,
        q_p=chi_square_above(k - 1, q),
        i2=max(0.0, 1.0 - (k - 1) / q) if q > 0 else 0.0,
        scale=float(found.scale),
        weights=tuple(found.weights.tolist()),
        shrunk=tuple((mean + kept * (values - mean) + 0.0).tolist()),
    )

    return _with_intervals(described, float(found.plain_se), _is_flat(values), confidence)


def _is_flat(values: Values) -> bool:
    """Return whether values differ only by rounding."""
    return float(np.ptp(values)) <= _ROUNDING * float(np.abs(values).max())


def _with_intervals(
    found: RandomEffects, plain_se: float, is_flat: bool, confidence: float
) -> RandomEffects:
    """Return the estimate with its test and intervals."""
    mean = found.value
    k = found.k
    if mean is None or found.scale is None or found.tau2 is None:
        return found

    tail = (1.0 - confidence) / 2.0
    plain_half = -normal_quantile(tail) * plain_se
    plain = replace(found, plain_low=mean - plain_half + 0.0, plain_high=mean + plain_half + 0.0)
    if is_flat:
        return replace(plain, reason="no variation: all cells have the same figure")

    se = plain_se * math.sqrt(found.scale)
    half = -student_quantile(k - 1, tail) * se
    tested = replace(
        plain,
        se=se,
        low=mean - half + 0.0,
        high=mean + half + 0.0,
        p=2.0 * student_probability(k - 1, -abs(mean) / se),
    )
    if k == 2:
        return tested

    reach = -student_quantile(k - 2, tail) * math.hypot(math.sqrt(found.tau2), se)
    return replace(tested, prediction_low=mean - reach + 0.0, prediction_high=mean + reach + 0.0)


@dataclass(frozen=True, slots=True)
class GroupedEffects:
    """A pooled estimate over groups of cells, such as markets with several windows each. Cells in a
    group share the group's effect, so only the groups are independent.
    """

    values: tuple[float, ...]  #: estimate of each group, in label order
    errors: tuple[float, ...]  #: standard error of each group's estimate
    counts: tuple[int, ...]  #: number of cells in each group
    tau2_within: float  #: variance of the windows' true figures within groups, common to all groups
    #: estimate over groups: its tau² is the variance between groups, and its Q tests whether they
    #: differ
    over: RandomEffects


def grouped_effects(
    values: Values,
    variances: Values,
    labels: npt.NDArray[np.int64],
    confidence: float = 0.95,
    shares: Values | None = None,
) -> GroupedEffects:
    """Pool [k] values with known variances, first within groups given by `labels`, [k], then over
    the groups. The variance within groups is a moment estimate from all groups (Borenstein et al.
    2009, chapter 19), so that a group with a single cell also has a standard error. `shares`: as in
    `moment_estimates`.

    Raises the same errors as `random_effects`.
    """
    names, groups, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if shares is None:
        shares = np.ones(len(values))

    excess = 0.0
    slope = 0.0
    for group in np.flatnonzero(counts > 1):
        own = groups == group
        found = moment_estimates(values[own], variances[own])
        excess += float(found.q) - (float(counts[group]) - 1.0)
        fixed = 1.0 / variances[own]
        spread = fixed * shares[own]
        slope += float(spread.sum() - (fixed * spread).sum() / fixed.sum())

    within = max(0.0, excess / slope) if slope > 0 else 0.0
    weights = 1.0 / (variances + within * shares)
    totals = np.bincount(groups, weights=weights, minlength=len(names))
    means = np.bincount(groups, weights=weights * values, minlength=len(names)) / totals

    return GroupedEffects(
        values=tuple(means.tolist()),
        errors=tuple(np.sqrt(1.0 / totals).tolist()),
        counts=tuple(counts.tolist()),
        tau2_within=within,
        over=random_effects(means, 1.0 / totals, confidence),
    )
