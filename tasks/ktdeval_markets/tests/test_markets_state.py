"""Parts of the state, checked by hand: venues, positions, standings, the last step's orders and
charges, documents.
"""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.harness import StanceRule, Standing
from ktdeval.market import Document, Documents, Instrument, MarketSnapshot, find_venue
from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.venues.close_times import Close
from ktdeval.testing import snapshot_of_days, step_record
from ktdeval.trading.ledger import ChargeRecord
from ktdeval_markets import shown_state
from support.figures.metric_cases import order
from support.searching import examples
from support.tasks.markets_scenes import scene_from

CODES = ("AAA", "BBB", "CCC", "DDD", "EEE", "FFF", "GGG")
VENUES = ("zeta", "eta", "mu", "alpha", "kappa", "beta", "omega")
ROW = 20
N_DAYS = 24
EMPTY: Any = SimpleNamespace(positions={})


def market(**changes: Any) -> MarketSnapshot:
    """Seven stocks, each at a venue of its own."""
    rules = {name: dataclasses.replace(find_venue("us_equity"), name=name) for name in VENUES}
    instruments = tuple(Instrument("stock", "USD", name) for name in VENUES)
    prices = [[100.0 + day + 10 * column for column in range(len(CODES))] for day in range(N_DAYS)]
    made = snapshot_of_days(CODES, prices, instruments=instruments, rules=rules, first="2025-03-03")
    meta = dataclasses.replace(made.meta, benchmark="")

    return dataclasses.replace(made, meta=meta, indices={}, index_names={}, **changes)


scene_of = partial(scene_from, ROW)


def state_of(
    scene: Any, snapshot: MarketSnapshot, last: Any = None, row: int = ROW
) -> dict[str, Any]:
    user = scene.observe(0, snapshot.as_of(row), EMPTY, last).user
    shown: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)\n```", user, re.DOTALL)[0])
    return shown


def limits_of(scene: Any, snapshot: MarketSnapshot) -> dict[str, Any]:
    """The limits as numbers, which a prompt has in words alone."""
    observation = scene.observe(0, snapshot.as_of(ROW), EMPTY, None)
    assert "constraints" not in observation.user
    return dict(observation.state.limits.cells)


def rows_of(shown: Any) -> list[dict[str, Any]]:
    return [dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]]


# ---- positions and the table of assets


def held(code: str, shares: int, value: int, locked: int = 0) -> dict[str, Any]:
    return {
        "code": code,
        "shares": shares,
        "locked": locked,
        "price_ticks": 1_200_000,
        "value_minor": value,
    }


def test_positions_and_shorts_are_listed_by_size_largest_first() -> None:
    snapshot = market()
    positions = [
        held("AAA", 10_000, 12_000),
        held("BBB", -40_000, -48_000, 10_000),
        held("CCC", 20_000, 24_000),
    ]
    last = step_record(
        snapshot,
        ROW - 1,
        ROW,
        positions=positions,
        nav_minor=100_000,
        cash_minor=112_000,
        holdings_minor=-12_000,
    )
    shown = state_of(scene_of(snapshot, "bright"), snapshot, last)
    rows = [
        [
            row[name]
            for name in (
                "stock_id",
                "shares",
                "locked_shares",
                "last_close",
                "value",
                "weight",
                "member",
                "status",
            )
        ]
        for row in rows_of(shown["positions"])
    ]

    assert rows == [
        ["BBB", -4.0, 1.0, 120.0, -480.0, -0.48, True, "trading"],
        ["CCC", 2.0, 0.0, 120.0, 240.0, 0.24, True, "trading"],
        ["AAA", 1.0, 0.0, 120.0, 120.0, 0.12, True, "trading"],
    ]

    account = {
        "cash": 1120.0,
        "holdings": -120.0,
        "nav": 1000.0,
        "cash_weight": 1.12,
        "positions_held": 3,
    }

    assert {name: shown["account"][name] for name in account} == account


def test_positions_of_one_size_are_in_the_episodes_own_order() -> None:
    snapshot = market()
    last = step_record(
        snapshot, ROW - 1, ROW, positions=[held(code, 10_000, 12_000) for code in CODES]
    )

    for seed in range(5):
        scene = scene_of(snapshot, seed=seed)
        listed = [row["stock_id"] for row in rows_of(state_of(scene, snapshot, last)["positions"])]
        assert listed == [scene.lens.asset_handle(asset) for asset in scene.lens.order]


@pytest.mark.parametrize(
    ("day", "traded_on", "is_shown"),
    [
        (20, 20, True),
        (20, 1, True),  # the twentieth day back, with today
        (20, 0, False),
        (10, 0, True),  # a shorter history counts whole
    ],
)
def test_the_most_traded_are_those_of_the_last_20_days(
    day: int, traded_on: int, is_shown: bool
) -> None:
    base = market()
    volume = np.full_like(base.volume, 100.0)
    volume[traded_on, 0] = 1e9
    snapshot = dataclasses.replace(base, volume=volume)
    scene = scene_of(snapshot, "bright", shown=3)

    shown = rows_of(state_of(scene, snapshot, row=day)["candidates"])

    assert ("AAA" in {row["stock_id"] for row in shown}) is is_shown


# ---- standings


def test_standing_states_the_position_and_the_share_closed_last_step() -> None:
    snapshot = market()
    stage = scene_of(snapshot)._stage

    assert set(shown_state.standings(stage, None, range(7)).values()) == {
        Standing(StanceRule.compute_invested(find_venue("us_equity").fees, 0.0))
    }

    last = step_record(
        snapshot,
        ROW - 1,
        ROW,
        positions=[
            held("AAA", 30_000, 36_000),
            held("BBB", -30_000, -36_000),
            held("DDD", 10_000, 12_000),
        ],
        orders=[
            order("AAA", "SELL", filled=10_000, notional_minor=12_000),
            order("BBB", "BUY", filled=20_000, notional_minor=24_000),
            order("CCC", "SELL", filled=10_000, notional_minor=12_000),
            order("DDD", "BUY", filled=10_000, notional_minor=12_000),
        ],
        nav_minor=120_000,
    )
    standings = shown_state.standings(stage, last, range(5))

    assert [(one.weight, one.closed) for one in standings.values()] == [
        (0.3, 0.25),  # a quarter of the holding was sold
        (0.3, 0.4),  # of the short bought back
        (0.0, 0.0),  # sold out: nothing is left of which a share was closed
        (0.1, 0.0),  # bought alone
        (0.0, 0.0),
    ]

    fees = find_venue("us_equity").fees
    assert [one.invested for one in standings.values()] == [
        StanceRule.compute_invested(fees, one.weight) for one in standings.values()
    ]

    ruined = step_record(
        snapshot, ROW - 1, ROW, positions=[held("AAA", 10_000, 12_000)], nav_minor=0
    )

    assert shown_state.standings(stage, ruined, [0])[0].weight == 0.0


# ---- orders and charges of the last step


def test_orders_of_the_last_step_are_shown_with_what_became_of_them() -> None:
    snapshot = market()
    scene = scene_of(snapshot, "bright")
    part = {"status": "partially_filled", "rule": "volume", "price_ticks": 1_190_000}
    orders = [
        order("BBB", "BUY", filled=15_000, notional_minor=17_850, fee_minor=100)
        | part
        | {
            "shares": 20_000,
            "target_weight": None,
        },
        order("CCC", "SELL", filled=0)
        | {
            "status": "rejected",
            "rule": "cash",
            "shares": None,
            "target_weight": 0.25,
        },
        order(None, "BUY", filled=0)
        | {
            "status": "rejected",
            "rule": "unknown",
            "shares": None,
            "target_weight": 0.5,
        },
    ]
    last = step_record(
        snapshot,
        ROW - 1,
        ROW,
        orders=orders,
        provenance="model_after_retry",
        failures={"schema": 1},
    )
    shown = state_of(scene, snapshot, last)["last_step"]

    assert (shown["decided_by"], shown["failures"]) == ("model_after_retry", {"schema": 1})
    assert shown["orders"] == {
        "columns": list(shown_state.ORDER_COLUMNS[:-1]),
        "rows": [
            ["BBB", "BUY", None, 2.0, "partially_filled", "volume", 1.5, 119.0, 1.0],
            ["CCC", "SELL", 0.25, None, "rejected", "cash", 0.0, None, 0.0],
            [None, "BUY", 0.5, None, "rejected", "unknown", 0, None, 0],
        ],
    }


def record_of(snapshot: MarketSnapshot, *charges: ChargeRecord) -> Any:
    return step_record(snapshot, ROW - 1, ROW, charges=charges)


def test_task_without_weights_or_stances_does_not_mention_them() -> None:
    snapshot = market()
    limits = limits_of(scene_of(snapshot), snapshot)

    assert list(limits) == ["max_positions", "max_weight", "short_sales", "min_reason_chars"]

    whole = {"max_weight": 1.0, "max_positions": 7}
    weighed = limits_of(
        scene_of(snapshot, answers="stances", weights="optimised", trading=whole), snapshot
    )

    assert (weighed["weights"], weighed["hold"]) == ("optimised", "keep")


def test_charges_are_in_the_episodes_own_order_independent_of_codes() -> None:
    snapshot = market()
    record = record_of(
        snapshot, *(ChargeRecord("borrow", code, -10_000, 1_000_000, -1, 0) for code in CODES)
    )
    orders = set()

    for seed in range(5):
        scene = scene_of(snapshot, seed=seed)
        listed = [
            row["stock_id"]
            for row in rows_of(state_of(scene, snapshot, record)["last_step"]["charges"])
        ]
        assert listed == [scene.lens.asset_handle(asset) for asset in scene.lens.order]
        orders.add(tuple(scene.lens.order))

    assert len(orders) == 5


# ---- documents


def item(day: str, title: str, text: str = "", codes: tuple[str, ...] = ("AAA",)) -> Document:
    moment = datetime.fromisoformat(f"{day}T15:00").replace(tzinfo=ZoneInfo("America/New_York"))
    return Document(moment, moment, "The Wire", "news", codes, title, text)


def news_of(
    items: list[Document], mask: str = "blinded", **options: Any
) -> tuple[list[dict[str, Any]], int]:
    """Documents shown, and how many are withheld. `Quill` means two assets: filed under neither, a
    text with it can't be masked.
    """
    entities = (Entity("AAA", "name", "Quill"), Entity("BBB", "name", "Quill"))
    snapshot = market(documents=Documents.of(items, Close(16, 0, "America/New_York"), entities))
    shown = state_of(
        scene_of(snapshot, mask, **{"news": 20, "news_days": 30, **options}), snapshot
    )["news"]

    return rows_of(shown), shown["withheld"]


DAYS = [f"2025-03-{day:02}" for day in (10, 11, 12, 13, 14)]


@pytest.mark.parametrize(
    ("most", "shown"),
    [(1, [4]), (2, [4, 3]), (4, [4, 3, 2, 1]), (5, [4, 3, 2, 1, 0]), (9, [4, 3, 2, 1, 0])],
)
def test_the_newest_documents_are_shown_up_to_the_tasks_number(most: int, shown: list[int]) -> None:
    rows, withheld = news_of(
        [item(day, f"number {index}") for index, day in enumerate(DAYS)], news=most
    )

    assert [row["title"] for row in rows] == [f"number {index}" for index in shown]
    assert withheld == 0


def test_what_can_not_be_masked_takes_no_place_and_is_counted() -> None:
    titles = ["Quill at last", "one", "Quill again", "two", "Quill today"]
    items = [item(day, title, codes=()) for day, title in zip(DAYS, titles, strict=True)]
    for most, shown, withheld in ((1, ["two"], 1), (2, ["two", "one"], 2), (3, ["two", "one"], 3)):
        rows, count = news_of(items, news=most)
        assert [row["title"] for row in rows] == shown
        assert count == withheld

    rows, count = news_of(items, "bright", news=5)

    assert ([row["title"] for row in rows], count) == (titles[::-1], 0)


@pytest.mark.parametrize(
    ("days", "shown"), [(1, []), (2, ["of 22"]), (4, ["of 22", "of 21", "of 20"])]
)
def test_documents_are_of_the_last_days_only(days: int, shown: Any) -> None:
    # the decision is made on the 23rd
    items = [item(f"2025-03-{day}", f"of {day}") for day in (17, 18, 19, 20, 21, 22)]
    rows, _ = news_of(items, "bright", news_days=days)
    assert [row["title"] for row in rows] == shown


def test_of_a_long_text_beginning_and_end_are_shown_and_how_much_is_cut() -> None:
    whole = "four " * 399 + "four."
    longer = "four " * 399 + "fourty"

    assert (len(whole), len(longer)) == (2_000, 2_001)

    items = [item(DAYS[0], "whole", whole), item(DAYS[1], "longer", longer)]

    for most, shown_whole in ((None, True), (2_000, True), (400, False)):
        options = {} if most is None else {"news_characters": most}
        rows, _ = news_of(items, "bright", **options)
        texts = {row["title"]: row["text"] for row in rows}
        assert (texts["whole"] == whole) == shown_whole
        assert len(texts["longer"]) <= (most or 2_000)
        assert re.fullmatch(
            r"(four )+\[… [0-9,]+ characters cut …\] (four )+fourty", texts["longer"]
        )


def test_sentiment_is_a_document_column_if_any_shown_document_has_one() -> None:
    plain = [item(DAYS[0], "plain"), item(DAYS[1], "older")]
    labelled = item(DAYS[2], "labelled")._replace(sentiment="positive")
    rows, _ = news_of([*plain, labelled])

    assert [(row["title"], row["sentiment"]) for row in rows] == [
        ("labelled", "positive"),
        ("older", None),
        ("plain", None),
    ]
    assert list(rows[0]) == ["day", "source", "kind", "stock_ids", "sentiment", "title", "text"]

    without, _ = news_of(plain)
    assert list(without[0]) == ["day", "source", "kind", "stock_ids", "title", "text"]


@pytest.mark.parametrize(
    ("sentiment", "shown"),
    [("good for DDD", "good for asset"), ("up since May 2024", "up since [date]")],
)
def test_a_sentiment_is_masked_as_the_text_is(sentiment: str, shown: str) -> None:
    rows, _ = news_of([item(DAYS[0], "labelled")._replace(sentiment=sentiment)])
    assert rows[0]["sentiment"].startswith(shown)
    rows, _ = news_of([item(DAYS[0], "labelled")._replace(sentiment=sentiment)], "bright")
    assert rows[0]["sentiment"] == sentiment


def test_a_document_whose_sentiment_can_not_be_masked_is_withheld() -> None:
    items = [item(DAYS[0], "labelled", codes=())._replace(sentiment="Quill is up")]
    assert news_of(items) == ([], 1)


# ---- a quota of documents for each asset


def burst(code: str, number: int, day: str = DAYS[-1]) -> list[Document]:
    """So many documents of one asset, the newest ones of all."""
    codes = (code,) if code else ()
    return [
        item(day, f"{code or 'all'} {index}", codes=codes)._replace(
            known_at=item(day, "").known_at + timedelta(seconds=index)
        )
        for index in range(number)
    ]


def test_a_document_of_two_assets_counts_for_both() -> None:
    both = item(DAYS[-1], "of both", codes=("AAA", "BBB"))
    items = [both, *burst("AAA", 5, DAYS[0]), *burst("BBB", 5, DAYS[0])]
    rows, _ = news_of(items, "bright", news=5)
    assert [row["title"] for row in rows] == ["of both", "AAA 4", "BBB 4", "AAA 3", "BBB 3"]


FILED = st.lists(
    st.tuples(st.integers(0, 4), st.sets(st.sampled_from([*CODES, "XYZ"]), max_size=2)), max_size=40
)


@pytest.mark.exhaustive
@given(filed=FILED, most=st.integers(1, 40))
@examples(25)
def test_every_asset_has_its_share_of_the_documents_shown(filed: Any, most: int) -> None:
    items = [
        item(DAYS[day], f"number {index}", codes=tuple(sorted(codes)))._replace(
            known_at=item(DAYS[day], "").known_at + timedelta(seconds=index)
        )
        for index, (day, codes) in enumerate(filed)
    ]
    rows, withheld = news_of(items, "bright", news=most)
    shown = {row["title"] for row in rows}

    assert withheld == 0
    assert len(rows) == len(shown) == min(most, len(items))

    quota = most // (len(CODES) + 1)
    newest_first = sorted(items, key=lambda one: one.known_at, reverse=True)

    for code in (*CODES, ""):
        own = [
            one.title for one in newest_first if (code in one.assets if code else not one.assets)
        ]
        assert len(shown & {*own}) >= min(quota, len(own))
        assert shown >= {*own[: min(quota, len(own))]} or any(len(one.assets) > 1 for one in items)

    again, _ = news_of(items[::-1], "bright", news=most)

    assert {row["title"] for row in again} == shown
