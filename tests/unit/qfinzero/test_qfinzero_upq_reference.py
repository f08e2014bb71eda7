"""Rates, dividends, splits, symbols and freshness as of the clock; declarations of the operations."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from ktdeval_qfinzero.data.rows import RateRow
from ktdeval_qfinzero.schemas import MAX_LENGTH, read_cursor, write_cursor
from qfinzero_upq import ask, column, market, refused, with_prices
from qfinzero_world import at


def test_a_curve_is_there_from_its_publication() -> None:
    arguments = {"start": "2025-01-06", "end": "2025-01-06"}
    assert ask("rates.query", as_of="2025-01-06T22:59:59Z", **arguments)["rates"] == []
    assert ask("rates.query", as_of="2025-01-06T23:00:00Z", **arguments, tenors="30Y,1M")["rates"] == [
        {"date": "2025-01-06", "yield_1_month": 4.30, "yield_30_year": 4.80, "published_ts": "2025-01-06T23:00:00Z"}
    ]


def test_a_tenor_that_a_curve_lacks_is_null_and_a_correction_replaces_a_curve() -> None:
    row = RateRow(date(2025, 1, 6), {"1M": 4.0}, at("2025-01-06T23:00:00Z"))
    corrected = replace(row, yields_pct={"1M": 4.1}, available_ns=at("2025-01-07T23:00:00Z"))
    dataset = with_prices(market(), rate_rows=[corrected, row])
    arguments = {"dataset": dataset, "start": "2025-01-06", "end": "2025-01-06"}
    (found,) = ask("rates.query", as_of="2025-01-07T00:00:00Z", **arguments)["rates"]
    assert (found["yield_1_month"], found["yield_10_year"]) == (4.0, None)
    (found,) = ask("rates.query", as_of="2025-01-08T00:00:00Z", **arguments)["rates"]
    assert found["yield_1_month"] == 4.1


def test_dividends_and_splits_are_there_from_their_announcement_also_those_to_come() -> None:
    dividend = {"tickers": "AVLN,NOPE", "start": "2025-01-01", "end": "2025-03-01"}
    assert ask("dividends.query", as_of="2025-01-03T21:29:59Z", **dividend)["dividends"] == []
    answer = ask("dividends.query", as_of="2025-01-03T21:30:00Z", **dividend)
    (found,) = answer["dividends"]
    assert list(found) == ["ticker", "ex_dividend_date", "pay_date", "amount", "declared_ts"]
    assert list(found.values()) == ["AVLN", "2025-01-13", "2025-01-31", 0.25, "2025-01-03T21:30:00Z"]
    assert answer["unknown"] == ["NOPE"]
    split = {"tickers": "CSTL", "start": "2025-01-21", "end": "2025-01-21"}
    assert ask("splits.query", as_of="2025-01-07T21:29:59Z", **split)["splits"] == []
    (found,) = ask("splits.query", as_of="2025-01-07T21:30:00Z", **split)["splits"]
    assert (found["new_shares"], found["old_shares"], found["ex_date"]) == (2, 1, "2025-01-21")
    assert ask("splits.query", tickers="CSTL", start="2025-01-22", end="2025-02-21")["splits"] == []


def test_symbols_come_in_pages_and_by_class() -> None:
    assert column(ask("symbols.list")["symbols"], "ticker") == ["AVLN", "BRKT", "BTCX", "CSTL"]
    assert column(ask("symbols.list", asset_class="crypto")["symbols"], "ticker") == ["BTCX"]
    first = ask("symbols.list", limit=3)
    assert column(ask("symbols.list", limit=3, cursor=first["next_cursor"])["symbols"], "ticker") == ["CSTL"]
    assert ask("symbols.list", as_of="2024-11-01T00:00:00Z")["symbols"] == []


def test_a_stock_has_options_once_one_is_listed() -> None:
    rows = [replace(row, listed_ns=at("2025-01-08")) for row in market().prices.contract_rows]  # type: ignore[attr-defined]
    dataset = with_prices(market(), contract_rows=rows)
    has = [ask("symbols.list", as_of=f"2025-01-0{day}T00:00:00Z", dataset=dataset)["symbols"][0]["has_options"] for day in (7, 8)]
    assert has == [False, True]


def test_freshness_goes_as_far_as_the_clock() -> None:
    sources = ask("health.freshness", as_of="2025-01-07T15:00:30Z")["sources"]
    latest = {name: (source["latest_date"], source["latest_ts"]) for name, source in sources.items()}
    assert latest == {
        **dict.fromkeys(("stock_daily", "option_daily"), ("2025-01-06", "2025-01-06T21:00:00Z")),
        **dict.fromkeys(("stock_minute", "crypto_minute", "option_minute"), ("2025-01-07", "2025-01-07T15:00:00Z")),
        "crypto_daily": ("2025-01-06", "2025-01-07T00:00:00Z"),
        "rates": ("2025-01-06", "2025-01-06T23:00:00Z"),
        "dividends": ("2025-01-13", "2025-01-03T21:30:00Z"),
        "splits": (None, None),
    }
    assert sources["option_daily"]["instruments"] == 42


def test_freshness_finds_the_newest_bar_also_long_after_it() -> None:
    sources = ask("health.freshness", as_of="2026-01-01T00:00:00Z")["sources"]
    assert (sources["stock_daily"]["latest_date"], sources["stock_minute"]["latest_date"]) == ("2025-02-28", "2025-01-10")
    before = ask("health.freshness", as_of="2024-12-31T00:00:00Z")["sources"]
    assert {source["latest_ts"] for source in before.values()} == {None}


def test_a_cursor_is_a_short_opaque_text() -> None:
    text = write_cursor("AVLN", 1_736_173_800_000_000_000)
    assert read_cursor(text, (str, int)) == ("AVLN", 1_736_173_800_000_000_000)
    assert len(text) < MAX_LENGTH
    assert "=" not in text


def test_too_many_tickers_are_refused() -> None:
    tickers = ",".join(f"S{i}" for i in range(201))
    for name in ("stock.daily", "stock.minute", "crypto.daily", "crypto.minute", "dividends.query", "splits.query"):
        assert refused(name, tickers=tickers, start="2025-01-06", end="2025-01-07").field == "tickers"
