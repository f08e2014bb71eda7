"""Words of a card's fields: one file for printed cards, docs and pages."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from ktdeval.cards import card_words
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.knowledge.warning_labels import Label, TradingLabel
from ktdeval.cards.fields.origin.fact_types import DECIDERS
from ktdeval.cards.fields.units import figure_text, unit_word
from ktdeval.cards.fields.words import read_words
from ktdeval.trading.types import PROVENANCES


def test_every_field_label_and_provenance_has_words() -> None:
    declared = [*structs.fields(TradingCard), *structs.fields(ScoringCard)]
    assert {field.encode_name for field in declared} <= read_words().fields.keys()
    assert set(read_words().labels) == {*get_args(Label), *get_args(TradingLabel)}
    assert tuple(card_words()["provenance"]) == PROVENANCES

    kinds = read_words().fields["deciders"].meaning
    assert all(f"`{kind}`" in kinds for kind in DECIDERS)

    for group in ("fields", "labels", "provenance", "failures"):
        for name, words in card_words()[group].items():
            assert all((words["label"], words["meaning"])), name


def parts_of(type_: Any, name: str) -> list[Any]:
    """Types of a field in any struct of a type, or of its values where it is an open object."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return [one.type for one in msgspec.structs.fields(type_) if one.encode_name == name]

    return [part for inner in get_args(type_) for part in parts_of(inner, name)]


@pytest.mark.parametrize("path", list(read_words().fields))
def test_every_path_with_words_is_a_field_of_a_card(path: str) -> None:
    types: list[Any] = [TradingCard, ScoringCard]
    for name in path.split("."):
        types = [part for type_ in types for part in parts_of(type_, name)]

    assert types


@pytest.mark.parametrize(
    ("unit", "word", "text"),
    [
        ("fraction", "%", "12.50"),
        ("fraction of answers", "%", "12.50"),
        ("ratio", "", "0.125"),
        ("count", "", "0.125"),
        ("fen", "fen", "0.1250"),
    ],
)
def test_a_unit_has_one_word_and_one_number_of_decimals(unit: str, word: str, text: str) -> None:
    assert (unit_word(unit), figure_text(unit, 0.125)) == (word, text)
