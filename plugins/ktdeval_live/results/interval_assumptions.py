"""Shape of daily differences: how far they deviate from the assumptions behind the intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ktdeval.market import FloatArray
from ktdeval_live.results.card_types import Excess, LiveFigure

FEWEST = 20
"""Number of days below which no shape statistics are given."""
MAX_SKEWNESS = 1.0
MAX_CORRELATION = 0.1
"""Absolute values up to which the coverage of the intervals was measured (docs/uncertainty.md)."""

_TOO_FEW = f"fewer than {FEWEST} days"
_NO_SPREAD = "all days are equal"


def skewness(values: FloatArray) -> LiveFigure:
    """Return the skewness of [T] values: the third central moment divided by the cube of the
    standard deviation, both with divisor T.
    """
    if len(values) < FEWEST:
        return LiveFigure(value=None, reason=_TOO_FEW)

    deviations = values - values.mean()
    spread = _find_deviation(values, deviations)
    if spread == 0.0:
        return LiveFigure(value=None, reason=_NO_SPREAD)
    return LiveFigure(value=float((deviations**3).mean()) / spread**3)


def autocorrelation(values: FloatArray) -> LiveFigure:
    """Return the lag-1 autocorrelation of [T] values: the sum of products of adjacent deviations
    divided by the sum of squared deviations.
    """
    if len(values) < FEWEST:
        return LiveFigure(value=None, reason=_TOO_FEW)

    deviations = values - values.mean()
    if _find_deviation(values, deviations) == 0.0:
        return LiveFigure(value=None, reason=_NO_SPREAD)
    products = float((deviations[1:] * deviations[:-1]).sum())
    return LiveFigure(value=products / float((deviations**2).sum()))


def _find_deviation(values: FloatArray, deviations: FloatArray) -> float:
    """Return the standard deviation, which is exactly 0 for equal values: rounding may make their
    mean differ in the last bits.
    """
    if np.ptp(values) == 0.0:
        return 0.0
    return math.sqrt(float((deviations**2).mean()))


def doubts(name: str, excess: Excess) -> Iterator[str]:
    """Yield reasons why the intervals for an excess return may be too short, one sentence each."""
    skew = excess.skewness.value
    if skew is not None and abs(skew) > MAX_SKEWNESS:
        yield (
            f"{name}: the skewness of the days is {skew:+.1f}, beyond \u00b1{MAX_SKEWNESS:g}: "
            "the intervals may cover less than stated."
        )

    same = excess.autocorrelation.value
    days = excess.symmetric.n
    if same is not None and days and same > MAX_CORRELATION + 2.0 / math.sqrt(days):
        yield (
            f"{name}: each day has a correlation of {same:+.2f} with the day before: the "
            "intervals may cover less than stated."
        )
