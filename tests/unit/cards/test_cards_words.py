"""Words of a card's fields: one file for docs and pages, made from the modules of the fields."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from ktdeval.cards import card_words
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.units import figure_text, unit_word
from ktdeval.cards.fields.warning_labels import LABEL_WORDS, Label, TradingLabel
from ktdeval.cards.schema import DOCS_PAGE
from ktdeval.cards.words_file import (
    WORDS_FILE,
    card_fields,
    field_words,
    with_tables,
    words_text,
)
from ktdeval.trading.types import PROVENANCES


def test_the_file_of_words_and_the_docs_are_current() -> None:
    """`python -m ktdeval.cards.schema` writes them."""
    assert WORDS_FILE.read_text(encoding="utf-8") == words_text()
    page = DOCS_PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page


def test_every_field_label_and_provenance_has_words() -> None:
    assert card_fields().keys() <= field_words().keys()
    assert set(LABEL_WORDS) == {*get_args(Label), *get_args(TradingLabel)}
    assert tuple(card_words()["provenance"]) == PROVENANCES

    for group in ("fields", "labels", "provenance", "failures"):
        for name, words in card_words()[group].items():
            assert all((words["label"], words["meaning"])), name


def parts_of(type_: Any, name: str) -> list[Any]:
    """Types of a field in any struct of a type, or of its values where it is an open object."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return [one.type for one in msgspec.structs.fields(type_) if one.encode_name == name]

    return [part for inner in get_args(type_) for part in parts_of(inner, name)]


@pytest.mark.parametrize("path", list(field_words()))
def test_every_path_with_words_is_a_field_of_a_card(path: str) -> None:
    types: list[Any] = [TradingCard, ScoringCard]
    for name in path.split("."):
        types = [part for type_ in types for part in parts_of(type_, name)]

    assert types


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table fields"):
        with_tables("# A page")


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
