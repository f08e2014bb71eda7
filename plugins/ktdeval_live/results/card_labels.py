"""Labels of live cards: warnings that a reader must see before any figure."""

from __future__ import annotations

from ktdeval.cards import UNDEFINED, percent
from ktdeval_live.results.card_types import Label, LiveCard, LiveInterval, ResultPart
from ktdeval_live.results.missing_decision_bounds import MAX_WIDTH, are_too_wide

FEW_DAYS = 20
"""Number of counted days below which a card is labelled as having few days."""


def labels_of(card: LiveCard) -> list[Label]:
    """Return the labels of a card."""
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
    """Return whether, because of gaps, the bounds are missing or too wide to be meaningful."""
    low = results.low.value
    high = results.high.value
    if low is None or high is None:
        return results.held.value is not None
    return are_too_wide(low, high)


def interval_text(interval: LiveInterval, digits: int) -> str:
    """Return the ends of an interval as text, with a dash for an end that does not exist yet."""
    ends = []
    for value in (interval.low, interval.high):
        ends.append(UNDEFINED if value is None else f"{value:+.{digits}f}")
    return " … ".join(ends)


def wide_words(results: ResultPart) -> str:
    """Return text on bounds that are too wide because of gaps, and on what this means."""
    ends = []
    for figure in (results.low, results.high):
        ends.append("no end" if figure.value is None else percent(figure.value, "+.1f"))
    return (
        f"bounds of its gaps from {ends[0]} to {ends[1]}, more than {100 * MAX_WIDTH:g} points: "
        "too wide to bound the effect of the gaps"
    )
