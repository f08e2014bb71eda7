"""Bounds for the slope of one bounded quantity on another, without assumptions on their distribution.

Days have values s, weights w >= 0 and a reach a with |s| <= a, where w and a are known before s. A
slope m is possible if a day's s exceeds m * w only by chance: given the days before, the mean of s
is at most m * w. Whoever bets a fraction c of the largest stake against that on each day has

    K(m) = product over days of (1 + c * (s - m * w) / (a + |m| * w))

which is never negative and is expected not to grow, so that it exceeds 1 / alpha with probability
at most alpha (Ville 1939). Slopes below the lower bound are those at which a mixture over `_STAKES`
exceeds it (Waudby-Smith and Ramdas 2024, Journal of the Royal Statistical Society B 86, section 4).
This holds for any number of days, for skewed values, and where a day depends on the days before.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

_STAKES = np.array([1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 15 / 16])
_HALVINGS = 50  # of the interval from -1 to 1: to 2e-15


def lower_bound(values: Series, weights: Series, reach: Series, level: float) -> float:
    """Return the lower bound of a slope within -1 … 1, at a one-sided level. Shape of the inputs:
    [days]. -1 if the days exclude nothing.
    """
    wanted = -math.log(1.0 - level)
    low, high = -1.0, 1.0
    if _log_wealth(values, weights, reach, low) < wanted:
        return low

    # The wealth falls as the slope rises, so the slopes that are excluded lie below one point.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if _log_wealth(values, weights, reach, middle) >= wanted:
            low = middle
        else:
            high = middle

    return low


def betting_interval(
    values: Series, weights: Series, reach: Series, level: float = 0.95
) -> tuple[float, float]:
    """Return the two-sided interval of a slope within -1 … 1: both one-sided bounds at half the
    error.
    """
    one_sided = (1.0 + level) / 2.0
    low = lower_bound(values, weights, reach, one_sided)
    high = -lower_bound(-values, weights, reach, one_sided)
    return low, high


def _log_wealth(values: Series, weights: Series, reach: Series, slope: float) -> float:
    """Return the logarithm of the wealth of a mixture of bets that the slope is larger."""
    gains = (values - slope * weights) / (reach + abs(slope) * weights)
    logs = np.log1p(_STAKES[:, None] * gains).sum(axis=1)
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).mean()))
