"""Labels of live cards: what a reader must see before any figure."""

from __future__ import annotations

from ktdeval_live.card_types import Label, LiveCard

FEW_DAYS = 20
"""Counted days below which a card says that they are few."""


def labels_of(card: LiveCard) -> list[Label]:
    """Return what a reader must see before any figure."""
    activity = card.results.activity.value
    conditions: dict[Label, bool] = {
        "rehearsal": card.test.kind == "rehearsal",
        "synthetic": card.market.synthetic,
        "not stamped": card.evidence.level != "stamped",
        "gaps": bool(card.days.gaps),
        "inactive": activity is None or activity < card.least_activity,
        "few days": card.days.counted < FEW_DAYS,
    }
    return [label for label, holds in conditions.items() if holds]
