"""Figures of result cards for the first sentence of a page."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from ktdeval.cards import ScoringCard, TradingCard, count, episode_excess
from ktdeval.stats import estimate_mean, overlap_correlation
from ktdeval_pages.sentences import PageFigure, figure_sentence, systems_sentence

_ALPHA = 0.05


def excess_figure(card: TradingCard, systems: int = 1) -> PageFigure:
    """Return the mean over windows of a card's excess return over the benchmark, each window's as
    the median over its seeds; of its total return in a market without a benchmark.

    The t interval is widened where windows share days, and by Bonferroni's rule so that the
    intervals of all `systems` hold together.
    """
    has_benchmark = card.snapshot.benchmark != "none"
    values: dict[str, list[float]] = {}
    spans: dict[str, tuple[str, str]] = {}
    for episode in card.pooled:
        value = episode_excess(card, episode)
        if not has_benchmark and "total_return" in episode.metrics:
            value = episode.metrics["total_return"].value
        if value is not None:
            values.setdefault(episode.window, []).append(value)
            spans[episode.window] = (episode.first_day, episode.last_day)

    mean = estimate_mean(
        np.array([median(found) for found in values.values()]),
        overlap_correlation(list(spans.values())),
        1.0 - _ALPHA / systems,
    )
    return PageFigure(
        value=mean.value,
        low=mean.low,
        high=mean.high,
        per="a window on average" if mean.n > 1 else "in one window",
        over=f"over {count(mean.n, 'window')}",
        against="the benchmark" if has_benchmark else "",
        level="95 % interval" if systems == 1 else f"95 % interval for all {systems} together",
        reason=mean.reason or "",
    )


def card_sentence(card: TradingCard) -> str:
    """Return the first sentence of a page of one card."""
    return figure_sentence(excess_figure(card))


def cards_sentence(cards: Sequence[tuple[str, TradingCard | ScoringCard]]) -> str:
    """Return the first sentence of a page of several cards, each with the name that the page gives
    it; empty without a trading card, since scores are compared sample by sample.
    """
    trading = [(name, card) for name, card in cards if isinstance(card, TradingCard)]
    if not trading:
        return ""
    return systems_sentence([(name, excess_figure(card, len(trading))) for name, card in trading])
