"""The tools over documents: what they show, and what they must not know or tell."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from test_ktdfin_tools import TOOLS, context_of

from ktdeval.harness.tools import call
from ktdeval.market import Documents, Entity
from ktdeval.masking.identities import LeakGuard
from ktdeval.masking.payload import DocumentRef
from ktdfin_market import rows, small_market
from news_items import poisoned_news, with_news
from searching import examples

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
PLAIN = small_market()
BASE = int(np.searchsorted(PLAIN.days, np.datetime64("2024-03-01"))) - 1
LAST_JOIN = len(PLAIN.days) - 22  # two names join the index here
MARKET = with_news(
    replace(PLAIN, names=tuple(f"{'BCDFGHKLMN'[number % 10]}elmora {chr(65 + number // 10)}uast{number}" for number in range(48))),
    BASE - 30,
    BASE + 24,
)


def outcome(name: str, arguments: dict[str, Any], mask: str, market: Any = MARKET, step: int = 4) -> str:
    context, lens = context_of(mask, market, step)
    made = call(TOOLS[name], context, json.dumps(arguments), lens)
    text = lens.render_text(made.payload)
    LeakGuard(lens, market).check(text)
    return f"{made.failure} {made.unmask_attempts} {text}"


def search(mask: str, market: Any = MARKET, step: int = 4, **arguments: Any) -> dict[str, Any]:
    failure, _, text = outcome("search_news", arguments, mask, market, step).split(" ", 2)
    assert failure == "None"
    payload: dict[str, Any] = json.loads(text)
    return payload


def handles(mask: str, market: Any = MARKET) -> list[str]:
    lens = context_of(mask, market)[1]
    return [str(lens.render(DocumentRef(row))) for row in range(len(MARKET.documents) + 20)]


def test_a_search_shows_the_newest_or_those_with_most_words_and_a_document_its_text() -> None:
    view = MARKET.as_of(BASE + 4).documents
    answer = search("bright", lookback=10, limit=50)
    shown = rows(answer["documents"])
    assert answer["day"] == str(MARKET.days[BASE + 4])
    assert (answer["searched"], answer["withheld"], len(shown)) == (len(view.rows(10)), 0, len(view.rows(10)))
    lens = context_of("bright")[1]
    places = [int(str(lens.parse_document(one["document_id"]))) for one in shown]
    assert sorted(places, reverse=True) == view.rows(10).tolist()
    moments = [view.known_at(row) for row in places]
    assert moments == sorted(moments, reverse=True), "those of one moment in an order of the key"
    for row, one in zip(places, shown, strict=True):
        item = view[row]
        assert (one["title"], one["source"], one["kind"]) == (item.title, item.source, item.kind)
        assert one["day"] == str(MARKET.days[view.day_of(row)])
        whole = json.loads(outcome("get_document", {"document_id": one["document_id"]}, "bright").split(" ", 2)[2])
        assert (whole["text"], whole["cut"], whole["title"]) == (item.text, False, item.title)
        assert one["stock_ids"] == [code for code in item.assets if MARKET.member[: BASE + 5, MARKET.codes.index(code)].any()]
    words = rows(search("bright", query="Dividend BOARD", lookback=60, limit=7)["documents"])
    assert [one["title"][:8] for one in words] == ["Dividend"] * 7
    assert search("bright", query="ividend")["documents"]["rows"] == []
    code = next(one["stock_ids"][0] for one in shown if one["stock_ids"])
    filed = rows(search("bright", stock_ids=[code], lookback=60, limit=50)["documents"])
    assert filed
    assert all(one["stock_ids"] == [code] for one in filed)


def test_a_mask_shows_the_same_documents_under_handles_and_never_matches_what_it_hides() -> None:
    bright, blinded = (rows(search(mask, query="dividend", lookback=60, limit=50)["documents"]) for mask in ("bright", "blinded"))
    assert [one["document_id"] for one in bright] == [one["document_id"] for one in blinded]
    assert all(re.fullmatch(r"day_[+-]\d+", one["day"]) for one in blinded)
    assert all(re.fullmatch(r"asset_\d{4}", asset) for one in blinded for asset in one["stock_ids"])
    names = [MARKET.names[0], MARKET.codes[0][:6], "Zarvok", "2024", "Monday", "asset"]
    for name in names:
        clear, hidden = (search(mask, query=name, lookback=60, limit=50)["documents"]["rows"] for mask in ("bright", "blinded"))
        assert hidden == []
        assert clear or name in ("asset", MARKET.names[0], MARKET.codes[0][:6])
    other = context_of("blinded", seed=1)[1].render(DocumentRef(0))
    assert other != handles("blinded")[0]


def test_a_document_that_cannot_be_masked_is_left_out_and_counted_whatever_is_asked() -> None:
    twins = (Entity(MARKET.codes[1], "name", "dividend"), Entity(MARKET.codes[2], "name", "dividend"))
    items = [*MARKET.documents]
    market = replace(MARKET, documents=Documents.of(items, None, (*MARKET.documents.entities, *twins)))
    clear = search("blinded", lookback=60, limit=50)
    blinded = search("blinded", market, lookback=60, limit=50)
    assert clear["withheld"] == 0 < blinded["withheld"] < blinded["searched"] == clear["searched"]
    assert search("blinded", market, query="margin", lookback=60)["withheld"] == blinded["withheld"]
    assert search("bright", market, lookback=60)["withheld"] == 0
    dropped = {row["document_id"] for row in rows(clear["documents"])} - {row["document_id"] for row in rows(blinded["documents"])}
    assert dropped
    assert all(outcome("get_document", {"document_id": one}, "blinded", market).startswith("bad_arguments") for one in dropped)


def test_an_asset_that_joins_later_has_no_handle_yet() -> None:
    joins = len(PLAIN.codes) - 4
    assert PLAIN.member[LAST_JOIN, joins] > PLAIN.member[LAST_JOIN - 1, joins]
    item = MARKET.documents[0]._replace(assets=(MARKET.codes[joins], MARKET.codes[3]), text=f"{MARKET.names[joins]} rose")
    market = replace(MARKET, documents=Documents.of([item]))
    for mask, text in (("bright", item.text), ("blinded", "[company] rose")):
        shown = {}
        for step in (LAST_JOIN - BASE - 1, LAST_JOIN - BASE):
            shown[step] = json.loads(
                outcome("get_document", {"document_id": handles(mask)[0]}, mask, market, step).split(" ", 2)[2]
            )
        before, after = shown.values()
        assert before["text"] == text
        assert (len(before["stock_ids"]), len(after["stock_ids"])) == (1, 2)
        assert after["text"] == (text if mask == "bright" else f"{({*after['stock_ids']} - {*before['stock_ids']}).pop()} rose")


@given(step=st.integers(0, 20), seed=st.integers(0, 10**6), lookback=st.integers(1, 120), mask=st.sampled_from(MASKS))
@examples(8)
def test_no_later_document_changes_a_search(step: int, seed: int, lookback: int, mask: str) -> None:
    spoiled = replace(MARKET, documents=poisoned_news(MARKET, BASE + step, seed))
    arguments = {"query": "a the", "lookback": lookback, "limit": 50}
    assert outcome("search_news", arguments, mask, MARKET, step) == outcome("search_news", arguments, mask, spoiled, step)


@pytest.mark.parametrize("name", ["doc_aaaaaaa", "doc_bcdfghj", "600519", "x" * 40, "x" * 41, ""])
def test_an_id_that_was_not_shown_is_refused_in_the_same_words(name: str) -> None:
    text = outcome("get_document", {"document_id": name}, "bright")
    assert text.startswith("bad_arguments 0")
    assert name not in text or not name


def test_a_long_text_is_cut_between_what_the_mask_took_out() -> None:
    item = MARKET.documents[0]._replace(text=f"{MARKET.names[3]} " * 4000)
    market = replace(MARKET, documents=Documents.of([item]))
    for mask in ("bright", "blinded"):
        shown = json.loads(outcome("get_document", {"document_id": handles(mask)[0]}, mask, market).split(" ", 2)[2])
        assert shown["cut"]
        assert 19_900 < len(shown["text"]) <= 20_010
        assert set(shown["text"].split()[:-1]) == ({*MARKET.names[3].split()} if mask == "bright" else {shown["text"][:10]})
