"""Notes below tables of papers: the intervals of ratios at a year's pace, which papers print bare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import (
    OVER_WINDOWS,
    FigureInterval,
    TradingCard,
    figure_interval,
    metric_word,
    shown_metrics,
)
from ktdeval_compare.pairs.compared_cards import EntrantCard

_A_RATIO = "annualised ratio"


def ratio_notes(entrants: Sequence[EntrantCard], metrics: Sequence[str]) -> Iterator[str]:
    """Yield a note for each ratio at a year's pace: its 95 % interval on each card that shows it, or
    why there is none. A Sharpe ratio of two windows can be anything.
    """
    for name in metrics:
        words = []
        for entrant in entrants:
            if _has_ratio(entrant.card, name):
                interval = _interval_words(figure_interval(entrant.card, name))
                words.append(f"{entrant.label} {interval}")

        if words:
            yield f"{metric_word(name)}, 95 % interval: {', '.join(words)}"


def _has_ratio(card: TradingCard, name: str) -> bool:
    """Return whether a card shows a metric that is a ratio at a year's pace."""
    line = shown_metrics(card).get(name)
    return line is not None and line.value is not None and line.unit.startswith(_A_RATIO)


def _interval_words(interval: FigureInterval) -> str:
    if interval.low is None or interval.high is None:
        return f"n/a ({interval.reason})"

    of = "over days"
    if interval.over == OVER_WINDOWS:
        of = "of the mean over windows"
    return f"{interval.low:+.2f} to {interval.high:+.2f} ({of})"
