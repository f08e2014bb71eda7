"""Which agents are tied with the best? The model confidence set of Hansen, Lunde and Nason (2011), through `arch`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from arch.bootstrap import MCS

MINIMUM_DAYS = 30
"""Fewer days than this can't be resampled in blocks."""

_NO_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class ConfidenceSet:
    """The agents that can't be told from the best.

    Attributes:
        p: [k] the agent's p-value: it belongs to every set of level below it. None where there is no set.
        members: [k] True for agents tied with the best at the level asked for.
        days: observations.
        block: mean block of the bootstrap, in days.
        reason: why there is no set.
    """

    p: tuple[float, ...] | None
    members: tuple[bool, ...] | None
    days: int
    block: int
    reason: str | None = None


def model_confidence_set(returns: npt.NDArray[np.float64], alpha: float = 0.05, draws: int = 1000, seed: int = 0) -> ConfidenceSet:
    """The set that holds the agent of the highest mean daily return with probability `1 - alpha`.

    The range statistic over a stationary bootstrap whose mean block is `n**(1/3)`, at least 3 days.

    Args:
        returns: [days, agents] daily returns over the same days.
        alpha: level.
        draws: bootstrap samples.
        seed: of the bootstrap.
    """
    days, agents = returns.shape
    block = max(3, round(math.cbrt(days)))
    if agents < 2:
        return ConfidenceSet(None, None, days, block, "one agent is no comparison")
    if days < MINIMUM_DAYS:
        return ConfidenceSet(None, None, days, block, f"fewer than {MINIMUM_DAYS} days")
    if not np.isfinite(returns).all():
        return ConfidenceSet(None, None, days, block, "a return is missing")
    # Agents with the same returns are one agent under several names: no test can divide by their difference.
    distinct, twin = np.unique(returns, axis=1, return_inverse=True)
    twin = twin.reshape(-1)
    if distinct.shape[1] == 1:
        return ConfidenceSet((1.0,) * agents, (True,) * agents, days, block)
    spread = (distinct[:, :, None] - distinct[:, None, :]).std(axis=0)
    if float((spread + np.eye(len(spread))).min()) < _NO_VARIANCE:
        return ConfidenceSet(None, None, days, block, "two agents differ by the same amount every day")
    test = MCS(-distinct, size=alpha, reps=draws, block_size=block, method="R", bootstrap="stationary", seed=seed)
    test.compute()
    found = test.pvalues["Pvalue"]
    p = tuple(float(found.loc[column]) for column in twin)
    return ConfidenceSet(p, tuple(value > alpha for value in p), days, block)
