"""Defects that the public price service has, one test each: ours has none of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ktdeval_qfinzero.data.rows import DividendRow, RateRow, SplitRow
from qfinzero_upq import MINUTE_OPTION, UPQ, ask, column, market, refused, with_prices
from qfinzero_world import RATES, at

JANUARY = {"start": "2025-01-01", "end": "2025-01-31"}
CHAIN = {"underlying": "AVLN", "date": "2025-01-06"}
EARLY = at("2024-12-01T00:00:00Z")


def test_every_answer_tells_its_as_of_moment_and_daily_ones_are_limited_too() -> None:
    assert ask("symbols.list", as_of="2025-01-06T15:00:00Z")["as_of_ts"] == "2025-01-06T15:00:00Z"
    assert UPQ.find("UPQ.stock.daily").properties["limit"]["maximum"] == 100_000
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


def test_no_other_expiry_is_given_silently() -> None:
    answer = ask("option.chain_query", **CHAIN, expiry_min="2025-01-24", expiry_max="2025-01-24")
    assert answer["contracts"] == []
    assert answer["nearest_expiries"] == ["2025-01-17", "2025-01-10", "2025-02-21"]  # 7, 14 and 28 days away
    assert ask("option.chain_query", **CHAIN, expiry_min="2025-01-17", expiry_max="2025-01-17")["nearest_expiries"] == []


RANGED = {name: {"tickers": "AVLN"} for name in ("stock.daily", "stock.minute", "dividends.query", "splits.query")}
RANGED |= {name: {"tickers": "BTCX"} for name in ("crypto.daily", "crypto.minute")}
RANGED |= {"option.ticker_query": {"contract": MINUTE_OPTION}, "rates.query": {}}


def test_a_start_after_the_end_is_refused_in_plain_words() -> None:
    for name, arguments in RANGED.items():
        error = refused(name, start="2025-01-10", end="2025-01-09", **arguments)
        assert (error.field, error.message) == ("end", "lies before start; the range is start to end, both included")


def test_an_empty_range_of_a_chain_is_refused() -> None:
    assert refused("option.chain_query", **CHAIN, expiry_min="2025-02-01", expiry_max="2025-01-01").field == "expiry_max"
    assert refused("option.chain_query", **CHAIN, strike_min=100, strike_max=99.5).field == "strike_max"
    assert refused("option.chain_query", **CHAIN, strike_min=float("nan")).field == "strike_min"


def test_unknown_tickers_are_listed_and_small_letters_refused() -> None:
    answer = ask("stock.daily", tickers="NOPE,AVLN,ALSO", start="2025-01-06", end="2025-01-06")
    assert answer["unknown"] == ["ALSO", "NOPE"]
    assert "capitals" in refused("stock.daily", tickers="avln", **JANUARY).message
