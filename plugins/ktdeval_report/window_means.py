"""Means over windows, with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ktdeval.stats import MetricValue, mean_with_interval, overlap_correlation
from ktdeval.values import JsonValue
from ktdeval_report.card_figures import median
from ktdeval_report.inputs import ReportedCard, is_never_somewhere, known_values


@dataclass(frozen=True, slots=True)
class WindowMean:
    """A mean over windows. `low` and `high` are the ends of its 95 % interval, or None with a
    `reason`.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @classmethod
    def of(cls, mean: MetricValue) -> WindowMean:
        """Return the mean that `mean_with_interval` computed."""
        detail: Mapping[str, JsonValue] = {}
        if isinstance(mean.detail, Mapping):
            detail = mean.detail

        low = _interval_end(detail.get("low"))
        high = _interval_end(detail.get("high"))
        reason = mean.reason or str(detail.get("reason") or "")
        return cls(mean.value, low, high, reason)


def _interval_end(value: JsonValue) -> float | None:
    """Return one end of an interval; None if the interval is missing."""
    if isinstance(value, float):
        return value

    return None


def over_windows(
    evaluation: ReportedCard, name: str, less: Callable[[str], float | None] = lambda _: 0.0
) -> WindowMean:
    """Return the mean over windows of a metric's median over seeds. If `less` is given, the figure
    that it returns for a window is subtracted first.
    """
    if is_never_somewhere(evaluation.card.pooled, name):
        return WindowMean(None, reason="an episode never reaches it")

    values = []
    days = []
    for window in evaluation.pooled_windows:
        episodes = evaluation.episodes_of(window)
        own = median(known_values(episodes, name))
        other = less(window)

        if own is not None and other is not None:
            values.append(own - other)
            days.append((episodes[0].first_day, episodes[0].last_day))

    return WindowMean.of(mean_with_interval(np.array(values), overlap_correlation(days)))
