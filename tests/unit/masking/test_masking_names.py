"""What gives a company away in a document of a market without an entity file: short names and
identifiers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktdeval.market import MarketSnapshot
from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of
from ktdeval.masking.names.short_names import short_names
from ktdeval.testing import on_each_row
from support.masking.masking_market import BASE_ROW, MARKET
from support.tables import beside

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


@on_each_row(
    "name, short",
    ("Amazon.com, Inc.", ["Amazon", "Amazon.com"]),
    ("Alphabet Inc. Class A", ["Alphabet"]),
    ("Alphabet Inc. (Class C)", ["Alphabet"]),
    ("Meta Platforms, Inc.", ["Meta", "Meta Platforms"]),
    ("Costco Wholesale Corporation", ["Costco", "Costco Wholesale"]),
    ("The Coca-Cola Company", ["Coca-Cola"]),
    ("Marriott International, Inc.", ["Marriott", "Marriott International"]),
    ("Advanced Micro Devices, Inc.", ["AMD", "Advanced Micro", "Advanced Micro Devices"]),
    ("T-Mobile US, Inc.", ["T-Mobile", "T-Mobile US"]),
    ("Johnson & Johnson", ["J&J"]),
    ("Procter & Gamble Company", ["P&G", "Procter", "Procter & Gamble"]),
    ("Eli Lilly and Company", ["Eli Lilly", "Lilly"]),
    ("Comcast Corporation Class A Common Stock", ["Comcast"]),
    ("Alibaba Group Holding Limited ADR", ["Alibaba", "Alibaba Group"]),
    ("International Business Machines Corporation", ["IBM", "International Business Machines"]),
    (
        "Taiwan Semiconductor Manufacturing Company Limited",
        ["TSM", "TSMC", "Taiwan Semiconductor", "Taiwan Semiconductor Manufacturing"],
    ),
    ("Novo Nordisk A/S", ["Novo Nordisk"]),
    ("American Airlines Group, Inc.", ["AAG", "American Airlines", "American Airlines Group"]),
    # Ordinary words, names of persons and places are none.
    ("Texas Instruments Incorporated", ["Texas Instruments"]),
    ("Applied Materials, Inc.", ["Applied Materials"]),
    ("Target Corporation", []),
    ("The Gap, Inc.", []),
    ("First Solar, Inc.", ["First Solar"]),
    ("贵州茅台", ["茅台"]),
    ("贵州茅台酒股份有限公司", ["茅台酒", "贵州茅台酒"]),
    ("招商银行", ["招行"]),
    ("格力电器", ["格力"]),
    ("东方财富证券", ["东方财富"]),
    ("三一重工股份", ["三一", "三一重工"]),
    ("万科A", ["万科"]),
    ("中国平安", ["中平安", "平安股份", "平安集团"]),
    ("平安银行", []),
    ("云南白药", []),
    ("比亚迪", []),
    ("宁德时代", ["宁德"]),
    ("隆基绿能", ["隆基"]),
    ("科大讯飞", ["讯飞"]),
    ("中国石油", ["中石油"]),
    ("阳光电源", []),
)
def test_short_names_follow_from_an_official_name(name: str, short: list[str]) -> None:
    assert sorted(short_names(name)) == sorted(short)


@on_each_row(
    "text, shown",
    ("Amazon, Amazon's AWS and AMAZON", "<AMZN>, <AMZN>'s [product] and <AMZN>"),
    ("See amazon.com, no amazon", "See <AMZN>, no amazon"),
    ("all small: amazon and costco fell", "all small: <AMZN> and <COST> fell"),
    ("Alphabet rose, an alphabet not", "[company] rose, an alphabet not"),
    ("Meta Platforms Inc. and Meta, a meta study", "<META> and <META>, a meta study"),
    ("COST and Costco at no cost", "<COST> and <COST> at no cost"),
    ("Coca-Cola and Coca Cola", "<KO> and <KO>"),
    (
        "Google and its Googlers are derived from GOOGL",
        "<GOOGL> and its <GOOGL> are derived from <GOOGL>",
    ),
    ("AMZN.O, AMZN US Equity, (AMZN US) and NASDAQ: AMZN", "<AMZN>, <AMZN>, (<AMZN>) and <AMZN>"),
    ("NYSE: ZZZ, ZZZ.OQ and 0700.HK", "[company], [company] and [company]"),
)
def test_names_of_a_market_without_entities_are_hidden(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_short_name_of_several_assets_is_that_of_the_filed_one() -> None:
    assert masked("Alphabet rose") == "[company] rose"
    assert masked("Alphabet rose", filed=("GOOG",)) == "<GOOG> rose"


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


def test_a_model_does_not_see_a_company_again_that_it_named_shortly() -> None:
    guard = identities_of(US, assets=True, dates=True)
    assert (
        guard.withhold("Amazon and J&J, or amazon; Meta?")
        == "[withheld] and J&J, or amazon; [withheld]?"
    )
    assert not guard.has_any("a meta target in alphabet order")
