"""A market taken apart, day by day, into what attribution explains of its bars and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ktdeval.api import DAILY_LIMIT_PCT, BoolArray, Fit, FloatArray, MarketSnapshot, fit_factors

FEN = 0.01
CLOSE, OPEN = 0, 1
"""Places of the two returns of a bar, both from the last close before: to the close, and to the open."""


@dataclass(frozen=True)
class Parts:
    """D = T - 1 days of N assets (day d is row d + 1 of the snapshot), with P = 1 + 9 explaining columns.

    Attributes:
        fit: the regressions of close-to-close returns on an intercept and nine styles.
        coefficients: [2, D, P] common and style returns a unit of exposure, to the close and to the open.
        residuals: [2, D, N] what these leave of each asset's two returns; 0 where it has none.
        reach_up, reach_down: [D, N] how far high and low lie beyond open and close, as fractions of these.
        bound: [D, N] how far from its reference any price may lie, as a fraction: the board's limit, or what the source's own bar
            reached on a day without limit (such as a new listing's first).
    """

    fit: Fit
    coefficients: FloatArray
    residuals: FloatArray
    reach_up: FloatArray
    reach_down: FloatArray
    bound: FloatArray

    @property
    def has_return(self) -> BoolArray:
        """[D, N] assets with a bar that day and a close before it."""
        return self.fit.has_return


def take_apart(snapshot: MarketSnapshot) -> Parts:
    """Explain every day's returns, to the close and to the open, by the market and the nine styles.

    Nothing of a later day enters: exposures are those known the day before, and each day has a regression of its own.

    Args:
        snapshot: a market of at least two days.
    """
    fit = fit_factors(snapshot, 1, len(snapshot.days) - 1)
    before = pd.DataFrame(snapshot.adjusted_close).ffill().to_numpy()[:-1]
    to_open = np.where(fit.has_return, snapshot.adjusted_open[1:] / before - 1.0, 0.0)
    to_open = np.where(np.isfinite(to_open), to_open, 0.0)
    opening = _coefficients(fit, to_open)
    design = fit.exposures.design
    open_residuals = np.where(fit.has_return, to_open - (opening[:, None, :] @ design)[:, 0, :], 0.0)
    return Parts(
        fit=fit,
        coefficients=np.stack([np.concatenate([fit.common[:, None], fit.style], axis=1), opening]),
        residuals=np.stack([np.where(fit.has_return, fit.residuals, 0.0), open_residuals]),
        reach_up=_reach(snapshot.high[1:] / np.maximum(snapshot.open[1:], snapshot.close[1:]) - 1.0),
        reach_down=_reach(1.0 - snapshot.low[1:] / np.minimum(snapshot.open[1:], snapshot.close[1:])),
        bound=_bounds(snapshot, before / snapshot.factor[1:]),
    )


def _coefficients(fit: Fit, values: FloatArray) -> FloatArray:
    """[D, P] weighted least squares of [D, N] values on the columns and weights of a fit, with its rule for days of few names."""
    design, weights = fit.exposures.design, fit.weights
    found = np.zeros(design.shape[:2])
    for day in range(len(design)):
        found[day] = regress(design[day], weights[day], values[day][None, :])[0]
    return found


def regress(design: FloatArray, weights: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted least squares of one day.

    Args:
        design: [P, N] columns, the first an intercept.
        weights: [N] regression weights, 0 for assets that take no part.
        values: [S, N] series to explain, each by itself.

    Returns:
        [S, P] coefficients; where the assets are no more than the columns only that of the intercept, without any asset 0.
    """
    used = np.flatnonzero(weights)
    found = np.zeros((len(values), len(design)))
    if not len(used):
        return found
    root = np.sqrt(weights[used])
    columns, targets = (design[:, used] * root).T, (values[:, used] * root).T
    solution, _, rank, _ = np.linalg.lstsq(columns, targets, rcond=1e-9)
    if len(used) <= rank:
        found[:, 0] = columns[:, 0] @ targets / (columns[:, 0] @ columns[:, 0])
    else:
        found[:] = solution.T
    return found


def _reach(fractions: FloatArray) -> FloatArray:
    reach: FloatArray = np.maximum(np.where(np.isfinite(fractions), fractions, 0.0), 0.0)
    return reach


def _bounds(snapshot: MarketSnapshot, reference: FloatArray) -> FloatArray:
    limit = np.array([DAILY_LIMIT_PCT[board] for board in snapshot.boards]) / 100.0
    prices = np.stack([snapshot.open[1:], snapshot.high[1:], snapshot.low[1:], snapshot.close[1:]])
    reached = np.abs(prices / reference - 1.0)
    farthest = np.where(np.isfinite(reached), reached, 0.0).max(axis=0)
    # An exchange rounds a limit price to the nearest fen, so a fen beyond the limit is still the limit.
    bounds: FloatArray = np.where(farthest > limit + FEN / reference, farthest, limit)
    return bounds
