"""Bars of stocks and coins: rows, pages, adjustments, indicators; rates, dividends, splits and
symbols as of the clock.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.cursors import MAX_LENGTH, read_cursor, write_cursor
from ktdeval_qfinzero.data.rows import DividendRow, RateRow, SplitRow
from ktdeval_qfinzero.timestamps import MINUTE
from ktdeval_qfinzero.upq.rows_and_indicators import indicator_columns
from support.qfinzero.qfinzero_upq import MINUTE_OPTION, all_rows, ask, column, market, refused
from support.qfinzero.qfinzero_world import at, bars_of, small_dataset, stock_days, with_prices

EARLY = at("2024-01-01T00:00:00Z")
JANUARY = {"start": "2025-01-01", "end": "2025-01-31"}
PRICES = ("open", "high", "low", "close")
NEW_YEAR = {"start": "2025-01-02", "end": "2025-01-17"}


def test_bar_rows_have_store_prices_in_order_with_the_requested_columns() -> None:
    (row,) = ask("stock.daily", tickers="AVLN", start="2025-01-03", end="2025-01-03")["bars"]
    bars = market().prices.bar_table["stock", "AVLN", "day"]  # type: ignore[attr-defined]
    prices = {name: getattr(bars, f"{name}_e4")[1] / 10_000 for name in PRICES}

    assert row == {
        "ticker": "AVLN",
        "date": "2025-01-03",
        **prices,
        "volume": 4_000_000,
        "transactions": 10,
    }

    rows = ask(
        "stock.daily",
        tickers="CSTL,AVLN,CSTL",
        start="2025-01-02",
        end="2025-01-03",
        fields="volume, close",
    )["bars"]

    assert [(row["ticker"], row["date"]) for row in rows] == [
        ("AVLN", "2025-01-02"),
        ("AVLN", "2025-01-03"),
        ("CSTL", "2025-01-02"),
        ("CSTL", "2025-01-03"),
    ]
    assert list(rows[0]) == ["ticker", "date", "close", "volume"]


def test_both_ends_are_included_and_a_moment_may_have_any_offset() -> None:
    rows = ask(
        "stock.minute", tickers="AVLN", start="2025-01-06T14:30:00", end="2025-01-06T09:32:00-05:00"
    )["bars"]

    assert column(rows, "window_start") == [
        "2025-01-06T14:30:00Z",
        "2025-01-06T14:31:00Z",
        "2025-01-06T14:32:00Z",
    ]
    assert (
        len(ask("stock.minute", tickers="AVLN", start="2025-01-06", end="2025-01-06")["bars"])
        == 390
    )


@pytest.mark.parametrize(
    ("name", "ticker", "origin", "step"),
    [*(("stock", "AVLN", "14:30", step) for step in (5, 15, 60)), ("crypto", "BTCX", "00:00", 30)],
)
def test_longer_bars_match_pandas_over_the_minutes_of_a_session(
    name: str, ticker: str, origin: str, step: int
) -> None:
    day = {"tickers": ticker, "start": "2025-01-06", "end": "2025-01-07"}
    minutes = pd.DataFrame(ask(f"{name}.minute", **day)["bars"])
    minutes.index = pd.to_datetime(minutes["window_start"])
    rules = {
        "open": "first",
        "high": "max",
        "low": "min",
        "close": "last",
        "volume": "sum",
        "transactions": "sum",
    }
    grouped = minutes.resample(f"{step}min", origin=pd.Timestamp(f"2025-01-06T{origin}:00Z"))
    expected = grouped.agg(rules).dropna(subset="open")
    rows = ask(f"{name}.minute", interval=f"{step}m", **day)["bars"]

    assert all_rows(f"{name}.minute", "bars", interval=f"{step}m", limit=17, **day) == rows
    assert column(rows, "window_start") == [
        moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in expected.index
    ]

    for field in rules:
        assert column(rows, field) == pytest.approx(expected[field].tolist())

    last = [row for row in rows if not row["is_whole"]]
    closes = (
        ["2025-01-06T21:00:00Z", "2025-01-07T21:00:00Z"] if (name, step) == ("stock", 60) else []
    )

    assert column(last, "window_end") == closes  # 390 minutes are no whole number of hours


def test_the_running_bar_states_its_end_and_shows_nothing_later() -> None:
    day = {
        "tickers": "AVLN",
        "start": "2025-01-06T14:30:00Z",
        "end": "2025-01-06T15:29:00Z",
        "interval": "30m",
    }
    early = ask("stock.minute", as_of="2025-01-06T15:07:30Z", **day)["bars"]
    whole = ask("stock.minute", as_of="2025-01-06T15:30:00Z", **day)["bars"]

    assert early[0] == whole[0]
    assert [(row["window_end"], row["is_whole"]) for row in (early[1], whole[1])] == [
        *(("2025-01-06T15:07:00Z", False), ("2025-01-06T15:30:00Z", True))
    ]
    assert early[1]["transactions"] < whole[1]["transactions"]
    assert early[1]["open"] == whole[1]["open"]

    middle = ask("stock.minute", **{**day, "start": "2025-01-06T14:40:00Z"})["bars"]
    # the one of 14:30 starts before
    assert column(middle, "window_start") == ["2025-01-06T15:00:00Z"]


def test_minutes_after_the_close_have_longer_bars_of_their_own() -> None:
    # 390 minutes of the session, and an hour after it
    opened = at("2025-01-06T14:30:00Z")
    count = 450
    bars = bars_of(opened + MINUTE * np.arange(count), 1_000_000 + 100 * np.arange(count), 1.0)
    dataset = with_prices(small_dataset(), {("stock", "AVLN", "minute"): bars})
    day = {"tickers": "AVLN", "start": "2025-01-06", "end": "2025-01-06", "interval": "60m"}
    rows = ask("stock.minute", dataset=dataset, **day)["bars"][-3:]

    assert [
        (row["window_start"][11:16], row["window_end"][11:16], row["is_whole"], row["volume"])
        for row in rows
    ] == [
        *(
            ("20:30", "21:00", False, 30),
            ("21:00", "21:30", False, 30),
            ("21:30", "22:30", True, 30),
        )
    ]
    assert column(rows, "close") == [100 + 0.01 * last for last in (389, 419, 449)]


@pytest.mark.slow
def test_bar_pages_together_are_the_whole_answer_even_across_tickers() -> None:
    days = len(ask("stock.daily", tickers="AVLN", **NEW_YEAR)["bars"])
    three = "AVLN,BRKT,CSTL"
    for tickers, limit in (
        (three, 1),
        (three, 4),
        (three, days),
        ("CSTL", 3),
        ("BRKT,NOPE,AVLN", 7),
    ):
        arguments = {"tickers": tickers, **NEW_YEAR, "indicators": "ma_2,ema_3", "adjust": "total"}
        assert (
            all_rows("stock.daily", "bars", limit=limit, **arguments)
            == ask("stock.daily", **arguments)["bars"]
        )

    minutes = {"tickers": three, "start": "2025-01-06", "end": "2025-01-10", "fields": "close"}

    assert (
        all_rows("stock.minute", "bars", limit=450, **minutes)
        == ask("stock.minute", **minutes)["bars"]
    )

    first = ask("stock.daily", tickers="AVLN,BRKT", **NEW_YEAR, limit=days)
    second = ask(
        "stock.daily", tickers="AVLN,BRKT", **NEW_YEAR, limit=days, cursor=first["next_cursor"]
    )

    assert (set(column(first["bars"], "ticker")), set(column(second["bars"], "ticker"))) == (
        {"AVLN"},
        {"BRKT"},
    )
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "!!!!",
        "AAAA",
        "W10",
        "WzFd",
        "WyJBIl0",
        "WyJBIiwtMV0",
        "WyJBIiwxLjBd",
        "W" * 500,
        "eyJhIjoxfQ",
        "é",
    ],
)
def test_a_text_that_is_no_cursor_is_refused(cursor: Any) -> None:
    assert refused("stock.daily", tickers="AVLN", **JANUARY, cursor=cursor).field == "cursor"


def test_coins_have_bars_every_day_and_night_and_are_not_stocks() -> None:
    days = ask("crypto.daily", tickers="BTCX", start="2025-01-02", end="2025-01-15")["bars"]
    assert (len(days), days[0]["volume"]) == (14, 1234.5678)
    assert (
        len(ask("crypto.minute", tickers="BTCX", start="2025-01-06", end="2025-01-06")["bars"])
        == 24 * 60
    )
    assert (
        ask("crypto.daily", as_of="2025-01-06T23:59:59Z", tickers="BTCX", **JANUARY)["bars"][-1][
            "date"
        ]
        == "2025-01-05"
    )

    unknown = [
        ask(name, tickers="BTCX,AVLN", **JANUARY)["unknown"]
        for name in ("stock.daily", "crypto.daily")
    ]

    assert unknown == [["BTCX"], ["AVLN"]]


# --- adjustments ------------------------------------------------------------


def closes(as_of: str, adjust: str, ticker: str = "CSTL") -> dict[str, float]:
    rows = ask(
        "stock.daily", as_of=as_of, tickers=ticker, **JANUARY, adjust=adjust, fields="close"
    )["bars"]
    return dict(zip(column(rows, "date"), column(rows, "close")))


def test_a_split_divides_earlier_prices_and_multiplies_earlier_volumes() -> None:
    raw = ask("stock.daily", tickers="CSTL", **JANUARY)["bars"]
    adjusted = ask("stock.daily", tickers="CSTL", **JANUARY, adjust="split")
    for before, after in zip(raw, adjusted["bars"], strict=True):
        ratio = 2 if before["date"] < "2025-01-21" else 1
        assert [after[name] * ratio for name in PRICES] == [before[name] for name in PRICES]
        assert after["volume"] == before["volume"] * ratio

    (event,) = adjusted["adjustments"]

    assert list(event.values()) == ["CSTL", "split", "2025-01-21", 0.5, 2.0]


def test_dividend_scales_earlier_prices_by_one_less_its_yield() -> None:
    raw, total, split = (
        closes("2025-01-31T21:00:00Z", adjust, "AVLN") for adjust in ("none", "total", "split")
    )
    factor = 1 - 0.25 / raw["2025-01-10"]  # ex on the 13th, a Monday

    assert total == {
        day: pytest.approx(close * (factor if day < "2025-01-13" else 1), abs=1e-6)
        for day, close in raw.items()
    }
    assert split == raw

    # the total return: cash taken off the price before
    held = raw["2025-01-13"] / (raw["2025-01-10"] - 0.25)
    assert total["2025-01-13"] / total["2025-01-10"] == pytest.approx(held, rel=1e-7)


def test_an_event_counts_from_the_open_of_its_ex_day() -> None:
    assert closes("2025-01-21T14:29:59Z", "split") == closes("2025-01-21T14:29:59Z", "none")
    opened = closes("2025-01-21T14:30:00Z", "split")
    day_before = closes("2025-01-21T14:30:00Z", "none")
    assert opened == {day: close / 2 for day, close in day_before.items()}


def test_a_dividend_on_the_day_of_a_split_is_of_a_new_share() -> None:
    rows = {"split_rows": [SplitRow("AVLN", date(2025, 1, 13), 2, 1, EARLY)]}
    rows["dividend_rows"] = [
        DividendRow("AVLN", date(2025, 1, 13), date(2025, 2, 1), 5_000, EARLY)
    ] * 2  # type: ignore[list-item]
    dataset = with_prices(market(), **rows)
    answer = ask(
        "stock.daily",
        dataset=dataset,
        tickers="AVLN",
        start="2025-01-10",
        end="2025-01-10",
        adjust="total",
    )
    raw = ask("stock.daily", tickers="AVLN", start="2025-01-10", end="2025-01-10")["bars"][0][
        "close"
    ]

    assert (answer["bars"][0]["close"], len(answer["adjustments"])) == (
        pytest.approx(raw / 2 - 1.0, abs=1e-6),
        2,
    )


def test_a_dividend_above_the_previous_close_changes_nothing_with_a_note() -> None:
    first = DividendRow("AVLN", stock_days()[0], date(2025, 2, 1), 5_000, EARLY)
    dataset = with_prices(
        market(),
        dividend_rows=[
            first,
            DividendRow("AVLN", date(2025, 1, 13), date(2025, 2, 1), 10**9, EARLY),
        ],
    )
    answer = ask("stock.daily", dataset=dataset, tickers="AVLN", **JANUARY, adjust="total")

    assert column(answer["bars"], "close") == list(
        closes("2025-02-03T00:00:00Z", "none", "AVLN").values()
    )
    assert [event["price_factor"] for event in answer["adjustments"]] == [None]


# --- indicators ------------------------------------------------------------


def test_indicators_worked_by_hand() -> None:
    columns = indicator_columns(("ma_2", "ema_3"), np.array([10.0, 20.0, 40.0, 80.0]))
    np.testing.assert_array_equal(columns["ma_2"], [np.nan, 15.0, 30.0, 60.0])
    # 10, 15, 27.5, 53.75: weight 2 / (3 + 1)
    np.testing.assert_array_equal(columns["ema_3"], [np.nan, np.nan, 27.5, 53.75])


@pytest.mark.slow
@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=80), st.integers(1, 40))
@settings(max_examples=40)
def test_indicators_match_pandas(prices: list[float], bars: int) -> None:
    series = pd.Series(prices)
    columns = indicator_columns((f"ma_{bars}", f"ema_{bars}", "macd"), np.array(prices))
    np.testing.assert_allclose(columns[f"ma_{bars}"], series.rolling(bars).mean(), rtol=1e-9)
    np.testing.assert_allclose(
        columns[f"ema_{bars}"],
        series.ewm(span=bars, adjust=False, min_periods=bars).mean(),
        rtol=1e-9,
    )
    line = series.ewm(span=12, adjust=False).mean() - series.ewm(span=26, adjust=False).mean()
    signal = line.ewm(span=9, adjust=False).mean()
    np.testing.assert_allclose(columns["macd"], line.where(np.arange(len(line)) >= 25), atol=1e-7)
    np.testing.assert_allclose(
        columns["macd_signal"], signal.where(np.arange(len(line)) >= 33), atol=1e-7
    )
    np.testing.assert_allclose(
        columns["macd_histogram"], (line - signal).where(np.arange(len(line)) >= 33), atol=1e-7
    )


def test_days_before_the_start_are_the_warm_up() -> None:
    arguments = {
        "tickers": "AVLN",
        "indicators": "ma_5,ema_5,macd",
        "adjust": "total",
        "fields": "close",
    }
    whole = ask("stock.daily", start="2025-01-01", end="2025-02-28", **arguments)["bars"]
    later = ask("stock.daily", start="2025-02-24", end="2025-02-28", **arguments)["bars"]

    assert later == whole[-len(later) :]
    assert not any(None in row.values() for row in later)
    assert [row["ma_5"] is None for row in whole[:6]] == [True] * 4 + [False] * 2


def test_indicators_are_of_the_series_asked_for() -> None:
    arguments = {
        "tickers": "CSTL",
        "start": "2025-01-21",
        "end": "2025-01-21",
        "indicators": "ma_2",
    }
    raw = closes("2025-01-31T21:00:00Z", "none")
    none, split = (
        ask("stock.daily", **arguments, adjust=adjust)["bars"][0]["ma_2"]
        for adjust in ("none", "split")
    )

    assert none == pytest.approx((raw["2025-01-17"] + raw["2025-01-21"]) / 2)
    assert split == pytest.approx((raw["2025-01-17"] / 2 + raw["2025-01-21"]) / 2)


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    error = refused("stock.daily", tickers="AVLN", **JANUARY, fields="closs")
    assert "did you mean 'close'" in error.message


@pytest.mark.parametrize(
    "indicators",
    [
        "ma_0",
        "ma_401",
        "ma",
        "ema_",
        "rsi_14",
        "ma_05",
        "",
        pytest.param(",".join(f"ma_{n}" for n in range(1, 12)), id="eleven"),
    ],
)
def test_indicators_are_bounded(indicators: str) -> None:
    error = refused("stock.daily", tickers="AVLN", **JANUARY, indicators=indicators)
    assert error.field == "indicators"


# --- defects of the public price service: ours has none of them


def test_daily_answers_are_limited_too() -> None:
    assert catalogue().find("UPQ.stock.daily").properties["limit"]["maximum"] == 100_000
    assert len(ask("stock.daily", tickers="AVLN", **JANUARY, limit=3)["bars"]) == 3


def test_a_day_in_progress_has_no_daily_bar_with_its_close() -> None:
    noon = {"as_of": "2025-01-06T17:00:00Z"}
    assert ask("stock.daily", **noon, tickers="AVLN", **JANUARY)["bars"][-1]["date"] == "2025-01-03"
    assert ask("option.chain_query", **noon, **CHAIN)["contracts"] == []
    assert (
        ask("option.ticker_query", **noon, contract=MINUTE_OPTION, **JANUARY)["bars"][-1]["date"]
        == "2025-01-03"
    )


def test_previous_sessions_minutes_are_not_ex_in_an_always_open_market() -> None:
    starts = at("2025-01-20T18:00:00Z") + 60 * MINUTE * np.arange(12)
    dataset = with_prices(
        small_dataset(), {("stock", "CSTL", "minute"): bars_of(starts, np.full(12, 2_000_000.0))}
    )
    dataset = replace(dataset, info=replace(dataset.info, calendar="24/7"))
    minutes = {
        "tickers": "CSTL",
        "start": "2025-01-20",
        "end": "2025-01-21",
        "adjust": "split",
        "fields": "close",
    }
    rows = ask("stock.minute", dataset=dataset, **minutes)["bars"]

    assert column(rows, "close") == [100.0] * 6 + [200.0] * 6, (
        "two new shares for an old one, from midnight on"
    )


@pytest.mark.parametrize("as_of", ["2025-01-06T21:00:00Z", "2025-01-10T21:00:00Z"])
def test_adjusting_does_not_use_events_that_are_not_yet_ex(as_of: str) -> None:
    """The split of the 21st is announced on the 7th: it must change no price before the 21st's
    open.
    """
    arguments = {"tickers": "CSTL,AVLN", **JANUARY, "as_of": as_of}
    total = ask("stock.daily", **arguments, adjust="total")

    assert total["bars"] == ask("stock.daily", **arguments, adjust="none")["bars"]

    without = with_prices(market(), split_rows=[], dividend_rows=[])
    assert total == ask("stock.daily", **arguments, dataset=without, adjust="total")


def test_adjusting_works_on_minute_bars_too() -> None:
    splits = [SplitRow("BRKT", date(2025, 1, 8), 2, 1, EARLY)]
    dividends = [DividendRow("BRKT", date(2025, 1, 8), date(2025, 1, 20), 10_000, EARLY)]
    day: dict[str, Any] = {"tickers": "BRKT", "start": "2025-01-07", "end": "2025-01-07"}
    dataset = with_prices(market(), split_rows=splits, dividend_rows=dividends)
    none, split, total = (
        ask("stock.minute", **day, dataset=dataset, adjust=how)["bars"]
        for how in ("none", "split", "total")
    )
    factor = 1 - 2 / ask("stock.daily", **day)["bars"][0]["close"]

    assert column(split, "close") == [pytest.approx(price / 2) for price in column(none, "close")]
    assert column(split, "volume") == [volume * 2 for volume in column(none, "volume")]
    assert column(total, "close") == [
        pytest.approx(price * factor, abs=1e-6) for price in column(split, "close")
    ]


CHAIN = {"underlying": "AVLN", "date": "2025-01-06"}
BY_TICKERS = (
    "stock.daily",
    "stock.minute",
    "crypto.daily",
    "crypto.minute",
    "dividends.query",
    "splits.query",
)


def test_a_start_after_the_end_is_refused_in_plain_words() -> None:
    ranged: dict[str, dict[str, str]] = {name: {"tickers": "AVLN"} for name in BY_TICKERS}
    for name, arguments in {
        **ranged,
        "option.ticker_query": {"contract": MINUTE_OPTION},
        "rates.query": {},
    }.items():
        error = refused(name, start="2025-01-10", end="2025-01-09", **arguments)
        assert (error.field, error.message) == (
            "end",
            "lies before start; the range is start to end, both included",
        )


def test_unknown_tickers_are_listed_and_small_letters_refused() -> None:
    answer = ask("stock.daily", tickers="NOPE,AVLN,ALSO", start="2025-01-06", end="2025-01-06")
    assert answer["unknown"] == ["ALSO", "NOPE"]
    assert "capitals" in refused("stock.daily", tickers="avln", **JANUARY).message


# -- reference data


def test_a_curve_is_there_from_its_publication() -> None:
    arguments = {"start": "2025-01-06", "end": "2025-01-06"}
    assert ask("rates.query", as_of="2025-01-06T22:59:59Z", **arguments)["rates"] == []
    assert ask("rates.query", as_of="2025-01-06T23:00:00Z", **arguments, tenors="30Y,1M")[
        "rates"
    ] == [
        {
            "date": "2025-01-06",
            "yield_1_month": 4.30,
            "yield_30_year": 4.80,
            "published_ts": "2025-01-06T23:00:00Z",
        }
    ]


def test_missing_tenor_of_a_curve_is_null_and_a_correction_replaces_it() -> None:
    row = RateRow(date(2025, 1, 6), {"1M": 4.0}, at("2025-01-06T23:00:00Z"))
    corrected = replace(row, yields_pct={"1M": 4.1}, available_ns=at("2025-01-07T23:00:00Z"))
    dataset = with_prices(market(), rate_rows=[corrected, row])
    arguments = {"dataset": dataset, "start": "2025-01-06", "end": "2025-01-06"}
    (curve,) = ask("rates.query", as_of="2025-01-07T00:00:00Z", **arguments)["rates"]

    assert (curve["yield_1_month"], curve["yield_10_year"]) == (4.0, None)

    (curve,) = ask("rates.query", as_of="2025-01-08T00:00:00Z", **arguments)["rates"]
    assert curve["yield_1_month"] == 4.1


def test_dividends_and_splits_are_visible_from_their_announcement() -> None:
    dividend = {"tickers": "AVLN,NOPE", "start": "2025-01-01", "end": "2025-03-01"}
    assert ask("dividends.query", as_of="2025-01-03T21:29:59Z", **dividend)["dividends"] == []

    answer = ask("dividends.query", as_of="2025-01-03T21:30:00Z", **dividend)
    (row,) = answer["dividends"]

    assert list(row) == ["ticker", "ex_dividend_date", "pay_date", "amount", "declared_ts"]
    assert list(row.values()) == ["AVLN", "2025-01-13", "2025-01-31", 0.25, "2025-01-03T21:30:00Z"]
    assert answer["unknown"] == ["NOPE"]

    split = {"tickers": "CSTL", "start": "2025-01-21", "end": "2025-01-21"}
    assert ask("splits.query", as_of="2025-01-07T21:29:59Z", **split)["splits"] == []

    (row,) = ask("splits.query", as_of="2025-01-07T21:30:00Z", **split)["splits"]
    assert (row["new_shares"], row["old_shares"], row["ex_date"]) == (2, 1, "2025-01-21")
    assert ask("splits.query", tickers="CSTL", start="2025-01-22", end="2025-02-21")["splits"] == []


def test_symbols_come_in_pages_and_by_class() -> None:
    assert column(ask("symbols.list")["symbols"], "ticker") == ["AVLN", "BRKT", "BTCX", "CSTL"]
    assert column(ask("symbols.list", asset_class="crypto")["symbols"], "ticker") == ["BTCX"]

    first = ask("symbols.list", limit=3)
    assert column(
        ask("symbols.list", limit=3, cursor=first["next_cursor"])["symbols"], "ticker"
    ) == ["CSTL"]
    assert ask("symbols.list", as_of="2024-11-01T00:00:00Z")["symbols"] == []


def test_a_stock_has_options_once_one_is_listed() -> None:
    rows = [replace(row, listed_ns=at("2025-01-08")) for row in market().prices.contract_rows]  # type: ignore[attr-defined]
    dataset = with_prices(market(), contract_rows=rows)
    has = [
        ask("symbols.list", as_of=f"2025-01-0{day}T00:00:00Z", dataset=dataset)["symbols"][0][
            "has_options"
        ]
        for day in (7, 8)
    ]

    assert has == [False, True]


def test_freshness_goes_as_far_as_the_clock() -> None:
    sources = ask("health.freshness", as_of="2025-01-07T15:00:30Z")["sources"]
    latest = {
        name: (source["latest_date"], source["latest_ts"]) for name, source in sources.items()
    }

    assert latest == {
        **dict.fromkeys(("stock_daily", "option_daily"), ("2025-01-06", "2025-01-06T21:00:00Z")),
        **dict.fromkeys(
            ("stock_minute", "crypto_minute", "option_minute"),
            ("2025-01-07", "2025-01-07T15:00:00Z"),
        ),
        "crypto_daily": ("2025-01-06", "2025-01-07T00:00:00Z"),
        "rates": ("2025-01-06", "2025-01-06T23:00:00Z"),
        "dividends": ("2025-01-13", "2025-01-03T21:30:00Z"),
        "splits": (None, None),
    }
    assert sources["option_daily"]["instruments"] == 42


def test_freshness_finds_the_newest_bar_also_long_after_it() -> None:
    sources = ask("health.freshness", as_of="2026-01-01T00:00:00Z")["sources"]
    assert (sources["stock_daily"]["latest_date"], sources["stock_minute"]["latest_date"]) == (
        "2025-02-28",
        "2025-01-10",
    )

    before = ask("health.freshness", as_of="2024-12-31T00:00:00Z")["sources"]
    assert {source["latest_ts"] for source in before.values()} == {None}


def test_a_cursor_is_a_short_opaque_text() -> None:
    text = write_cursor("AVLN", 1_736_173_800_000_000_000)
    assert read_cursor(text, (str, int)) == ("AVLN", 1_736_173_800_000_000_000)
    assert len(text) < MAX_LENGTH
    assert "=" not in text


@pytest.mark.parametrize("name", BY_TICKERS)
def test_too_many_tickers_are_refused(name: str) -> None:
    tickers = ",".join(f"S{i}" for i in range(201))
    error = refused(name, tickers=tickers, start="2025-01-06", end="2025-01-07")
    assert error.field == "tickers"
