"""Documents hide what means the asset that they are filed under: its code at any length, in every
cell, whatever the market has of it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ktdeval.market import Document
from ktdeval.market.snapshots.snapshot import NameSpell
from ktdeval.masking import Lens, MaskConfig, TextMask
from ktdeval.testing.markets import tiny_snapshot
from support.tables import on_each_row

NAMES = {
    "A": "Agilent Technologies, Inc.",
    "BRK.B": "Berkshire Hathaway Inc.",
    "BTC-USD": "Bitcoin",
    "C": "Citigroup Inc.",
    "COST": "Costco Wholesale Corporation",
    "D": "Dominion Energy, Inc.",
    "DAL": "Delta Air Lines, Inc.",
    "F": "Ford Motor Company",
    "KO": "The Coca-Cola Company",
    "ON": "ON Semiconductor Corporation",
    "PEP": "PepsiCo, Inc.",
    "T": "AT&T Inc.",
    "TXN": "Texas Instruments Incorporated",
    "V": "Visa Inc.",
    "0700.HK": "Tencent Holdings Limited",
    "7203.T": "Toyota Motor Corporation",
    "000333.SZ": "美的集团",
    "300059.SZ": "东方财富",
    "601318.SH": "中国平安",
    "601668.SH": "中国建筑",
}
DAY = 40
_SMALL = tiny_snapshot({code: [1.0] * 60 for code in NAMES})
MARKET = replace(_SMALL, names=tuple(NAMES[code] for code in _SMALL.codes))
LENS = Lens(MaskConfig("blinded"), 1, MARKET, 20)
MASK = TextMask(LENS, MARKET)


def with_codes(shown: str) -> str:
    """A masked text with `<CODE>` for the handle of an asset."""
    for column, code in enumerate(MARKET.codes):
        shown = shown.replace(LENS.asset_handle(column), f"<{code}>")
    return shown


def masked(text: str, *codes: str) -> str:
    prose = MASK.mask(text, DAY, [MARKET.asset_index[code] for code in codes])
    assert prose is not None
    return with_codes(str(LENS.render(prose)))


def filed(*assets: str, text: str = "", **cells: str) -> Document:
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    document = Document(moment, moment, "wire", "news", assets, "", text)
    return document._replace(**cells)


@on_each_row
def test_a_document_hides_its_own_code_at_any_length(code: str, text: str, shown: str) -> None:
    assert masked(text, code) == shown


@on_each_row
def test_a_document_hides_words_that_elsewhere_mean_nothing(
    code: str, text: str, shown: str
) -> None:
    assert masked(text, code) == shown


@on_each_row
def test_other_words_of_these_letters_stay(code: str, text: str) -> None:
    assert masked(text, code) == text


@on_each_row
def test_elsewhere_these_words_stay(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("cell", ["source", "kind", "title", "text", "sentiment"])
def test_the_code_is_hidden_in_each_cell_of_a_document(cell: str) -> None:
    document = filed("KO", **{cell: "https://example.com/KO/news: KO is bullish"})
    shown = MASK.show(document, DAY)

    assert shown is not None
    spelled = with_codes(str(LENS.render(getattr(shown, cell))))
    assert spelled == "https://example.com/<KO>/news: <KO> is bullish"


def test_a_code_that_the_market_lacks_is_a_company() -> None:
    shown = MASK.show(filed("PG", "KO", text="PG and KO fell, PG's margin, too; V rose."), DAY)

    assert shown is not None
    text = with_codes(str(LENS.render(shown.text)))
    assert text == "[company] and <KO> fell, [company]'s margin, too; V rose."
    assert len(shown.assets) == 1


def test_a_document_under_a_former_code_is_its_assets() -> None:
    first = str(MARKET.days[0])
    spell = NameSpell("PEP", first, "2024-01-31", code_then="PQ", name="Pepsi-Cola Company")
    market = replace(MARKET, spells=(spell,))
    shown = TextMask(LENS, market).show(filed("PQ", text="PQ rose, and so did PEP."), DAY)

    assert shown is not None
    assert with_codes(str(LENS.render(shown.text))) == "<PEP> rose, and so did <PEP>."
    assert len(shown.assets) == 1
