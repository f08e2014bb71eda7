"""Weights of a portfolio that is rebuilt at every close from a BUY, SELL or HOLD for each asset.

    maximise  mean'w - w'covariance w    0 <= w_i <= 1 of BUY, -1 <= w_i <= 0 of SELL, w_i = 0 of HOLD
    then      w / sum|w|      in millionths; equal sides stay equal

The optimisation has no constraint on the sum of the weights. They are scaled afterwards so that
sum|w| = 1, or all are zero if every expected return is against the chosen side.

The mean and the covariance are estimated from simple daily returns and shrunk by `SHRINKAGE`: each
mean towards the grand mean, the covariance (ddof 1) towards the average variance times the identity
matrix. The estimates cover all assets shown, including those with HOLD, over the closes from the
seventh before the first decision onwards. Days on which any of these assets has no close are
omitted. With fewer than `MIN_PRICES` closes, the chosen sides are equally weighted.

Source: the public code felis33/INVESTOR-BENCH (portfolio_tools.py, portfolio.py), which the paper
does not describe. The public code rounds solutions to 1e-4 before scaling them, and holds nothing
if there are fewer closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.harness import Target
from ktdeval.market import FloatArray, MarketView
from ktdeval.trading import MarketRules, target_steps

WeightRule = Literal["optimised", "equal"]
IntArray = npt.NDArray[np.int64]

# Both from portfolio_tools.py of felis33/INVESTOR-BENCH
SHRINKAGE = 0.1
MIN_PRICES = 7
_BEFORE = 7  # number of closes before the first decision
_PARTS = 1_000_000  # weights are whole millionths, equal on every machine
_NEGLIGIBLE = 1e-7  # smaller solutions are treated as 0
# fraction of each weight that is ordered, so that rounding to a cent never leaves too little cash
# for a buy
_SPARE = 1 - 1e-6


def moments(closes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shrunk [N] means and [N, N] covariance of the simple returns of `closes`, which is
    [T, N] without gaps, T >= 3.
    """
    returns = closes[1:] / closes[:-1] - 1.0
    means = returns.mean(axis=0)
    sample = np.atleast_2d(np.cov(returns, rowvar=False))
    target = np.eye(len(means)) * (np.trace(sample) / len(means))

    shrunk_means = (1 - SHRINKAGE) * means + SHRINKAGE * means.mean()
    shrunk_covariance = (1 - SHRINKAGE) * sample + SHRINKAGE * target
    return shrunk_means, shrunk_covariance


def box_optimum(means: FloatArray, covariance: FloatArray, sides: IntArray) -> FloatArray:
    """Return the [N] weights w that maximise means'w - w'covariance w within the bounds set by
    `sides`, [N] of +1, -1 or 0. `covariance` must be positive definite, or negligible against the
    means.

    With u = |w| this is a bounded least-squares problem, |R u - b|^2, where R'R = covariance and 2
    R'b = means, each with the signs of the sides. An active-set method solves it exactly.
    """
    from scipy.optimize import lsq_linear  # noqa: PLC0415 - only where weights are optimised

    chosen = np.flatnonzero(sides)
    weights = np.zeros(len(sides))
    if not len(chosen):
        return weights

    signs = sides[chosen]
    gains = signs * means[chosen]
    risks = np.outer(signs, signs) * covariance[np.ix_(chosen, chosen)]
    size = float(np.trace(risks)) / len(chosen)

    if size <= 1e-12 * np.abs(gains).max():
        weights[chosen] = signs * (gains > 0)
        return weights

    root = np.linalg.cholesky(risks / size)
    targets = np.linalg.solve(root, gains / size) / 2.0
    solution = lsq_linear(
        root.T, targets, (0.0, 1.0), method="bvls", tol=1e-15, max_iter=100 * len(chosen)
    )
    weights[chosen] = signs * np.clip(solution.x, 0.0, 1.0)

    return weights


def scale_weights(raw: FloatArray) -> FloatArray:
    """Return [N] weights that are proportional to `raw` and whose absolute values sum to 1 in whole
    millionths.

    The largest weight takes the rounding remainder. If several weights are the largest, they share
    the remainder equally, and anything less than a millionth each stays in cash. All weights are
    zero if all of `raw` is negligible.
    """
    sizes = np.where(np.abs(raw) < _NEGLIGIBLE, 0.0, np.abs(raw))
    if not sizes.any():
        return sizes

    parts = np.rint(sizes / sizes.sum() * _PARTS).astype(np.int64)
    largest = parts == parts.max()
    parts[largest] += (_PARTS - parts.sum()) // largest.sum()

    return np.where(parts > 0, np.sign(raw) * parts / _PARTS, 0.0)


def weights(closes: FloatArray, sides: IntArray, rule: WeightRule) -> FloatArray:
    """Return the [N] weights, as fractions of NAV, for `sides` ([N] of +1, -1 or 0) after the [T,
    N] `closes`.

    Days on which any asset has no close are omitted.
    """
    known = closes[np.isfinite(closes).all(axis=1)]
    # With fewer closes, the public code holds nothing.
    if rule == "equal" or len(known) < MIN_PRICES:
        return scale_weights(sides.astype(np.float64))
    return scale_weights(box_optimum(*moments(known), sides))


def first_used(shared: IntArray, first_decision: int) -> int:
    """Return the position in `shared`, the rows on which all assets have a close, of the seventh
    such row before the first decision; 0 if there are fewer. The decision's own row may lack one.
    """
    earlier = int(np.searchsorted(shared, first_decision, side="left"))
    return max(0, earlier - _BEFORE)


@dataclass(frozen=True)
class PortfolioRebuild:
    """Target positions for the decisions at one close. Implements `ktdeval.harness.Rebuild`."""

    view: MarketView
    step: int  #: step number: days since the first decision
    assets: Sequence[int]  #: columns of the assets shown
    nav_minor: int  #: NAV at this close
    rules: MarketRules
    rule: WeightRule
    #: price as known under the mask, given an asset, a close and a row
    known: Callable[[int, float, int], float] = lambda _asset, close, _row: close
    shown: MarketView | None = None  #: market rounded to the mask's digits, if the mask rounds

    def __call__(self, sides: Mapping[int, int]) -> Mapping[int, Target]:
        """Return a target for each asset that has a close, given the chosen sides."""
        columns = sorted(self.assets)  # not the order shown, so that masks do not affect rounding
        closes = self._shared_closes(columns)
        decided = np.array([sides.get(column, 0) for column in columns])
        portfolio = weights(closes, decided, self.rule)
        targets: dict[int, Target] = {}

        for column, weight in zip(columns, portfolio.tolist(), strict=True):
            close = float(self.view.close[self.view.day, column])
            if np.isfinite(close):
                targets[column] = self._target(column, weight, close)

        return targets

    def _shared_closes(self, columns: Sequence[int]) -> FloatArray:
        """Return the [T, N] adjusted closes on days when all assets have a close, starting from the
        seventh such day before the first decision.
        """
        closes = (self.shown or self.view).adjusted_close[:, columns]
        shared = np.flatnonzero(np.isfinite(closes).all(axis=1))
        return closes[shared[first_used(shared, self.view.day - self.step) :]]

    def _target(self, asset: int, weight: float, close: float) -> Target:
        known = self.known(asset, close, self.view.day)
        price_ticks = int(np.floor(known * self.rules.scales[asset].ticks_per_unit + 0.5))
        ordered = round(weight * _SPARE, 9)
        steps = target_steps(ordered, self.nav_minor, price_ticks, self.rules.terms[asset])
        return Target(ordered, steps)
