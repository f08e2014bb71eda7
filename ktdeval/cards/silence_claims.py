"""What a card says where its model decided or traded nothing: why, and where to look."""

from __future__ import annotations

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.words import read_words
from ktdeval.cards.table_types import count, tally

_WHERE = "`ktdeval view RUN` shows each step."


def silence_claim(card: TradingCard | ScoringCard) -> str:
    """Return the sentences; empty where something was decided and traded."""
    coverage = card.coverage
    if coverage.is_undecided:
        failures: dict[str, int] = {}
        for kind, times in card.failures.items():
            words = read_words().failures.get(kind)
            failures[kind if words is None else words.label] = times

        steps = "answer" if isinstance(card, ScoringCard) else "step"
        return f"No decision in {count(coverage.steps, steps)}: {tally(failures)}. {_WHERE}"

    if isinstance(card, ScoringCard) or "never traded" not in card.labels:
        return ""

    orders = card.orders
    if not orders.submitted:
        return f"No trade: no order in {count(coverage.steps_decided, 'decision')}. {_WHERE}"

    return f"No trade of {count(orders.submitted, 'order')}: {tally(orders.rules)}. {_WHERE}"
