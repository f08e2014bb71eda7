"""Intervals of a card's figures, for tables that print the figures of several cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from msgspec import UNSET

from ktdeval.cards.card import TradingCard
from ktdeval.cards.short_records import shown_metrics
from ktdeval.stats.factorial_effects import mean_with_interval, overlap_correlation
from ktdeval.stats.metric import MetricValue

OVER_WINDOWS = "windows"
OVER_DAYS = "days"


@dataclass(frozen=True, slots=True)
class FigureInterval:
    """A 95 % interval of a card's figure; without ends it has a reason."""

    over: str  #: what it generalises to: `windows`, or `days` of the only episode
    low: float | None = None
    high: float | None = None
    reason: str = ""


def figure_interval(card: TradingCard, name: str) -> FigureInterval:
    """Return the 95 % interval of a metric as shown.

    Over several windows, it is the t interval of the mean of the windows' medians over seeds,
    widened where windows share days (`mean_with_interval`). With one episode, it is the card's own
    interval over days. Several seeds of one window have none: each seed has its own.
    """
    line = shown_metrics(card).get(name)
    if line is None or line.value is None:
        reason = "not on the card" if line is None else line.reason or "not defined"
        return FigureInterval(OVER_WINDOWS, reason=reason)

    windows = dict.fromkeys(episode.window for episode in card.pooled)
    if len(windows) > 1:
        return _over_windows(card, name)
    if line.interval is UNSET:
        return FigureInterval(OVER_DAYS, reason="one window of several seeds, each with its own")

    interval = line.interval
    return FigureInterval(OVER_DAYS, interval.low, interval.high, interval.reason or "")


def _over_windows(card: TradingCard, name: str) -> FigureInterval:
    """Return the interval over windows. A window whose seeds lack the figure does not count."""
    values: dict[str, list[float]] = {}
    spans: dict[str, tuple[str, str]] = {}
    for episode in card.pooled:
        value = episode.metrics[name].value
        if value is not None:
            values.setdefault(episode.window, []).append(value)
            spans[episode.window] = (episode.first_day, episode.last_day)

    medians = np.array([median(found) for found in values.values()])
    correlation = overlap_correlation(list(spans.values()))
    return _ends_of(mean_with_interval(medians, correlation))


def _ends_of(mean: MetricValue) -> FigureInterval:
    detail = mean.detail if isinstance(mean.detail, Mapping) else {}
    low, high = detail.get("low"), detail.get("high")
    if isinstance(low, float) and isinstance(high, float):
        return FigureInterval(OVER_WINDOWS, low, high)
    reason = mean.reason or str(detail.get("reason") or "no interval")
    return FigureInterval(OVER_WINDOWS, reason=reason)
