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
from ktdeval.testing import on_each_row
from ktdeval.testing.markets import tiny_snapshot

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


# Code, text of a document that is filed under it, and the text as it is shown; `<CODE>` stands for the handle of an asset.
@on_each_row(
    "code, text, shown",
    ("KO", "An author sees KO at twice its price.", "An author sees <KO> at twice its price."),
    (
        "KO",
        "KO's margin, (KO), KO/PEP, #KO, KO-led, KOs.",
        "<KO>'s margin, (<KO>), <KO>/<PEP>, #<KO>, <KO>-led, <KO>.",
    ),
    ("KO", "KO TO RAISE ITS DIVIDEND", "<KO> TO RAISE ITS DIVIDEND"),
    ("KO", "ko to raise its dividend", "<KO> to raise its dividend"),
    ("KO", "KO_Q3.pdf and KO25", "<KO>_[date].pdf and <KO>25"),
    ("KO", "KOUSD, KO/USD and KO.N", "<KO>, <KO> and <KO>.N"),
    ("V", "V beats. Buy V, sell others.", "<V> beats. Buy <V>, sell others."),
    ("T", "T to cut its debt, T's holders hope", "<T> to cut its debt, <T>'s holders hope"),
    ("F", "F rose; buy F.", "<F> rose; buy <F>."),
    ("A", "We like A. A is up, A beats.", "We like <A>. <A> is up, <A> beats."),
    ("A", "A RAISES GUIDANCE ON A STRONG CALL", "<A> RAISES GUIDANCE ON A STRONG CALL"),
    ("ON", "ON rose on demand.", "<ON> rose on demand."),
    ("COST", "COST BEATS AGAIN", "<COST> BEATS AGAIN"),
    ("BTC-USD", "BTC broke out, BTCUSD, too", "<BTC-USD> broke out, <BTC-USD>, too"),
    ("0700.HK", "0700 rose, 0700.HK closed", "<0700.HK> rose, <0700.HK> closed"),
    ("7203.T", "7203 rose; it paid 7203 yen", "<7203.T> rose; it paid 7203 yen"),
    ("BRK.B", "BRK rose, BRK/B, too", "<BRK.B> rose, <BRK.B>, too"),
)
def test_a_document_hides_its_own_code_at_any_length(code: str, text: str, shown: str) -> None:
    assert masked(text, code) == shown


@on_each_row(
    "code, text, shown",
    (
        "DAL",
        "Delta raised its outlook, Delta's costs fell.",
        "<DAL> raised its outlook, <DAL>'s costs fell.",
    ),
    ("BRK.B", "Berkshire bought more.", "<BRK.B> bought more."),
    ("601318.SH", "平安回应传闻。", "<601318.SH>回应传闻。"),
    ("000333.SZ", "美的空调出货下滑。", "<000333.SZ>空调出货下滑。"),
    ("300059.SZ", "东财股价异动。", "<300059.SZ>股价异动。"),
    ("601668.SH", "中建新签合同增长。", "<601668.SH>新签合同增长。"),
)
def test_a_document_hides_words_that_elsewhere_mean_nothing(
    code: str, text: str, shown: str
) -> None:
    assert masked(text, code) == shown


# What is no code there, although a document is filed under it.
@on_each_row(
    "code, text",
    ("KO", "They were knocked out; Kodak and TOKYO and KOREA."),
    ("V", "A V-shaped recovery, a V8 and section V of it."),
    ("T", "T-bills, T+1 and Model T."),
    ("C", "Vitamin C, Class C shares, C++ and the C-suite."),
    ("F", "The F-16 and grade F."),
    ("A", "A strong call. Class A shares."),
    ("D", "R&D, 3D, Series D and D.C. votes."),
    ("ON", "It depends on demand."),
    ("DAL", "The Mississippi Delta is wide."),
    ("TXN", "In Texas, wages rose."),
    ("0700.HK", "Some 700 jobs, 0.0700 and 10,700."),
    ("000333.SZ", "最美的风景，完美的一天。"),
    ("601668.SH", "其中建材涨价。"),
    ("601318.SH", "市场并非平安无事。"),
)
def test_other_words_of_these_letters_stay(code: str, text: str) -> None:
    assert masked(text, code) == text


# Without its subject a document keeps such words: they may mean anything.
@on_each_row(
    "text",
    ("The V and the KO of the match.",),
    ("The Delta flood spread in Texas.",),
    ("他们平安抵达，这是美的享受。",),
)
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
