"""Spellings and codings of identities in a model's own words: which come back to it, and which are
withheld.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.masking import identities_of
from support.masking.masking_market import MARKET
from support.tables import beside

TABLES = beside(__file__)
INDEX = identities_of(
    replace(MARKET, names=("贵州茅台", *MARKET.names[1:])), assets=True, dates=True
)


@pytest.mark.parametrize("spelled", TABLES["withheld"])
def test_a_spelling_of_an_identity_is_withheld(spelled: str) -> None:
    assert INDEX.withhold(f"This is {spelled}, I think.") == "This is [withheld], I think."


@pytest.mark.parametrize("coded", TABLES["not_withheld"])
def test_a_coding_of_a_whole_text_is_the_limit(coded: str) -> None:
    assert INDEX.withhold(f"This is {coded}, I think.") == f"This is {coded}, I think."


def test_the_docs_name_the_limit_with_the_count(repository: Path) -> None:
    caught = len(TABLES["withheld"])
    all_ = len(TABLES["withheld"]) + len(TABLES["not_withheld"])

    assert f"{caught} of {all_} spellings and codings" in (repository / "docs/masks.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    "text",
    [
        "one of six, two or three",
        "I sold 5 or 6, so I hold 1",
        "SOLID one two",
        "一二三四五六万元",
        "six zero zero",
        "Oil lobby",
    ],
)
def test_words_that_are_not_six_digits_stay(text: str) -> None:
    assert INDEX.withhold(text) == text
