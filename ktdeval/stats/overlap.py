"""Windows that share days: how much their results have in common, and which of them stand apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from ktdeval.stats.metric import MetricValue
from ktdeval.stats.series import defined, undefined

APART = 0.05
"""Windows whose correlation by shared days is no more than this count as apart: one common day in twenty."""

Span = tuple[str, str]
"""First and last day, ISO, both included."""


def shared_days(one: Span, other: Span) -> int:
    """Weekdays that two spans have in common. Public holidays count: trading days of a market need its calendar."""
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return max(0, int(np.busday_count(first, np.datetime64(last, "D") + 1))) if first <= last else 0


def overlap_correlation(spans: Sequence[Span]) -> npt.NDArray[np.float64]:
    """[n, n] correlation of sums over the spans of independent daily terms: `shared days / sqrt(days_i * days_j)`.

    It is the Gram matrix of the spans' day indicators, hence positive semi-definite. Total returns of one policy over windows that
    share days are nearly such sums.
    """
    lengths = [max(1, shared_days(span, span)) for span in spans]
    result = np.eye(len(spans))
    for i, one in enumerate(spans):
        for j in range(i):
            result[i, j] = result[j, i] = shared_days(one, spans[j]) / math.sqrt(lengths[i] * lengths[j])
    return result


def blocks_of(correlation: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """[n] block of each window: windows linked by more than `APART` in common, directly or through others, are one block."""
    labels = np.arange(len(correlation))
    for i in range(len(correlation)):
        for j in np.flatnonzero(correlation[i, :i] > APART):
            labels[labels == labels[i]] = labels[j]
    blocks: npt.NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return blocks


def effective_count(correlation: npt.NDArray[np.float64]) -> float:
    """How many independent windows have a mean as uncertain as that of these: `n**2 / sum of the correlation matrix`."""
    return len(correlation) ** 2 / float(correlation.sum()) if len(correlation) else 0.0


def mean_with_interval(
    values: npt.NDArray[np.float64], correlation: npt.NDArray[np.float64] | None = None, confidence: float = 0.95
) -> MetricValue:
    """Mean over windows with its t interval, widened where windows share days.

    With correlation R of the windows, `var(mean) = s^2 * 1'R1 / n^2`, where `s^2` is the sample variance corrected for what R takes
    from it; degrees of freedom n - 1.

    Args:
        values: [n] finite values, one for each window.
        correlation: [n, n]; independent windows by default.
        confidence: of the interval.

    Returns:
        The mean; `detail` holds `low`, `high`, `se` and `t_p` (two-sided, against zero), each null with a `reason` where it is
        not defined. Undefined without a value.
    """
    n = len(values)
    if n == 0:
        return undefined("no window", 0)
    mean = math.fsum(values) / n
    if n == 1:
        detail = {"low": None, "high": None, "se": None, "t_p": None, "reason": "one window says nothing of other windows"}
        return MetricValue(mean + 0.0, 1, detail=detail)
    total = float(n if correlation is None else correlation.sum())
    share = (n - total / n) / (n - 1)  # expected sample variance, in units of the true one
    if share < 1e-9:
        detail = {"low": None, "high": None, "se": None, "t_p": None, "reason": "the windows are all the same days"}
        return MetricValue(mean + 0.0, n, detail=detail)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1) / share
    error = math.sqrt(variance * total) / n
    half = abs(float(stdtrit(n - 1, (1 - confidence) / 2))) * error
    if error > 0:
        t_p = float(2.0 * stdtr(n - 1, -abs(mean) / error))
    else:
        t_p = 1.0 if mean == 0 else 0.0
    result = defined(mean, n)
    return MetricValue(result.value, n, detail={"low": mean - half + 0.0, "high": mean + half + 0.0, "se": error, "t_p": t_p})
