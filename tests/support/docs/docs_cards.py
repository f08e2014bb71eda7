"""Tables of docs/cards.md: fields of cards, their labels, who decided a step, kinds of deciders."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import fields

from docs_markdown import code, table
from ktdeval.cards.card import Evaluation, ScoringCard, TradingCard
from ktdeval.cards.fields.fact_types import DECIDERS
from ktdeval.cards.fields.words import FieldWords, read_words


def card_fields() -> dict[str, list[str]]:
    """Return the fields of cards by the name in their file, each with the kinds that have it."""
    kinds: dict[str, list[str]] = {}
    for field in fields(Evaluation):  # what all share stands first
        kinds[field.encode_name] = []

    for kind, type_ in (("trading", TradingCard), ("scoring", ScoringCard)):
        for field in fields(type_):
            kinds.setdefault(field.encode_name, []).append(kind)

    return kinds


def fields_table() -> str:
    """Return the table of fields."""
    words = read_words().fields
    rows = []
    for name, kinds in card_fields().items():
        cards = "both" if len(kinds) > 1 else kinds[0]
        rows.append((code(name), cards, _meaning(words[name])))

    return table(("field", "cards", "what it holds"), rows)


def labels_table() -> str:
    """Return the table of labels."""
    rows = [(code(name), _meaning(words)) for name, words in read_words().labels.items()]
    return table(("label", "meaning"), rows)


def decisions_table() -> str:
    """Return the table of who decided a step."""
    words = read_words().provenance
    rows = [(code(name), own.label, _meaning(own)) for name, own in words.items()]
    return table(("decided by", "in tables", "meaning"), rows)


def deciders_table() -> str:
    """Return the table of kinds of deciders."""
    answers: Mapping[bool, str] = {True: "yes", False: "no"}
    rows = []
    for kind, own in DECIDERS.items():
        rows.append((code(kind), own.words, answers[own.looks_up], answers[own.is_ranked]))

    return table(("kind", "who decided", "could look the market up", "ranked"), rows)


def _meaning(words: FieldWords) -> str:
    """Return the meaning with a link to the details."""
    if not words.section:
        return words.meaning
    return f"{words.meaning} ([details]({words.section.removeprefix('cards.md')}))"
