"""What gives a company away in a document of a market without an entity file: short names and
identifiers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktdeval.market import MarketSnapshot
from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of
from ktdeval.masking.short_names import short_names
from support.masking.masking_market import BASE_ROW, MARKET
from support.tables import beside, on_each_row

TABLES = beside(__file__)
NAMES = {
    "AMD": "Advanced Micro Devices, Inc.",
    "AMZN": "Amazon.com, Inc.",
    "COST": "Costco Wholesale Corporation",
    "GOOG": "Alphabet Inc. Class C",
    "GOOGL": "Alphabet Inc. Class A",
    "KO": "The Coca-Cola Company",
    "MAR": "Marriott International, Inc.",
    "META": "Meta Platforms, Inc.",
    "TMUS": "T-Mobile US, Inc.",
}
US = replace(MARKET, codes=tuple(NAMES), names=tuple(NAMES.values()))


def masked(text: str, market: MarketSnapshot = US, filed: tuple[str, ...] = ()) -> str | None:
    lens = Lens(MaskConfig("blinded"), 1, market, BASE_ROW)
    prose = TextMask(lens, market).mask(text, 25, [market.asset_index[code] for code in filed])
    shown = None if prose is None else str(lens.render(prose))

    for column, code in enumerate(market.codes):
        shown = shown and shown.replace(lens.asset_handle(column), f"<{code}>")

    return shown


@on_each_row
def test_short_names_follow_from_an_official_name(name: str, short: list[str]) -> None:
    assert sorted(short_names(name)) == sorted(short)


@on_each_row
def test_names_of_a_market_without_entities_are_hidden(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("text", TABLES["identifiers"])
def test_an_identifier_is_a_company(text: str) -> None:
    assert masked(f"It ({text}) rose") == "It ([company]) rose"
    guard = identities_of(US, assets=True, dates=False)
    assert text not in guard.withhold(f"It ({text}) rose")


@pytest.mark.parametrize("text", TABLES["no_identifiers"])
def test_a_number_with_a_wrong_check_digit_or_a_word_is_none(text: str) -> None:
    shown = masked(f"It ({text}) rose")
    assert shown is not None
    assert "[company]" not in shown
