"""Nothing later than the clock reaches an answer: whatever becomes of what is not yet known, it stays the same, byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from qfinzero_poison import NEW_COIN, NEW_STOCK, known_bars, new_contracts, poison
from qfinzero_upq import MINUTE_OPTION, UPQ, market
from qfinzero_world import at

from ktdeval.api import dumps_canonical
from ktdeval_qfinzero.data.memory import MemoryPrices
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.moments import SECOND, moment_text
from ktdeval_qfinzero.upq.operations import OPERATIONS
from ktdeval_qfinzero.workspace import Workspace

ALL = {"start": "2025-01-01", "end": "2025-03-31"}
STOCKS = {"tickers": f"AVLN,BRKT,CSTL,{NEW_STOCK}", **ALL}
COINS = {"tickers": f"BTCX,{NEW_COIN}", **ALL}
PUT = "O:AVLN250221P00095000"

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("stock.daily", {**STOCKS, "adjust": "total", "indicators": "ma_3,ema_4,macd"}),
    ("stock.daily", {**STOCKS, "adjust": "split", "limit": 17, "fields": "close"}),
    ("stock.daily", {"tickers": "CSTL", "start": "2025-01-15", "end": "2025-01-31"}),
    ("stock.minute", {"tickers": "CSTL", "start": "2025-01-06T15:00:00", "end": "2025-01-12", "adjust": "total", "limit": 300}),
    ("stock.minute", {**STOCKS, "limit": 400, "fields": "close,volume"}),
    ("crypto.daily", {**COINS, "indicators": "ema_2"}),
    ("crypto.minute", {**COINS, "limit": 200, "fields": "close"}),
    *(("option.chain_query", {"underlying": "AVLN", "date": day, "include_greeks": True}) for day in ("2025-01-06", "2025-01-08")),
    ("option.chain_query", {"underlying": "AVLN", "date": "2025-01-06", "limit": 5, "type": "P", "strike_max": 103}),
    ("option.chain_query", {"underlying": "AVLN", "date": "2025-01-07", "expiry_min": "2025-02-01", "expiry_max": "2025-02-08"}),
    ("option.chain_query", {"underlying": NEW_STOCK, "date": "2025-01-06"}),
    ("option.ticker_query", {"contract": PUT, **ALL, "include_greeks": True}),
    ("option.ticker_query", {"contract": PUT, **ALL, "include_greeks": True, "greek_price_field": "open", "limit": 3}),
    (
        "option.ticker_query",
        {"contract": MINUTE_OPTION, "start": "2025-01-06T20:50:00", "end": "2025-01-07T14:50:00", "resolution": "minute",
         "include_greeks": True},
    ),
    ("rates.query", ALL),
    ("rates.query", {**ALL, "tenors": "10Y"}),
    ("dividends.query", STOCKS),
    ("splits.query", STOCKS),
    ("symbols.list", {}),
    ("symbols.list", {"limit": 4}),
    ("symbols.list", {"limit": 1, "asset_class": "crypto"}),
    ("health.freshness", {}),
)  # fmt: skip
EDGES = (
    "2024-12-31T00:00:00Z",
    "2025-01-06T14:30:00Z",
    "2025-01-06T14:30:59.999999999Z",
    "2025-01-06T14:31:00Z",
    "2025-01-06T20:59:59Z",
    "2025-01-06T21:00:00Z",
    "2025-01-06T23:00:00Z",
    "2025-01-07T00:00:00Z",
    "2025-01-07T21:30:00Z",
    "2025-01-09T15:00:00Z",
    "2025-01-10T21:00:00Z",
    "2025-01-13T14:30:00Z",
    "2025-01-21T14:29:59Z",
    "2025-01-21T14:30:00Z",
    "2025-02-21T21:00:00Z",
    "2025-03-15T00:00:00Z",
)


def answers(dataset: Dataset, as_of_ns: int) -> list[str]:
    workspace = Workspace(dataset, as_of_ns)
    unlisted = [("option.ticker_query", {"contract": contract.symbol, **ALL}) for contract in new_contracts("AVLN", as_of_ns)]
    return [dumps_canonical(UPQ.answer(workspace, f"UPQ.{name}", arguments)) for name, arguments in (*CALLS, *unlisted)]


def test_every_operation_is_called() -> None:
    assert {f"UPQ.{name}" for name, _ in CALLS} == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("as_of", EDGES)
def test_answers_do_not_depend_on_what_is_not_yet_known(as_of: str) -> None:
    assert answers(market(), at(as_of)) == answers(poison(market(), at(as_of)), at(as_of))


@given(st.integers(at("2025-01-05T00:00:00Z"), at("2025-01-13T00:00:00Z")))
@settings(max_examples=15, deadline=None)
def test_at_no_moment_do_answers_depend_on_what_is_not_yet_known(as_of_ns: int) -> None:
    assert answers(market(), as_of_ns) == answers(poison(market(), as_of_ns), as_of_ns)


@given(
    st.integers(at("2025-01-06T14:30:00Z"), at("2025-01-10T21:00:00Z")),
    st.sampled_from(["AVLN", "CSTL", "BRKT,CSTL"]),
    st.sampled_from(["none", "split", "total"]),
    st.integers(1, 50),
    st.integers(-7_200, 7_200),
)
@settings(max_examples=25, deadline=None)
def test_a_page_that_ends_near_the_clock_shows_nothing_beyond_it(
    as_of_ns: int, tickers: str, adjust: str, limit: int, ahead: int
) -> None:
    end = moment_text((as_of_ns // SECOND + ahead) * SECOND)
    start = moment_text((as_of_ns // SECOND + ahead - 3_600) * SECOND)
    arguments = {"tickers": tickers, "start": start, "end": end, "adjust": adjust, "limit": limit}
    known, poisoned = (Workspace(dataset, as_of_ns) for dataset in (market(), poison(market(), as_of_ns)))
    answer = UPQ.answer(known, "UPQ.stock.minute", arguments)
    assert dumps_canonical(answer) == dumps_canonical(UPQ.answer(poisoned, "UPQ.stock.minute", arguments))
    assert all(at(row["window_start"]) + 60 * SECOND <= as_of_ns for row in answer["bars"])


def test_the_poison_leaves_what_is_known_and_changes_the_rest() -> None:
    as_of_ns = at("2025-01-07T15:00:30Z")
    before, after = market().prices, poison(market(), as_of_ns).prices
    assert isinstance(before, MemoryPrices)
    assert isinstance(after, MemoryPrices)
    for key, bars in before.bar_table.items():
        known, kept = known_bars(key, bars, as_of_ns), known_bars(key, after.bar_table[key], as_of_ns)
        for name in ("start_ns", "close_e4", "volume"):
            np.testing.assert_array_equal(getattr(bars, name)[known], getattr(after.bar_table[key], name)[kept])
        rest, others = bars.take(~known), after.bar_table[key].take(~kept)
        shared, ours, theirs = np.intersect1d(rest.start_ns, others.start_ns, return_indices=True)
        assert len(shared) == 0 or (rest.close_e4[ours] != others.close_e4[theirs]).all()
    later = at("2025-03-15T00:00:00Z")
    changed = [a != b for a, b in zip(answers(market(), later), answers(poison(market(), as_of_ns), later), strict=True)]
    assert sum(changed) >= len(CALLS) - 3  # all but the chain of the 6th, which was known
