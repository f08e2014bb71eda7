"""Dates in documents, in the ways and languages in which people write them; and ordinary numbers
that are none.
"""

from __future__ import annotations

import re

import pytest

from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of
from ktdeval.masking.dates.foreign_date_names import _words_of_kind, latin_names
from ktdeval.testing import on_each_row
from support.masking.masking_market import BASE_ROW, MARKET
from support.tables import beside

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


@on_each_row(
    "text, shown",
    ("le 24 septembre 2024", "le [date]"),
    ("24 сентября 2024 г.", "[date] г."),
    ("上周三", "上[date]"),
    ("im März", "im [date]"),
    ("en enero", "en [date]"),
    ("en mayo", "en [date]"),
    ("in juli 2024", "in [date]"),
    ("au mois d'août", "au mois d'[date]"),
    ("the 24th of September", "the [date]"),
    ("mid-September", "mid-[date]"),
    ("late Sept", "late [date]"),
    ("third quarter of 2024", "[date] of [date]"),
    ("first half of '24", "[date]"),
    ("the '24 season", "the [date] season"),
    ("'24 results", "[date] results"),
    ("in the '90s", "in the [date]"),
    ("39th week of 2024", "39th week of [date]"),
    ("Christmas Eve", "[date] Eve"),
    ("国庆节", "[date]节"),
    ("国庆假期", "[date]假期"),
    ("618大促", "[date]大促"),
    ("Mid-Autumn Festival", "[date] Festival"),
    ("Dragon Boat Festival", "[date] Festival"),
    ("Sunday's", "[date]'s"),
    ("Sat Nov 28 00:45:12", "[date] 00:45:12"),
    ("Sun, May 3", "[date]"),
    ("SAT NOV 28", "[date]"),
    ("2026-11-28 (Sat)", "[date] ([date])"),
    ("Nov 29, Sun", "[date]"),
    ("28 November 2026 (Sat)", "[date] ([date])"),
    ("on Mondays", "on [date]"),
    ("2024-09-24T09:30:00Z", "[date]T09:30:00Z"),
    ("year-end '24", "year-end [date]"),
    ("2024年第三季度", "[date]"),
    ("去年九月", "去年[date]"),
    ("rugsėjo 24 d.", "[date] d."),
    ("the week of September 23", "the week of [date]"),
    ("quarter ended September 30", "quarter ended [date]"),
)
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


def test_month_names_of_other_languages_are_found_in_capitals_too() -> None:
    assert len(latin_names()) > 700
    assert masked("SEPTIEMBRE") == masked("Septiembre") == "[date]"
    assert masked("Septiembres") == "Septiembres"


def test_words_that_abbreviate_a_day_or_month_elsewhere_are_listed() -> None:
    words = _words_of_kind("abbreviation elsewhere")
    assert {"mar", "ott"} <= words
    assert "january" not in words
