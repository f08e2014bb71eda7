"""The research tools, over prices and over documents: what they return, and what they must not know
or reveal.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.attribution.style_factors import factor_values
from ktdeval.harness.tools.tool_definition import call
from ktdeval.market import Documents, Entity
from ktdeval.market.snapshots.snapshot import NameSpell
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.payload_types import AssetRef, DocumentRef
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row, small_market
from ktdeval.trading.types import Account, Position
from ktdeval_ktdfin.step_view import ResearchStep
from ktdeval_ktdfin.tools import research_tool
from support.masking.news_items import poisoned_news, with_news
from support.searching import examples
from support.tasks.ktdfin_market import rows, spec_of

MARKET = small_market()
TOOLS = {name: research_tool(name) for name in load_plugins().specs("tools")}
TASKS = {
    mask: load_plugins().make_task(f"{mask}_open_research")
    for mask in ("bright", "stock_blind", "date_blind", "blinded")
}
ACCOUNT = Account(50_000_000, {4: Position(1200, 100), 0: Position(700), 5: Position(300)})
STEP = 4


def scene_of(mask: str, market: Any = MARKET, seed: int = 0) -> Any:
    return TASKS[mask].scene(spec_of(f"{mask}_open_research", mask, "open_research", seed), market)


def context_of(
    mask: str = "bright",
    market: Any = MARKET,
    step: int = STEP,
    account: Account = ACCOUNT,
    seed: int = 0,
) -> tuple[ResearchStep, Any]:
    scene = scene_of(mask, market, seed)
    scene.lens.render([AssetRef(asset) for asset in range(len(market.codes))])
    return scene.tool_context(step, market.as_of(scene.lens.base_row + step), account), scene.lens


def ask(
    name: str,
    arguments: dict[str, Any],
    mask: str = "bright",
    market: Any = MARKET,
    step: int = STEP,
    seed: int = 0,
) -> Any:
    context, lens = context_of(mask, market, step, seed=seed)
    outcome = call(TOOLS[name], context, json.dumps(arguments), lens)
    assert outcome.failure is None, outcome
    return json.loads(lens.render_text(outcome.payload))


def test_a_screen_ranks_buyable_names_by_the_factor_as_recomputed() -> None:
    context, _ = context_of()
    values = np.where(context.candidates, context.dims["MOM_12_1"], np.nan)
    best = np.argsort(-values)[:5]
    shown = rows(ask("screen_candidates", {"factors": ["MOM_12_1"], "k": 5})["candidates"])

    assert [row["stock_id"] for row in shown] == [MARKET.codes[asset] for asset in best]
    assert [row["MOM_12_1"] for row in shown] == [
        pytest.approx(values[asset], rel=1e-3) for asset in best
    ]
    assert shown[0]["score"] == 1

    lowest = [
        row["RV_60"]
        for row in rows(ask("screen_candidates", {"factors": ["-RV_60"], "k": 10})["candidates"])
    ]

    assert lowest == sorted(lowest), "a leading minus ranks the lowest first"

    result = ask("screen_candidates", {"factors": ["SKEW"], "k": 100})
    assert len(result["candidates"]["rows"]) == 30
    assert result["ranked_of"] == (context.candidates & np.isfinite(context.dims["SKEW"])).sum()
    assert {row["status"] for row in rows(result["candidates"])} <= {"trading", "limit_down"}


def test_several_factors_are_combined_by_mean_percentile_rank() -> None:
    context, _ = context_of()
    pool = (
        context.candidates
        & np.isfinite(context.dims["MOM_12_1"])
        & np.isfinite(context.dims["RV_60"])
    )
    count = pool.sum() - 1
    ranks = []

    for values in (context.dims["MOM_12_1"], -context.dims["RV_60"]):
        ranks.append(np.array([(values[pool] < value).sum() for value in values]) / count)

    score = np.where(pool, (ranks[0] + ranks[1]) / 2, -1)
    shown = rows(
        ask("screen_candidates", {"factors": ["MOM_12_1", "-RV_60"], "k": 3})["candidates"]
    )

    assert [row["score"] for row in shown] == [
        pytest.approx(value, rel=5e-3) for value in np.sort(score)[::-1][:3]
    ]


def test_ties_in_a_screen_are_broken_by_figures_and_not_by_labels() -> None:
    # All returns of a day alike: the one-day return ties everywhere, and the other factors must
    # decide.
    row = scene_of("bright").lens.base_row + STEP
    close = MARKET.close.copy()
    close[row], close[row - 1] = (
        close[row - 2] * MARKET.factor[row - 2] / MARKET.factor[row],
        close[row - 2],
    )
    tied = replace(MARKET, close=close)
    orders = []

    for mask, seed in (("bright", 0), ("bright", 1), ("blinded", 2)):
        lens = context_of(mask, tied, seed=seed)[1]
        shown = rows(
            ask(
                "screen_candidates", {"factors": ["return_1d_pct"], "k": 12}, mask, tied, seed=seed
            )["candidates"]
        )
        orders.append([lens.parse_asset(row["stock_id"]) for row in shown])

    assert orders[0] == orders[1] == orders[2]


def test_a_snapshot_shows_bars_up_to_today_with_adjusted_returns() -> None:
    context, lens = context_of(step=12)
    split = int(np.flatnonzero(np.diff(MARKET.factor[:, 3]))[0]) + 1
    lookback = context.view.day - split + 3
    result = ask(
        "get_stock_snapshot", {"stock_id": MARKET.codes[3], "lookback": min(lookback, 120)}, step=12
    )
    bars = rows(result["bars"])

    assert bars[-1]["day"] == lens.day_handle(context.view.day)

    after = next(bar for bar in bars if bar["day"] == str(MARKET.days[split]))
    assert abs(after["return_pct"]) < 21  # a two-for-one split halves the price, but is no loss
    assert result["factors"]["RV_60"] == pytest.approx(
        factor_values(context.view).values["RV_60"][3] * 100, rel=1e-3
    )
    assert (
        result["next_open_limits"]["no_buy_from_cny"]
        > result["last_close_cny"]
        > result["next_open_limits"]["no_sell_from_cny"]
    )


def test_a_market_without_amounts_has_none_and_not_zero() -> None:
    market = replace(MARKET, amount=np.full_like(MARKET.amount, np.nan))
    breadth = ask("get_market_context", {}, market=market)["breadth"]

    assert breadth["members"] > 0
    assert breadth["amount_cny"] is None
    assert breadth["amount_vs_20d_mean"] is None


@pytest.mark.parametrize("mask", ["bright", "date_blind", "blinded"])
def test_a_name_of_a_later_day_is_shown_by_no_mask(mask: str) -> None:
    base = scene_of("bright").lens.base_row
    code = MARKET.codes[3]
    changed = str(MARKET.days[base + 2])
    before = str(MARKET.days[base + 1])
    spells = (
        NameSpell(code, "2000-01-01", before, "Old Name", "609999.SH"),
        NameSpell(code, changed, "2100-01-01", "New Name", code),
    )
    shown = []

    for step in (0, 2):
        scene = scene_of(mask, replace(MARKET, spells=spells))
        scene.lens.move_to(base + step)
        handle = scene.lens.asset_handle(3)
        result = ask(
            "get_stock_snapshot",
            {"stock_id": handle},
            mask,
            step=step,
            market=replace(MARKET, spells=spells),
        )
        shown.append((result["stock_id"], result["name"]))

    expected = [("609999.SH", "Old Name"), (code, "New Name")]

    assert shown == (expected if mask != "blinded" else [(handle, None)] * 2)


def test_market_context_hides_dates_levels_and_names_as_the_mask_does() -> None:
    bright = ask("get_market_context", {})
    blinded = ask("get_market_context", {}, "blinded")

    assert rows(bright["indices"])[1]["index"] == "Orbex Small"
    assert rows(blinded["indices"])[1]["index"] == "index_1"
    assert blinded["calendar"]["last_trading_days"] == [
        "day_+0",
        "day_+1",
        "day_+2",
        "day_+3",
        "day_+4",
    ]
    assert (
        abs(rows(blinded["indices"])[0]["level"] - 100)
        < 50
        < 1000
        < rows(bright["indices"])[0]["level"]
    )
    assert rows(blinded["sectors"]["strongest_20d"])[0]["sector"].startswith("sector_")

    breadth = bright["breadth"]
    assert breadth["advancing"] + breadth["declining"] <= breadth["members"] - breadth["suspended"]


@on_each_row(
    "name, arguments, failure",
    ("screen_candidates", {"factors": ["ALPHA"]}, "bad_arguments"),
    ("screen_candidates", {"factors": []}, "bad_arguments"),
    ("get_stock_snapshot", {"stock_id": "HANDLE", "lookback": 500}, "bad_arguments"),
    ("get_stock_snapshot", {"stock_id": "600519"}, "unknown_asset"),
    ("risk_check", {"target_weights": {"HANDLE": 1.5}}, "bad_arguments"),
)
def test_bad_arguments_come_back_as_feedback(
    name: str, arguments: dict[str, Any], failure: str
) -> None:
    context, lens = context_of("blinded")
    assert (
        call(
            TOOLS[name],
            context,
            json.dumps(arguments).replace("HANDLE", lens.asset_handle(0)),
            lens,
        ).failure
        == failure
    )


def test_numbering_and_lists_do_not_follow_codes() -> None:
    """Over seeds, each place in a list of indices, sectors or candidates falls to each of them."""
    market = replace(
        MARKET,
        indices={
            f"{code:06d}.SH": next(iter(MARKET.indices.values())) for code in (16, 300, 852, 905)
        }
        | MARKET.indices,
    )
    labels = set()
    firsts = set()

    for seed in range(60):
        context, lens = context_of("blinded", market, seed=seed)
        indices = [code for code in lens.indices if code != market.meta.benchmark]
        table = rows(
            json.loads(lens.render_text(TOOLS["get_market_context"].function(context)))["indices"]
        )
        assert [row["index"] for row in table] == [
            "benchmark",
            *(f"index_{n}" for n in range(1, len(indices) + 1)),
        ]
        labels.add(indices[0])
        firsts.add(next(iter(context.stage.sector_rank)))

    assert len(labels) == len(market.indices) - 1
    assert len(firsts) > 3


@on_each_row(
    "name, arguments",
    ("get_stock_snapshot", {"stock_id": "HANDLE"}),
    ("compare_candidates", {"stock_ids": ["HANDLE"], "dims": ["RV_60"]}),
    ("risk_check", {"target_weights": {"HANDLE": 0.05}}),
)
def test_handle_never_shown_is_as_unknown_as_a_nonexistent_one(
    name: str, arguments: dict[str, Any]
) -> None:
    scene = scene_of("blinded")
    text = json.dumps(arguments)
    context = scene.tool_context(STEP, MARKET.as_of(scene.lens.base_row + STEP), ACCOUNT)
    handles = (scene_of("blinded").lens.asset_handle(7), "asset_x")
    hidden, unlisted = (
        call(TOOLS[name], context, text.replace("HANDLE", handle), scene.lens) for handle in handles
    )

    assert replace(hidden, complaint=None) == replace(unlisted, complaint=None)
    assert str(hidden.complaint) == str(unlisted.complaint)
    assert hidden.failure == "unknown_asset"


# ---- tools over documents


MASKS = ("bright", "stock_blind", "date_blind", "blinded")
BASE = int(np.searchsorted(MARKET.days, np.datetime64("2024-03-01"))) - 1
LAST_JOIN = len(MARKET.days) - 22  # two names join the index here
MARKET_WITH_NEWS = with_news(
    replace(
        MARKET,
        names=tuple(
            f"{'BCDFGHKLMN'[number % 10]}elmora {chr(65 + number // 10)}uast{number}"
            for number in range(48)
        ),
    ),
    BASE - 30,
    BASE + 24,
)


def outcome(
    name: str, arguments: dict[str, Any], mask: str, market: Any = MARKET_WITH_NEWS, step: int = 4
) -> str:
    context, lens = context_of(mask, market, step)
    made = call(TOOLS[name], context, json.dumps(arguments), lens)
    text = lens.render_text(made.payload)
    LeakGuard(lens, market).check(text)

    return f"{made.failure} {made.unmask_attempts} {text}"


def search(
    mask: str, market: Any = MARKET_WITH_NEWS, step: int = 4, **arguments: Any
) -> dict[str, Any]:
    failure, _, text = outcome("search_news", arguments, mask, market, step).split(" ", 2)
    assert failure == "None"
    payload: dict[str, Any] = json.loads(text)
    return payload


def handles(mask: str, market: Any = MARKET_WITH_NEWS) -> list[str]:
    lens = context_of(mask, market)[1]
    return [
        str(lens.render(DocumentRef(row))) for row in range(len(MARKET_WITH_NEWS.documents) + 20)
    ]


def test_search_shows_the_newest_or_best_matching_documents() -> None:
    view = MARKET_WITH_NEWS.as_of(BASE + 4).documents
    answer = search("bright", lookback=10, limit=50)
    shown = rows(answer["documents"])

    assert answer["day"] == str(MARKET_WITH_NEWS.days[BASE + 4])
    assert (answer["searched"], answer["withheld"], len(shown)) == (
        len(view.rows(10)),
        0,
        len(view.rows(10)),
    )

    lens = context_of("bright")[1]
    places = [int(str(lens.parse_document(one["document_id"]))) for one in shown]

    assert sorted(places, reverse=True) == view.rows(10).tolist()

    moments = [view.known_at(row) for row in places]
    assert moments == sorted(moments, reverse=True), "those of one moment in an order of the key"

    for row, one in zip(places, shown, strict=True):
        item = view[row]
        assert (one["title"], one["source"], one["kind"]) == (item.title, item.source, item.kind)
        assert one["day"] == str(MARKET_WITH_NEWS.days[view.day_of(row)])
        whole = json.loads(
            outcome("get_document", {"document_id": one["document_id"]}, "bright").split(" ", 2)[2]
        )
        assert (whole["text"], whole["cut"], whole["title"]) == (item.text, False, item.title)
        assert one["stock_ids"] == [
            code
            for code in item.assets
            if MARKET_WITH_NEWS.member[: BASE + 5, MARKET_WITH_NEWS.codes.index(code)].any()
        ]

    words = rows(search("bright", query="Dividend BOARD", lookback=60, limit=7)["documents"])

    assert [one["title"][:8] for one in words] == ["Dividend"] * 7
    assert search("bright", query="ividend")["documents"]["rows"] == []

    code = next(one["stock_ids"][0] for one in shown if one["stock_ids"])
    filed = rows(search("bright", stock_ids=[code], lookback=60, limit=50)["documents"])

    assert filed
    assert all(one["stock_ids"] == [code] for one in filed)


@pytest.mark.slow
def test_mask_shows_documents_under_handles_and_never_matches_hidden_text() -> None:
    bright, blinded = (
        rows(search(mask, query="dividend", lookback=60, limit=50)["documents"])
        for mask in ("bright", "blinded")
    )
    found = []

    for mask, shown in (("bright", bright), ("blinded", blinded)):
        lens = context_of(mask, MARKET_WITH_NEWS)[1]
        found.append({lens.parse_document(one["document_id"]) for one in shown})

    assert found[0] == found[1] != set()
    # no handle is of two masks
    assert {one["document_id"] for one in bright}.isdisjoint(one["document_id"] for one in blinded)
    assert all(re.fullmatch(r"day_[+-]\d+", one["day"]) for one in blinded)

    stock_ids = chain.from_iterable(one["stock_ids"] for one in blinded)
    assert all(re.fullmatch(r"asset_\d{4}", asset) for asset in stock_ids)

    names = [
        MARKET_WITH_NEWS.names[0],
        MARKET_WITH_NEWS.codes[0][:6],
        "Zarvok",
        "2024",
        "Monday",
        "asset",
    ]

    for name in names:
        clear, hidden = (
            search(mask, query=name, lookback=60, limit=50)["documents"]["rows"]
            for mask in ("bright", "blinded")
        )
        assert hidden == []
        assert clear or name in ("asset", MARKET_WITH_NEWS.names[0], MARKET_WITH_NEWS.codes[0][:6])

    other = context_of("blinded", seed=1)[1].render(DocumentRef(0))

    assert other != handles("blinded")[0]


@pytest.mark.slow
def test_an_unmaskable_document_is_omitted_and_counted_for_any_request() -> None:
    twins = (
        Entity(MARKET_WITH_NEWS.codes[1], "name", "dividend"),
        Entity(MARKET_WITH_NEWS.codes[2], "name", "dividend"),
    )
    items = [*MARKET_WITH_NEWS.documents]
    market = replace(
        MARKET_WITH_NEWS,
        documents=Documents.of(items, None, (*MARKET_WITH_NEWS.documents.entities, *twins)),
    )
    clear = search("blinded", lookback=60, limit=50)
    blinded = search("blinded", market, lookback=60, limit=50)

    assert clear["withheld"] == 0 < blinded["withheld"] < blinded["searched"] == clear["searched"]
    assert search("blinded", market, query="margin", lookback=60)["withheld"] == blinded["withheld"]
    assert search("bright", market, lookback=60)["withheld"] == 0

    dropped = {row["document_id"] for row in rows(clear["documents"])} - {
        row["document_id"] for row in rows(blinded["documents"])
    }

    assert dropped
    assert all(
        outcome("get_document", {"document_id": one}, "blinded", market).startswith("bad_arguments")
        for one in dropped
    )


def test_an_asset_that_joins_later_has_no_handle_yet() -> None:
    joins = len(MARKET.codes) - 4
    assert MARKET.member[LAST_JOIN, joins] > MARKET.member[LAST_JOIN - 1, joins]

    item = MARKET_WITH_NEWS.documents[0]._replace(
        assets=(MARKET_WITH_NEWS.codes[joins], MARKET_WITH_NEWS.codes[3]),
        text=f"{MARKET_WITH_NEWS.names[joins]} rose",
    )
    market = replace(MARKET_WITH_NEWS, documents=Documents.of([item]))

    for mask, text in (("bright", item.text), ("blinded", "[company] rose")):
        shown = {}
        for step in (LAST_JOIN - BASE - 1, LAST_JOIN - BASE):
            shown[step] = json.loads(
                outcome(
                    "get_document", {"document_id": handles(mask)[0]}, mask, market, step
                ).split(" ", 2)[2]
            )

        before, after = shown.values()
        assert before["text"] == text
        assert (len(before["stock_ids"]), len(after["stock_ids"])) == (1, 2)
        assert after["text"] == (
            text
            if mask == "bright"
            else f"{({*after['stock_ids']} - {*before['stock_ids']}).pop()} rose"
        )


@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_a_search_and_a_document_show_the_sentiment_where_there_is_one(mask: str) -> None:
    plain = MARKET_WITH_NEWS.documents[0]
    later = plain.known_at + timedelta(seconds=1)
    name = MARKET_WITH_NEWS.names[3]
    labelled = plain._replace(sentiment=f"good for {name}", known_at=later)
    market = replace(MARKET_WITH_NEWS, documents=Documents.of([plain, labelled]))
    first, second = rows(search(mask, market, lookback=120)["documents"])

    assert list(first) == [
        *("document_id", "day", "source", "kind", "stock_ids", "sentiment", "title")
    ]
    assert second["sentiment"] is None
    assert first["sentiment"].startswith("good for ")
    assert (name in first["sentiment"]) == (mask == "bright")

    _, _, text = outcome("get_document", {"document_id": first["document_id"]}, mask, market).split(
        " ", 2
    )

    assert json.loads(text)["sentiment"] == first["sentiment"]
    assert "sentiment" not in rows(search(mask, lookback=10)["documents"])[0]


@pytest.mark.exhaustive
@given(
    step=st.integers(0, 20),
    seed=st.integers(0, 10**6),
    lookback=st.integers(1, 120),
    mask=st.sampled_from(MASKS),
)
@examples(8)
def test_no_later_document_changes_a_search(step: int, seed: int, lookback: int, mask: str) -> None:
    spoiled = replace(
        MARKET_WITH_NEWS, documents=poisoned_news(MARKET_WITH_NEWS, BASE + step, seed)
    )
    arguments = {"query": "a the", "lookback": lookback, "limit": 50}

    assert outcome("search_news", arguments, mask, MARKET_WITH_NEWS, step) == outcome(
        "search_news", arguments, mask, spoiled, step
    )


@pytest.mark.parametrize("name", ["doc_aaaaaaa", "doc_bcdfghj", "600519", "x" * 40, "x" * 41, ""])
def test_an_id_that_was_not_shown_is_refused_in_the_same_words(name: str) -> None:
    text = outcome("get_document", {"document_id": name}, "bright")
    assert text.startswith("bad_arguments 0")
    assert name not in text or not name


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_a_long_text_is_cut_between_what_the_mask_took_out(mask: str) -> None:
    item = MARKET_WITH_NEWS.documents[0]._replace(text=f"{MARKET_WITH_NEWS.names[3]} " * 4000)
    market = replace(MARKET_WITH_NEWS, documents=Documents.of([item]))
    shown = json.loads(
        outcome("get_document", {"document_id": handles(mask)[0]}, mask, market).split(" ", 2)[2]
    )

    assert shown["cut"]
    assert 19_900 < len(shown["text"]) <= 20_010

    begin, end = re.split(r"\[… [0-9,]+ characters cut …\]", shown["text"])
    kept = {*begin.split(), *end.split()}

    assert kept == (
        {*MARKET_WITH_NEWS.names[3].split()} if mask == "bright" else {shown["text"][:10]}
    )
