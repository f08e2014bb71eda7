"""Labels of live cards: warnings that a reader must see before any figure."""

from __future__ import annotations

from ktdeval.cards import UNDEFINED, percent
from ktdeval_live.results.card_types import Label, LiveCard, LiveInterval, ResultPart
from ktdeval_live.results.missing_decision_bounds import MAX_WIDTH, are_too_wide

FEW_DAYS = 20
"""Number of counted days below which a card is labelled as having few days."""


def labels_of(card: LiveCard) -> list[Label]:
    """Return a card's labels, which a reader must see before any figure."""
    activity = card.results.activity.value
    conditions: dict[Label, bool] = {
        "rehearsal": card.test.kind == "rehearsal",
        "synthetic": card.market.synthetic,
        "not stamped": card.evidence.level_if_trusted != "stamped",
        "own authority": card.evidence.level_if_trusted == "stamped",
        "gaps": bool(card.days.gaps),
        "wide bounds": has_wide_bounds(card.results),
        "inactive": activity is None or activity < card.least_activity,
        "few days": card.days.counted < FEW_DAYS,
    }
    return [label for label, holds in conditions.items() if holds]


def has_wide_bounds(results: ResultPart) -> bool:
    """Return whether the bounds of gaps are missing or too wide to be meaningful."""
    low = results.low.value
    high = results.high.value
    if low is None or high is None:
        return results.held.value is not None
    return are_too_wide(low, high)


def interval_text(interval: LiveInterval) -> str:
    """Return the bounds of an interval as text; a dash for a bound that does not exist yet."""
    ends = []
    for value in (interval.low, interval.high):
        ends.append(UNDEFINED if value is None else f"{value:+.1f}")
    return " … ".join(ends)


def wide_words(results: ResultPart) -> str:
    """Return text on the bounds of gaps that are too wide, and what this means."""
    ends = []
    for figure in (results.low, results.high):
        ends.append("no end" if figure.value is None else percent(figure.value, "+.1f"))
    return (
        f"bounds of its gaps from {ends[0]} to {ends[1]}, more than {100 * MAX_WIDTH:g} points: "
        "too wide to bound the effect of the gaps"
    )
