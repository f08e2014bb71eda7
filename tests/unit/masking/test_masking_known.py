"""Public facts that identify a company, and events that date a text, in documents of a market without
an entity file; and the same words where they mean something else.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pytest

import ktdeval.masking
from ktdeval.market import Documents, Entity, MarketSnapshot
from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of
from ktdeval.masking.dates.events import find_events
from ktdeval.masking.names.known_companies import known_names
from ktdeval.testing.markets import tiny_snapshot
from support.tables import beside

NAMES = {
    "AAPL": "Apple Inc.",
    "AMZN": "Amazon.com, Inc.",
    "BTC": "Bitcoin",
    "IBM": "International Business Machines",
    "MSFT": "Microsoft Corporation",
    "NVDA": "NVIDIA Corporation",
    "002594.SZ": "比亚迪",
    "002714.SZ": "牧原股份",
    "300750.SZ": "宁德时代",
    "600276.SH": "恒瑞医药",
    "600436.SH": "片仔癀",
    "600519.SH": "贵州茅台",
    "601398.SH": "工商银行",
}
DAY = 40
TABLES = beside(__file__)
FILES = ("names/known_companies.csv", "dates/event_words.csv")


def market_of(names: dict[str, str]) -> MarketSnapshot:
    small = tiny_snapshot({code: [1.0] * 60 for code in names})
    return replace(small, names=tuple(names[code] for code in small.codes))


MARKET = market_of(NAMES)


def masked(
    text: str, filed: str = "", kind: str = "blinded", market: MarketSnapshot = MARKET
) -> str:
    lens = Lens(MaskConfig(kind), 1, market, 20)  # type: ignore[arg-type]
    columns = [market.asset_index[filed]] if filed else []
    prose = TextMask(lens, market).mask(text, DAY, columns)

    assert prose is not None

    shown = str(lens.render(prose))
    for column, code in enumerate(market.codes) if lens.hides_assets else ():
        shown = shown.replace(lens.asset_handle(column), f"<{code.split('.')[0]}>")
    return shown


@pytest.mark.parametrize(("text", "shown"), TABLES["events"])
def test_an_event_that_dates_a_text_is_hidden_where_dates_are(text: str, shown: str) -> None:
    assert masked(text, kind="date_blind") == shown
    assert masked(text, kind="stock_blind") == text


@pytest.mark.parametrize("text", TABLES["no_event"])
def test_a_word_that_is_no_event_there_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(("filed", "text", "shown"), TABLES["companies"])
def test_a_public_fact_of_a_company_is_hidden(filed: str, text: str, shown: str) -> None:
    assert masked(text, filed) == shown
    assert masked(text, filed, "stock_blind") == shown


@pytest.mark.parametrize(("filed", "text"), TABLES["no_company"])
def test_a_fact_of_a_company_stays_where_it_means_something_else(filed: str, text: str) -> None:
    assert masked(text, filed) == text


def test_places_of_an_entity_file_are_hidden_like_listed_ones() -> None:
    entities = [Entity("NVDA", "place", "Trondheim"), Entity("NVDA", "person", "Ada Quill")]
    market = replace(MARKET, documents=Documents.of((), None, entities))

    assert masked("Ada Quill of Trondheim", "NVDA", market=market) == "[person] of [place]"
    assert masked("Trondheim is cold", "AAPL", market=market) == "Trondheim is cold"
    assert masked("Trondheim-based", "AAPL", market=market) == "[place]-based"


def test_a_name_of_two_assets_drops_no_text() -> None:
    market = market_of({"GOOG": "Alphabet Inc. Class C", "GOOGL": "Alphabet Inc. Class A"})
    assert masked("谷歌 sells Gmail", market=market) == "[company] sells [product]"


def test_a_generated_company_with_a_real_code_has_no_facts() -> None:
    market = market_of({"300750.SZ": "Lunthra Veskol", "MSFT": "MSFT"})
    assert known_names(market) == ()


def test_a_prompt_and_an_answer_may_mention_events_and_places() -> None:
    """Only documents hide them: a model may say that there is a pandemic."""
    index = identities_of(MARKET, assets=True, dates=True)
    text = "A pandemic, a presidential election, Redmond, miners and a vaccine roll-out"

    assert not index.has_any(text)
    assert index.withhold(text) == text
    assert index.withhold("宁王, 微软 and Satya Nadella") == "[withheld], [withheld] and [withheld]"


@pytest.mark.parametrize("file", FILES)
def test_every_listed_fact_has_a_source_and_stands_once(file: str) -> None:
    path = ktdeval.masking.__path__[0] + "/" + file
    with open(path, encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))

    facts = [tuple(row.values())[:3] for row in rows]
    assert all(row["source"].strip() and all(row.values()) for row in rows)
    assert len(set(facts)) == len(facts)


def test_a_pattern_of_an_event_never_matches_nothing() -> None:
    path = ktdeval.masking.__path__[0] + "/dates/event_words.csv"
    with open(path, encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            assert re.search(row["pattern"], "") is None, row
    assert list(find_events("", ())) == []
