"""Daily cross-sectional weighted least squares for all days at once, by batched, rank-revealing
normal equations.

For each day minimise sum_i w_i (r_i - x_i' f)^2. A day's normal equations, scaled to unit diagonal,
are factored by Cholesky decomposition, column by column over all days together. The pivot of column
k is the fraction of the column that the preceding columns leave unexplained: the 1 - R^2 of its
regression on them. A column whose pivot is below `RANK_TOLERANCE` is *dropped* on that day: its
coefficient is 0 and the fit uses the other columns. Thus the later of two collinear columns is
dropped, and so is a constant column after the intercept. Days with a small pivot get a step of
iterative refinement with residuals from the full data. This recovers the precision lost by
squaring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray

RANK_TOLERANCE = 1e-9
"""Minimum fraction of a column that the preceding columns must leave unexplained; it corresponds to
a variance inflation factor of 10^9.
"""
_REFINE_BELOW = 1e-2
#: days whose columns are weighted at a time, so that the product is still in the cache when it is
#: multiplied
_BLOCK = 48
CountArray = np.ndarray[tuple[int], np.dtype[np.intp]]
Robust = Literal["HC0", "HC1", "HC2", "HC3"]


@dataclass(frozen=True, slots=True)
class CrossSections:
    """Fitted daily regressions."""

    coefficients: FloatArray  #: [D, P]; 0 for a dropped column
    #: [D, P] True if a column has no coefficient, because it is constant or collinear with
    #: preceding columns, or because there are too few names
    dropped: BoolArray
    #: [D] True if no degree of freedom was left, so that only the first column was fitted
    too_few: BoolArray
    count: CountArray  #: [D] number of names with a positive weight
    #: [D] number of parameters fitted, including those partialled out before
    parameters: CountArray


def weighted_least_squares(
    design: FloatArray,
    returns: FloatArray,
    weights: FloatArray,
    taken_out: CountArray | None = None,
) -> CrossSections:
    """Fit one regression per day of [D, N] returns on [D, P, N] columns, as `statsmodels.api.WLS`
    does. The first column is the intercept. Names with weight 0 are excluded.

    If there are no more names than columns, only the first column is fitted; without any names,
    none is. `taken_out`: number of parameters, including the intercept, whose columns were
    partialled out of returns and design beforehand, [D]. In this case, nothing is fitted on days
    with too few names. Raises DataError if shapes don't match, a weight is negative or a value is
    not finite.
    """
    _check_shapes(design, returns, weights)
    gram, moment = _normal_equations(design, returns, weights)
    count = np.count_nonzero(weights, axis=1)
    before = np.zeros_like(count) if taken_out is None else taken_out
    factor = _CholeskyFactor.of(gram)
    too_few = count <= factor.kept.sum(axis=0) + before

    if too_few.any():
        gram[np.ix_(too_few, np.arange(design.shape[1]) >= (taken_out is None))] = 0.0
        factor = _CholeskyFactor.of(gram)

    coefficients = factor.solve(moment)
    weak = np.flatnonzero(factor.weakest < _REFINE_BELOW)
    if len(weak):
        residuals = returns[weak] - (coefficients[weak, None, :] @ design[weak])[:, 0, :]
        correction = (design[weak] @ (weights[weak] * residuals)[:, :, None])[:, :, 0]
        coefficients[weak] += factor.of_days(weak).solve(correction)

    return CrossSections(
        coefficients, ~factor.kept.T, too_few & (count > 0), count, factor.kept.sum(axis=0) + before
    )


def robust_errors(
    design: FloatArray,
    returns: FloatArray,
    weights: FloatArray,
    fitted: CrossSections,
    kind: Robust = "HC3",
    leverage: FloatArray | None = None,
) -> FloatArray:
    """Return heteroskedasticity-consistent standard errors; NaN where a column was dropped. As in
    MacKinnon and White, HC0 is plain, HC1 is scaled by n / (n - p), and HC2 and HC3 use the
    leverage. Shape: [D, P]. `leverage`: leverage of parameters partialled out beforehand, [D, N].
    """
    errors = np.full(fitted.coefficients.shape, np.nan)
    for start in range(0, len(design), _BLOCK):
        block = slice(start, start + _BLOCK)
        kept = ~fitted.dropped[block]
        columns = design[block] * kept[:, :, None]
        influence, room = _influence(columns, weights[block], kept)
        residuals = returns[block] - np.einsum("dp,dpn->dn", fitted.coefficients[block], columns)
        square = np.square(residuals)

        if kind in ("HC2", "HC3"):
            room = room if leverage is None else room - leverage[block]
            # A name fitted exactly by its own columns has residual 0 and leverage 1, so it carries
            # no information about the noise.
            room = np.where(room > 1e-12, room, np.inf)
            # MacKinnon and White: divide by 1 - leverage, or by its square
            square /= room if kind == "HC2" else room * room

        variance = np.einsum("dpn,dn->dp", influence * influence, square)
        if kind == "HC1":
            names = fitted.count[block]
            parameters = fitted.parameters[block]
            variance *= np.where(
                names > parameters, names / np.maximum(names - parameters, 1), np.nan
            )[:, None]

        errors[block] = np.where(kept, np.sqrt(variance), np.nan)

    return errors


def _check_shapes(design: FloatArray, returns: FloatArray, weights: FloatArray) -> None:
    days, _, names = design.shape
    if returns.shape != (days, names) or weights.shape != (days, names):
        raise DataError(
            f"cross-sections: design is {design.shape} (days, columns, names), but returns are"
            f" {returns.shape} and weights {weights.shape}; both must be ({days}, {names})"
        )
    if weights.size and weights.min() < 0:
        raise DataError("cross-sections: a regression weight is negative")


def _normal_equations(
    design: FloatArray, returns: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sum w x x', [D, P, P], and sum w x r, [D, P]."""
    days, columns, _ = design.shape
    gram = np.empty((days, columns, columns))
    moment = np.empty((days, columns))
    # One buffer for all blocks, because allocating memory for each block would cost more than the
    # arithmetic.
    buffer = np.empty((min(_BLOCK, days), *design.shape[1:]))

    for start in range(0, days, _BLOCK):
        block = slice(start, min(start + _BLOCK, days))
        weighted = np.multiply(
            design[block], weights[block, None, :], out=buffer[: block.stop - start]
        )
        np.matmul(weighted, design[block].transpose(0, 2, 1), out=gram[block])
        moment[block] = (weighted @ returns[block, :, None])[:, :, 0]

    # A non-finite value shows up in these sums even at weight 0, and the sums are much smaller than
    # the inputs.
    if not (np.isfinite(gram).all() and np.isfinite(moment).all()):
        raise DataError(
            "cross-sections: a value is not finite; give excluded names weight 0, return 0 and"
            " exposures 0"
        )

    return gram, moment


@dataclass(frozen=True, slots=True)
class _CholeskyFactor:
    """Cholesky factors of many Gram matrices. Days are the last axis, so that every operation runs
    along contiguous memory.
    """

    #: [P, P, D] factor of the matrix scaled to unit diagonal; a dropped column is an identity
    #: column
    lower: FloatArray
    scale: FloatArray  #: [P, D] square roots of the diagonal; 1 for a dropped column
    kept: BoolArray  #: [P, D]
    weakest: FloatArray  #: [D] smallest pivot among the kept columns

    @classmethod
    def of(cls, gram: FloatArray) -> _CholeskyFactor:
        """Factor matrices of shape [D, P, P]."""
        matrix = np.ascontiguousarray(gram.transpose(1, 2, 0))
        columns = len(matrix)
        scale = np.sqrt(np.diagonal(matrix).T)
        scale = np.where(scale > 0.0, scale, np.inf)
        matrix /= scale[:, None, :]
        matrix /= scale[None, :, :]
        kept = np.empty(scale.shape, dtype=bool)
        weakest = np.ones(scale.shape[1])

        for column in range(columns):
            pivot = matrix[column, column].copy()
            keep = pivot > RANK_TOLERANCE
            kept[column] = keep
            np.minimum(weakest, pivot, out=weakest, where=keep)
            below = matrix[column:, column]
            below *= np.where(keep, 1.0 / np.sqrt(np.where(keep, pivot, 1.0)), 0.0)
            matrix[column, column] = np.where(keep, below[0], 1.0)
            # What the preceding columns explain of a dropped column must not re-enter through the
            # substitutions.
            matrix[column, :column] *= keep
            below = below[1:]
            matrix[column + 1 :, column + 1 :] -= below[:, None, :] * below[None, :, :]

        return cls(matrix, np.where(kept, scale, 1.0), kept, weakest)

    def of_days(self, days: np.ndarray[tuple[int], np.dtype[np.intp]]) -> _CholeskyFactor:
        """Return the factors of some days."""
        return _CholeskyFactor(
            self.lower[:, :, days], self.scale[:, days], self.kept[:, days], self.weakest[days]
        )

    def solve(self, moment: FloatArray) -> FloatArray:
        """Return the solutions of gram @ x = moment over the kept columns: [D, P], as `moment`; 0
        for dropped columns.
        """
        solution = np.where(self.kept, moment.T / self.scale, 0.0)
        lower = self.lower
        columns = len(self.lower)

        for column in range(columns):
            solution[column] /= lower[column, column]
            solution[column + 1 :] -= lower[column + 1 :, column] * solution[column]

        for column in reversed(range(columns)):
            solution[column] /= lower[column, column]
            solution[:column] -= lower[column, :column] * solution[column]

        return np.ascontiguousarray((solution / self.scale).T)


def _influence(
    design: FloatArray, weights: FloatArray, kept: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the influence of each residual on the coefficients, G^-1 w x, [D, P, N], and 1 minus
    the leverage, [D, N]. Zero columns are ignored.
    """
    weighted = design * weights[:, None, :]
    gram = weighted @ design.transpose(0, 2, 1)
    # A unit diagonal for dropped columns makes the matrix non-singular and leaves the other columns
    # unchanged.
    gram += np.eye(gram.shape[1]) * ~kept[:, :, None]
    influence = np.asarray(np.linalg.solve(gram, weighted), dtype=np.float64)

    return influence, 1.0 - np.einsum("dpn,dpn->dn", influence, design)
