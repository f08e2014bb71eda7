"""Defects that the public price service has, one test each: ours has none of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval_qfinzero.catalogue import UPQ as OPERATIONS
from ktdeval_qfinzero.data.rows import DividendRow, RateRow, SplitRow
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_upq import MINUTE_OPTION, UPQ, all_rows, ask, column, market, refused, with_prices
from qfinzero_world import RATES, at

JANUARY = {"start": "2025-01-01", "end": "2025-01-31"}
CHAIN = {"underlying": "AVLN", "date": "2025-01-06"}
EARLY = at("2024-12-01T00:00:00Z")


def properties(name: str) -> Any:
    return UPQ.find(name).properties


def test_every_answer_tells_its_as_of_moment_and_daily_ones_are_limited_too() -> None:
    assert ask("symbols.list", as_of="2025-01-06T15:00:00Z")["as_of_ts"] == "2025-01-06T15:00:00Z"
    assert all("as_of_ts" in operation.result["required"] for operation in OPERATIONS)
    assert properties("UPQ.stock.daily")["limit"]["maximum"] == 100_000
    assert len(ask("stock.daily", tickers="AVLN", **JANUARY, limit=3)["bars"]) == 3


def test_a_day_in_progress_has_no_daily_bar_with_its_close() -> None:
    noon = {"as_of": "2025-01-06T17:00:00Z"}
    assert ask("stock.daily", **noon, tickers="AVLN", **JANUARY)["bars"][-1]["date"] == "2025-01-03"
    assert ask("option.chain_query", **noon, **CHAIN)["contracts"] == []
    assert ask("option.ticker_query", **noon, contract=MINUTE_OPTION, **JANUARY)["bars"][-1]["date"] == "2025-01-03"


def test_minute_greeks_do_not_use_the_days_later_close_or_rate() -> None:
    bars = market().prices.bar_table["stock", "AVLN", "day"]  # type: ignore[attr-defined]
    wild = {("stock", "AVLN", "day"): replace(bars, close_e4=bars.close_e4 * 9)}
    same_day = RateRow(date(2025, 1, 7), dict.fromkeys(RATES, 9.0), at("2025-01-07T23:00:00Z"))
    other = with_prices(market(), bars=wild, rate_rows=[*market().prices.rate_rows[:3], same_day])  # type: ignore[attr-defined]
    arguments = {"contract": MINUTE_OPTION, "start": "2025-01-07", "end": "2025-01-07", "resolution": "minute"}
    rows = ask("option.ticker_query", **arguments, include_greeks=True)["bars"]
    assert rows == ask("option.ticker_query", dataset=other, **arguments, include_greeks=True)["bars"]
    assert {row["greek_status"] for row in rows} == {"ok"}


def test_adjusting_does_not_use_events_that_are_not_yet_ex() -> None:
    """The split of the 21st is announced on the 7th: it must change no price before the 21st's open."""
    arguments = {"tickers": "CSTL,AVLN", **JANUARY}
    for as_of in ("2025-01-06T21:00:00Z", "2025-01-10T21:00:00Z"):
        raw, total = (ask("stock.daily", as_of=as_of, **arguments, adjust=adjust)["bars"] for adjust in ("none", "total"))
        assert raw == total
    without = with_prices(market(), split_rows=[], dividend_rows=[])
    arguments["as_of"] = "2025-01-10T21:00:00Z"
    assert ask("stock.daily", **arguments, adjust="total") == ask("stock.daily", **arguments, dataset=without, adjust="total")


def test_adjusting_works_on_minute_bars_too() -> None:
    splits = [SplitRow("BRKT", date(2025, 1, 8), 2, 1, EARLY)]
    dividends = [DividendRow("BRKT", date(2025, 1, 8), date(2025, 1, 20), 10_000, EARLY)]
    day: dict[str, Any] = {"tickers": "BRKT", "start": "2025-01-07", "end": "2025-01-07"}
    dataset = with_prices(market(), split_rows=splits, dividend_rows=dividends)
    none, split, total = (ask("stock.minute", **day, dataset=dataset, adjust=how)["bars"] for how in ("none", "split", "total"))
    factor = 1 - 2 / ask("stock.daily", **day)["bars"][0]["close"]
    assert column(split, "close") == [pytest.approx(price / 2) for price in column(none, "close")]
    assert column(split, "volume") == [volume * 2 for volume in column(none, "volume")]
    assert column(total, "close") == [pytest.approx(price * factor, abs=1e-6) for price in column(split, "close")]


@pytest.mark.parametrize("name", ["stock.daily", "stock.minute"])
def test_a_limit_never_cuts_silently_and_later_tickers_are_reached(name: str) -> None:
    arguments = {"tickers": "AVLN,BRKT,CSTL", "start": "2025-01-06", "end": "2025-01-10", "fields": "close"}
    seen = all_rows(name, "bars", **arguments, limit=50 if name == "stock.minute" else 1)
    assert (set(column(seen, "ticker")), seen) == ({"AVLN", "BRKT", "CSTL"}, ask(name, **arguments)["bars"])


def test_no_other_expiry_is_given_silently() -> None:
    answer = ask("option.chain_query", **CHAIN, expiry_min="2025-01-24", expiry_max="2025-01-24")
    assert answer["contracts"] == []
    assert answer["nearest_expiries"] == ["2025-01-17", "2025-01-10", "2025-02-21"]  # 7, 14 and 28 days away
    assert ask("option.chain_query", **CHAIN, expiry_min="2025-01-17", expiry_max="2025-01-17")["nearest_expiries"] == []


RANGED = {name: {"tickers": "AVLN"} for name in ("stock.daily", "stock.minute", "dividends.query", "splits.query")}
RANGED |= {name: {"tickers": "BTCX"} for name in ("crypto.daily", "crypto.minute")}
RANGED |= {"option.ticker_query": {"contract": MINUTE_OPTION}, "rates.query": {}}


@pytest.mark.parametrize("name", RANGED)
def test_a_start_after_the_end_is_refused_in_plain_words(name: str) -> None:
    error = refused(name, start="2025-01-10", end="2025-01-09", **RANGED[name])
    assert (error.field, error.message) == ("end", "lies before start; the range is start to end, both included")


def test_an_empty_range_of_a_chain_is_refused() -> None:
    assert refused("option.chain_query", **CHAIN, expiry_min="2025-02-01", expiry_max="2025-01-01").field == "expiry_max"
    assert refused("option.chain_query", **CHAIN, strike_min=100, strike_max=99.5).field == "strike_max"
    assert refused("option.chain_query", **CHAIN, strike_min=float("nan")).field == "strike_min"


def test_unknown_tickers_are_listed_and_small_letters_refused() -> None:
    answer = ask("stock.daily", tickers="NOPE,AVLN,ALSO", start="2025-01-06", end="2025-01-06")
    assert answer["unknown"] == ["ALSO", "NOPE"]
    assert "capitals" in refused("stock.daily", tickers="avln", **JANUARY).message


def test_adjust_and_indicators_and_dividends_are_declared() -> None:
    assert "adjust" in properties("UPQ.stock.daily")
    assert "adjust" in properties("UPQ.stock.minute")
    assert "indicators" in properties("UPQ.stock.daily")
    assert UPQ.find("upq_dividends_query").name == "UPQ.dividends.query"


def test_answers_are_objects_and_errors_have_one_envelope() -> None:
    workspace = Workspace(market())
    for name in ("UPQ.stock.daily", "UPQ.nothing", "UPQ.rates.query"):
        error: Any = UPQ.answer(workspace, name, {})
        assert set(error) == {"error"}
        assert {"code", "message"} <= set(error["error"])
    assert all(operation.result["type"] == "object" for operation in OPERATIONS)


NEARLY = ("2025-01-06", "2025-01-06T14:30:00Z", "AVLN", "BTCX", "close", "ma_3", "day", "minute", "C", MINUTE_OPTION, "10Y")
WORDS = st.one_of(st.text(max_size=30), st.integers(-5, 10**9), st.floats(), st.booleans(), st.sampled_from(NEARLY))


@given(st.sampled_from(OPERATIONS), st.data())
@settings(max_examples=150, deadline=None)
def test_no_argument_makes_an_answer_other_than_an_answer_or_a_refusal(operation: Any, data: st.DataObject) -> None:
    names = st.sampled_from(sorted(operation.properties) or ["none"])
    given_arguments = {name: data.draw(WORDS) for name in operation.required} | data.draw(st.dictionaries(names, WORDS, max_size=3))
    json.dumps(UPQ.answer(Workspace(market()), operation.name, given_arguments), allow_nan=False)
