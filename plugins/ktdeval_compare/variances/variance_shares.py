"""Variance shares by factor: sums of squares of a balanced crossed design, variance components,
permutation tests.

A design is an array with one axis per factor and a last axis for replicates, `[L1, …, Lk, R]`. Its
sum of squares decomposes exactly into one part for each set of factors (main effects and
interactions), and the residual within cells. Without replicates, the highest-order interaction and
the noise can't be separated and form one part, the residual.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

Array = npt.NDArray[np.float64]
Effect = tuple[int, ...]  #: axes of the factors in an effect; `RESIDUAL` is the empty tuple
RESIDUAL: Effect = ()
#: number of permutations: with these, a p-value of 0.0015 has a standard error of 0.0001
DRAWS = 99_999
INTERVAL_DRAWS = 9_999  #: number of draws for an interval
_AT_ONCE = 2_000_000  #: number of values that are permuted at once
_ROUNDING = 1e-10  #: tolerance for sums of squares, relative to their total
_SAME = 1e-12  #: tolerance for values, relative to the largest absolute value


@dataclass(frozen=True, slots=True)
class SquaresPart:
    """One part of a sum of squares."""

    ss: float  #: sum of squares, in the squared unit of the values
    df: int  #: degrees of freedom
    each: int  #: number of values per level of the effect; 1 for the residual


def sums_of_squares(values: Array) -> dict[Effect, SquaresPart]:
    """Return the decomposition of the sum of squares of `values` [L1, …, Lk, R] about their mean
    into main effects, interactions and residual. The parts sum to the total.

    Raises ValueError if a factor has only one level, or if the residual has no degrees of freedom
    (a single factor without replicates).
    """
    shape = values.shape[:-1]
    factors = values.ndim - 1
    if min(shape) < 2 or (factors == 1 and values.shape[-1] == 1):
        raise ValueError("every factor needs two levels, and a single factor needs replicates")

    values = np.zeros_like(values) if _are_equal(values) else values
    effects: dict[Effect, Array] = {(): values.mean(keepdims=True)}
    parts: dict[Effect, SquaresPart] = {}

    for effect in _factor_effects(factors):
        others = tuple(axis for axis in range(values.ndim) if axis not in effect)
        effects[effect] = values.mean(axis=others, keepdims=True)
        for lower in list(effects):
            if set(lower) < set(effect):
                effects[effect] = effects[effect] - effects[lower]

        each = math.prod(values.shape[axis] for axis in others)
        parts[effect] = SquaresPart(
            each * float((effects[effect] ** 2).sum()),
            math.prod(shape[axis] - 1 for axis in effect),
            each,
        )

    if values.shape[-1] == 1:
        parts[RESIDUAL] = parts.pop(tuple(range(factors)))
    else:
        within = values - values.mean(axis=-1, keepdims=True)
        parts[RESIDUAL] = SquaresPart(float((within**2).sum()), values.size - math.prod(shape), 1)

    return parts


def _are_equal(values: Array) -> bool:
    """Return whether all values are equal up to rounding. If so, a decomposition would only
    decompose the rounding error of their mean.
    """
    return bool(np.ptp(values) <= _SAME * np.abs(values).max())


def _factor_effects(factors: int) -> Iterator[Effect]:
    for size in range(1, factors + 1):
        yield from itertools.combinations(range(factors), size)


def total_of(parts: Mapping[Effect, SquaresPart]) -> float:
    """Return the total sum of squares."""
    return math.fsum(part.ss for part in parts.values())


def shares(parts: Mapping[Effect, SquaresPart]) -> dict[Effect, float | None]:
    """Return each part's share in the total sum of squares (eta squared), or None if all values are
    equal.
    """
    total = total_of(parts)
    return {effect: part.ss / total if total > 0 else None for effect, part in parts.items()}


def variance_components(parts: Mapping[Effect, SquaresPart], squares: Array | None = None) -> Array:
    """Return the variance components in the order of `parts`. They are estimated by equating mean
    squares with their expectations under random effects.

    An estimate is negative if the noise exceeds the mean square from which the noise is subtracted.
    `squares`: mean squares [parts, …] to use instead of the mean squares of `parts`.
    """
    rows = []
    for effect in parts:
        rows.append([_weigh_component(effect, other, part) for other, part in parts.items()])

    expected = np.array(rows)
    if squares is None:
        squares = np.array([part.ss / part.df for part in parts.values()])
    return np.asarray(np.linalg.solve(expected, squares))


def _weigh_component(effect: Effect, other: Effect, part: SquaresPart) -> float:
    """Return the weight that the component of `other` has in the expected mean square of
    `effect`.
    """
    if effect == RESIDUAL:
        return float(other == RESIDUAL)
    if other == RESIDUAL or set(effect) <= set(other):
        return float(part.each)
    return 0.0


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """A variance component, with its share in the sum of all components."""

    estimate: float  #: estimate in the squared unit of the values; may be negative
    share: float  #: share in the sum of all components, with negative estimates set to 0
    low: float
    high: float


def component_shares(
    parts: Mapping[Effect, SquaresPart], level: float, seed: int
) -> dict[Effect, VarianceComponent]:
    """Return each variance component with its share in the sum of all components, and the interval
    for the share at confidence `level`. Random effects are assumed to be normal. In shares,
    negative components are treated as 0.

    The interval uses generalised pivotal quantities (Weerahandi 1993): mean squares are redrawn as
    `SS / chi2(df)`, and the ends are quantiles of the resulting shares. The interval generalises to
    other levels of the same kind (agents, models). Empty if all values are equal.
    """
    if not total_of(parts) > 0:
        return {}

    rng = np.random.default_rng(seed)
    drawn = np.array([part.ss / rng.chisquare(part.df, INTERVAL_DRAWS) for part in parts.values()])
    estimates = variance_components(parts)
    # otherwise, a rounding error could look like a negative variance
    estimates[np.abs(estimates) <= _SAME * np.abs(estimates).max()] = 0.0
    components = np.maximum(estimates, 0.0)
    many = np.maximum(variance_components(parts, drawn), 0.0)

    with np.errstate(invalid="ignore"):
        many = np.nan_to_num(many / many.sum(axis=0))

    low, high = np.quantile(many, [(1 - level) / 2, (1 + level) / 2], axis=1)
    total = components.sum()
    value = components / total if total > 0 else components

    return {
        effect: VarianceComponent(
            float(estimates[i]), float(value[i]), float(low[i]), float(high[i])
        )
        for i, effect in enumerate(parts)
    }


def permutation_p(values: Array, axis: int, seed: int, draws: int = DRAWS) -> float:
    """Return the permutation p-value for the main effect of factor `axis`. Within each combination
    of the other factors, all values are permuted among the factor's levels (and among replicates).
    The p-value is exact if the factor has no effect at all. It is at least `1 / (draws + 1)`.
    """
    blocks, levels = _blocks_by_level(values, axis)
    observed = _between(blocks[None], levels)[0]
    total = float((blocks**2).sum())
    rng = np.random.default_rng(seed)
    beyond = 0
    most = max(1, _AT_ONCE // blocks.size)

    for start in range(0, draws, most):
        drawn = rng.permuted(
            np.broadcast_to(blocks, (min(most, draws - start), *blocks.shape)), axis=-1
        )
        beyond += int((_between(drawn, levels) >= observed - _ROUNDING * total).sum())

    return (1 + beyond) / (1 + draws)


def _blocks_by_level(values: Array, axis: int) -> tuple[Array, int]:
    """Return [blocks, levels * replicates] deviations from the mean, and the number of levels.
    There is one block for each combination of the factors other than `axis`.
    """
    blocks = np.moveaxis(values, axis, -2)
    levels, replicates = blocks.shape[-2:]
    blocks = blocks.reshape(-1, levels * replicates)
    return blocks - blocks.mean(), levels


def _between(drawn: Array, levels: int) -> Array:
    """Return the [draws] between-level sums of squares for [draws, blocks, levels * replicates]."""
    sums = drawn.sum(axis=1).reshape(len(drawn), levels, -1).sum(axis=-1)
    return np.asarray((sums**2).sum(axis=-1) / (drawn[0].size / levels))


def joint_permutation_p(assets: Sequence[Array], axis: int, seed: int, draws: int = DRAWS) -> float:
    """Return the joint permutation p-value for the main effect of factor `axis` on several assets.
    Runs are permuted as in `permutation_p`. A run keeps its values on all assets together, so
    assets may be dependent. The statistic is the sum of the assets' shares, so volatile assets have
    the same weight as calm assets. `assets`: designs with the same shape and the same order of
    levels.
    """
    scaled = []
    for values in assets:
        blocks, levels = _blocks_by_level(values, axis)
        size = math.sqrt(float((blocks**2).sum()))
        # An asset whose values are all equal is uninformative, and its rounding errors must not
        # contribute.
        # contribute
        scaled.append(np.zeros_like(blocks) if _are_equal(values) else blocks / size)

    together = np.array(scaled)
    observed = _joint_between(together[None], levels)[0]
    rng = np.random.default_rng(seed)
    beyond = 0
    most = max(1, _AT_ONCE // together.size)

    for start in range(0, draws, most):
        count = min(most, draws - start)
        order = rng.random((count, 1, *together.shape[1:])).argsort(axis=-1)
        drawn = np.take_along_axis(np.broadcast_to(together, (count, *together.shape)), order, -1)
        beyond += int((_joint_between(drawn, levels) >= observed - _ROUNDING).sum())

    return (1 + beyond) / (1 + draws)


def _joint_between(drawn: Array, levels: int) -> Array:
    """Return `_between` summed over assets, [draws], for [draws, assets, blocks, levels *
    replicates].
    """
    each = _between(drawn.reshape(-1, *drawn.shape[2:]), levels)
    return np.asarray(each.reshape(drawn.shape[:2]).sum(axis=1))


def f_p(parts: Mapping[Effect, SquaresPart], effect: Effect) -> float | None:
    """Return the p-value of the F test for an effect against the residual, or None if the residual
    is 0.
    """
    part = parts[effect]
    residual = parts[RESIDUAL]
    if not residual.ss > _ROUNDING * total_of(parts):
        return None
    return float(fdtrc(part.df, residual.df, part.ss / part.df / (residual.ss / residual.df)))


def mixed_model(values: Array, names: Sequence[str]) -> dict[str, float] | str:
    """Return the shares of the variance components as estimated by restricted maximum likelihood,
    with statsmodels and crossed random effects for all sets of factors. The keys are factor names
    joined by ` x `, and `residual`. Return a reason instead if the shares can't be estimated.
    """
    if values.shape[-1] == 1:
        return "no replicates: interaction and noise can't be separated"
    if _are_equal(values):
        return "all values are equal"

    spread = float(values.std())
    import pandas as pd  # noqa: PLC0415 - takes a second to load
    import statsmodels.formula.api as formulas  # noqa: PLC0415

    indices = np.indices(values.shape).reshape(values.ndim, -1)
    frame = pd.DataFrame({"value": ((values - values.mean()) / spread).ravel(), "all": 1})
    labels = {
        f"e{number:02}": effect for number, effect in enumerate(_factor_effects(values.ndim - 1))
    }

    # sorted by name, which is the order in which statsmodels returns components
    for label, effect in labels.items():
        frame[label] = ["-".join(map(str, row)) for row in indices[list(effect)].T]

    terms = {label: f"0 + C({label})" for label in labels}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `converged` is checked instead
        try:
            fitted = formulas.mixedlm("value ~ 1", frame, groups="all", vc_formula=terms).fit(
                reml=True
            )
        except (np.linalg.LinAlgError, ValueError) as error:
            return f"the mixed model did not converge: {error}"

    components = np.array([*fitted.vcomp, fitted.scale])
    if not fitted.converged or not np.isfinite(components).all() or not components.sum() > 0:
        return "the mixed model did not converge"

    sources = []
    for effect in labels.values():
        sources.append(" x ".join(names[axis] for axis in effect))
    sources.append("residual")
    return dict(zip(sources, (components / components.sum()).tolist(), strict=True))
