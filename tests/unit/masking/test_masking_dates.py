"""Dates in documents, in the ways and languages in which people write them; and ordinary numbers
that are none.
"""

from __future__ import annotations

import re

import pytest

from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of
from ktdeval.masking.foreign_date_names import _words_of_kind
from support.masking.masking_market import BASE_ROW, MARKET
from support.tables import beside, on_each_row

LENS = Lens(MaskConfig("blinded"), 1, MARKET, BASE_ROW)
MASK = TextMask(LENS, MARKET)
GUARD = identities_of(MARKET, assets=False, dates=True)
TABLES = beside(__file__)
NOTHING = re.compile(r"(?:\[date\]|day_[+-][0-9]+|[\s,.])*")


def masked(text: str) -> str:
    prose = MASK.mask(f"The firm said {text} was fine.", 25)
    assert prose is not None
    return str(LENS.render(prose)).removeprefix("The firm said ").removesuffix(" was fine.")


@pytest.mark.sampled(80)
@pytest.mark.parametrize("text", TABLES["whole"])
def test_nothing_is_left_of_a_date(text: str) -> None:
    assert NOTHING.fullmatch(masked(text)), masked(text)
    assert text not in GUARD.withhold(f"The firm said {text} was fine.")


@on_each_row
def test_the_remaining_text_names_no_day(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("text", TABLES["harmless"])
def test_ordinary_numbers_and_words_stay(text: str) -> None:
    assert masked(text) == text
    assert GUARD.withhold(f"It said: {text}, or so") == f"It said: {text}, or so"


def test_a_full_date_up_to_the_day_becomes_its_day_in_any_language() -> None:
    days = {
        masked(text)
        for text in (
            "5 janvier 2024",
            "5. Januar 2024",
            "5 de enero de 2024",
            "20240105",
            "2024年1月5日",
            "5 января 2024",
        )
    }

    assert days == {str(LENS.day_handle(3))}


def test_words_that_abbreviate_a_day_or_month_elsewhere_are_listed() -> None:
    words = _words_of_kind("abbreviation elsewhere")
    assert {"mar", "ott"} <= words
    assert "january" not in words
