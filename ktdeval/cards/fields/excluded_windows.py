"""Windows that are excluded from figures over episodes."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.field import TradingField
from ktdeval.cards.fields.recorded_facts import DerivationBasis, TradingFacts
from ktdeval.cards.fields.words import FieldWords


def derive_left_out(basis: DerivationBasis[TradingFacts]) -> dict[str, str] | UnsetType:
    """Return the finished windows that are excluded, and why; unset if there are none."""
    return basis.facts.excluded or UNSET


WORDS = {
    "left_out": FieldWords(
        "excluded windows",
        "",
        "finished windows that are excluded from figures over episodes, and why; absent if there"
        " are none",
        "comparison.md#what-a-pair-is",
    ),
}

LEFT_OUT = TradingField("left_out", derive=derive_left_out, words=WORDS)
