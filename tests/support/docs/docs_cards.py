"""Fields of cards and the kinds that have them, meanings with their links, kinds of deciders."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import fields

from ktdeval.cards.card import Evaluation, ScoringCard, TradingCard
from ktdeval.cards.fields.origin.fact_types import COULD_HAVE_BROUGHT, COULD_LOOK_UP, DECIDERS
from ktdeval.cards.fields.words import FieldWords
from support.docs.docs_markdown import code, plain_text, table


def card_fields() -> dict[str, list[str]]:
    """Return the fields of cards by the name in their file, each with the kinds that have it."""
    kinds: dict[str, list[str]] = {}
    for field in fields(Evaluation):  # what all share stands first
        kinds[field.encode_name] = []

    for kind, type_ in (("trading", TradingCard), ("scoring", ScoringCard)):
        for field in fields(type_):
            kinds.setdefault(field.encode_name, []).append(kind)

    return kinds


def deciders_table() -> str:
    """Return the table of kinds of deciders."""
    answers: Mapping[bool, str] = {True: "yes", False: "no"}
    rows = []
    for kind, own in DECIDERS.items():
        rows.append((code(kind), own.words, answers[own.looks_up], own.brings, own.ranked))

    heads = ("kind", "who decided", COULD_LOOK_UP, COULD_HAVE_BROUGHT, "ranked as blinded")
    return table(heads, rows)


def meaning(words: FieldWords) -> str:
    """Return the meaning of a field or label, with a link from docs/reference to the details."""
    if not words.section:
        return plain_text(words.meaning)
    return f"{plain_text(words.meaning)} ([details](../{words.section}))"
