"""Days, gaps and currencies of fetched markets, from a local server whose answers are cut, late,
shifted or in other currencies.
"""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal
from ktdeval_data.fetch.bar_timestamps import days_of_ends, days_of_midnights
from ktdeval_data.fetch.coverage import missing_of, problems_of
from ktdeval_data.fetch.libraries import _plain_cell
from ktdeval_data.fetch.quote_currencies import in_whole_units
from support.market.vendor_answers import (
    COIN_DAYS,
    DAYS,
    FIRST,
    LAST,
    SPAN,
    VendorServer,
    fetch_words,
    forget,
    kline,
)
from support.paths import SUPPORT

Reply = dict[str, Any]


def words_of(request: str) -> Callable[..., list[str]]:
    def words(out: Path, server: VendorServer, *more: str) -> list[str]:
        return fetch_words(f"{request} {SPAN}", out, "--endpoint", server.endpoint, *more)

    return words


coins = words_of("crypto --from binance --symbols BTCUSDT")
stocks = words_of("us --from alpaca --symbols AAPL")
csi300 = words_of("csi300 --from tushare --repair accept_member_count")


def instant(day: str, hour: int = 0) -> int:
    """Milliseconds of an hour of UTC."""
    return int(datetime.fromisoformat(f"{day}T{hour:02d}:00:00+00:00").timestamp() * 1000)


def beginning_at(
    hour: int,
    other: int | None = None,
) -> Callable[[str, dict[str, str], Reply], Reply]:
    """Return an edit by which bars begin at an hour of UTC, at `other` from 2024-02-01 on; the
    price of a bar counts its days.
    """

    def edit(api: str, params: dict[str, str], reply: Reply) -> Reply:
        if "rows" not in reply:
            return reply

        rows = []
        for number in range(-3, 20):
            day = str(date.fromisoformat(FIRST) + timedelta(days=number))
            opened = instant(day, hour if other is None or day < "2024-02-01" else other)
            prices = [f"{100 + number + shift}" for shift in (0, 1, -1, 0)]
            if int(params["startTime"]) <= opened <= int(params["endTime"]):
                rows.append(kline(opened, *prices, "1.5", "63.0"))

        return {"rows": rows}

    return edit


def without(*days: str) -> Callable[[str, dict[str, str], Reply], Reply]:
    """Return an edit that leaves bars of coins out on some days."""

    def edit(api: str, params: dict[str, str], reply: Reply) -> Reply:
        left = [instant(day) for day in days]
        rows = [row for row in reply.get("rows", ()) if row[0] not in left]
        return {"rows": rows} if "rows" in reply else reply

    return edit


# ---- the day of a bar


@pytest.mark.slow
def test_a_bar_that_begins_at_midnight_of_utc_is_of_that_day(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
) -> None:
    server.edit = beginning_at(0)
    assert "begin at" not in terminal.out(*coins(tmp_path / "m", server))
    assert load_snapshot(tmp_path / "m").close[:, 0].tolist() == list(range(100, 113))


@pytest.mark.slow
def test_bar_starting_at_utc_plus_8_midnight_belongs_to_its_end_day(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    server.edit = beginning_at(16)
    printed = terminal.out(*coins(tmp_path / "m", server))

    assert (
        "note: bars of BTCUSDT begin at 16:00 UTC, and are dated by the day of UTC on which"
        " they end" in printed
    )

    market = load_snapshot(tmp_path / "m")
    assert tuple(map(str, market.days)) == COIN_DAYS
    # The bar of 2024-01-25 began the day before at 16:00. Dated by its start, it would be known 16
    # hours early.
    assert market.close[:, 0].tolist() == list(range(99, 112))


@pytest.mark.slow
def test_bars_of_one_coin_that_begin_at_two_times_of_day_are_refused(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    server.edit = beginning_at(0, 16)
    error = terminal.error(*coins(tmp_path / "m", server))

    assert (
        "binance: bars of BTCUSDT begin at 00:00 and 16:00 UTC; choose days with one of them"
        in error
    )
    # As the message says.
    assert main([*coins(tmp_path / "m", server), "--last", "2024-01-31"]) == 0


@pytest.mark.parametrize("stamp", [1_706_140_800, 1_706_140_800_000_000, "2024-01-25"])
def test_a_time_in_another_unit_is_no_day(stamp: object) -> None:
    with pytest.raises(DataError, match="here: "):
        days_of_ends(pd.Series([stamp], dtype=object), "here")


def test_midnights_are_those_of_the_zone_in_winter_and_summer() -> None:
    stamps = pd.Series(["2024-01-25T05:00:00Z", "2024-07-01T04:00:00Z"], dtype=object)
    days = days_of_midnights(stamps, "America/New_York", "here")
    assert days.tolist() == [pd.Timestamp("2024-01-25"), pd.Timestamp("2024-07-01")]


@pytest.mark.parametrize("wrong", ["2024-01-25T14:30:00Z", "2024-01-25T00:00:00Z", "soon"])
def test_a_moment_that_is_no_midnight_of_the_zone_is_refused(wrong: str) -> None:
    with pytest.raises(DataError, match="no midnight in America/New_York"):
        days_of_midnights(pd.Series([wrong], dtype=object), "America/New_York", "here")


def test_a_moment_within_a_day_is_not_cut_to_a_day() -> None:
    midnight = pd.Timestamp("2024-01-25", tz="Asia/Hong_Kong")
    assert _plain_cell(midnight) == "2024-01-25"
    assert _plain_cell(date(2024, 1, 25)) == "2024-01-25"
    assert _plain_cell(midnight + pd.Timedelta(hours=16)) == "2024-01-25T16:00:00+08:00"
    assert _plain_cell(pd.NaT) is None


def test_a_stamp_of_alpaca_within_a_day_is_refused(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
) -> None:
    def later(api: str, params: dict[str, str], reply: Reply) -> Reply:
        for bar in reply.get("bars", {}).get("AAPL", ()):
            bar["t"] = bar["t"].replace("05:00", "14:30")

        return reply

    server.edit = later

    assert "'2024-01-25T14:30:00Z', no midnight in America/New_York" in terminal.error(
        *stocks(tmp_path / "m", server)
    )


# ---- pages and spans


@pytest.mark.exhaustive
def test_a_page_that_ends_early_is_asked_on(tmp_path: Path, server: VendorServer) -> None:
    assert main(coins(tmp_path / "whole", server)) == 0

    server.asked.clear()
    server.edit = lambda api, params, reply: (
        {"rows": reply["rows"][:4]} if "rows" in reply else reply
    )

    assert main(coins(tmp_path / "cut", server)) == 0

    asked = [params["startTime"] for path, params in server.asked if path == "/api/v3/klines"]
    assert len(asked) == len(set(asked)) == 4
    assert load_snapshot(tmp_path / "cut").id == load_snapshot(tmp_path / "whole").id


@pytest.mark.exhaustive
def test_a_page_that_begins_late_is_asked_back(tmp_path: Path, server: VendorServer) -> None:
    # Tushare sends the newest rows first, so that its limit cuts off the oldest.
    assert main(csi300(tmp_path / "whole", server)) == 0

    server.change_items(lambda items: items[:4], "daily", "adj_factor")

    assert main(csi300(tmp_path / "cut", server)) == 0
    assert load_snapshot(tmp_path / "cut").id == load_snapshot(tmp_path / "whole").id


@pytest.mark.exhaustive
def test_alpaca_s_further_pages_are_asked_for(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(stocks(tmp_path / "whole", server)) == 0

    def paged(api: str, params: dict[str, str], reply: Reply) -> Reply:
        if "bars" not in reply:
            return reply

        start = int(params.get("page_token", 0))
        bars = reply["bars"]["AAPL"]
        following = str(start + 4) if start + 4 < len(bars) else None

        return {"bars": {"AAPL": bars[start : start + 4]}, "next_page_token": following}

    server.edit = paged

    assert main(stocks(tmp_path / "paged", server)) == 0
    assert load_snapshot(tmp_path / "paged").id == load_snapshot(tmp_path / "whole").id

    server.edit = lambda api, params, reply: {**reply, "next_page_token": "same"}
    monkeypatch.setattr(time, "sleep", lambda _: None)  # such a reply is asked for again

    assert "the same next page twice" in terminal.error(*stocks(tmp_path / "loop", server))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("days", "found"),
    [
        (COIN_DAYS[8:], "BTCUSDT ends 2024-02-01 (5 sessions missing)"),
        (COIN_DAYS[5:7], "BTCUSDT lacks 2 sessions between, the first 2024-01-30"),
    ],
)
def test_days_that_a_vendor_lacks_are_an_error_or_a_stated_gap(
    tmp_path: Path, server: VendorServer, terminal: Terminal, days: Sequence[str], found: str
) -> None:
    server.edit = without(*days)
    code, _, message = terminal.call(*coins(tmp_path / "m", server))

    assert code == 2
    assert f"binance, asked from {FIRST} to {LAST}: days are missing: {found}. Delete " in message
    assert not (tmp_path / "m").exists()

    # Kept, as the message says: the snapshot names them.
    printed = terminal.out(*coins(tmp_path / "m", server, "--accept-gaps"))
    assert f"note: accepted gaps: {found}" in printed

    # Asked for again, as the message says.
    server.edit = lambda api, params, reply: reply
    shutil.rmtree(tmp_path / "m.answers")

    assert main(coins(tmp_path / "n", server)) == 0
    assert tuple(map(str, load_snapshot(tmp_path / "n").days)) == COIN_DAYS


@pytest.mark.slow
def test_a_late_first_day_is_noted_if_the_vendor_names_no_day_of_listing(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    server.edit = without(*COIN_DAYS[:3])
    printed = terminal.out(*coins(tmp_path / "m", server))

    assert (
        "note: first bars after the first day asked for; the vendor names no day of listing:"
        " BTCUSDT 2024-01-28" in printed
    )


def test_late_first_day_is_explained_only_by_a_later_listing() -> None:
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-01-11"))
    missing = missing_of("BTCUSD", days[5:], days)

    assert problems_of(missing, "2024-01-06") == []
    assert problems_of(missing, "2023-05-01") == [
        "BTCUSD begins 2024-01-06, listed 2023-05-01 (5 sessions missing)"
    ]


@pytest.mark.exhaustive
def test_an_empty_reply_for_a_list_of_members_is_an_error(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
) -> None:
    server.change_items(lambda items: [], "index_weight", start_date="20240101")

    assert "days are missing: no list of members of 2024-01-01" in terminal.error(
        *csi300(tmp_path / "m", server)
    )
    assert main(csi300(tmp_path / "m", server, "--accept-gaps")) == 0


@pytest.mark.exhaustive
def test_an_empty_reply_for_the_bars_of_a_member_is_an_error(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
) -> None:
    server.change_items(lambda items: [], "daily", ts_code="688981.SH")

    assert "days are missing: 688981.SH has no bars. Delete " in terminal.error(
        *csi300(tmp_path / "m", server)
    )
    assert "note: accepted gaps: 688981.SH has no bars" in terminal.out(
        *csi300(tmp_path / "m", server, "--accept-gaps")
    )


@pytest.mark.exhaustive
def test_member_without_recent_bars_is_assumed_halted_and_named(
    tmp_path: Path, server: VendorServer, terminal: Terminal
) -> None:
    server.change_items(
        lambda items: [item for item in items if item[1] < "20240205"],
        "daily",
        ts_code="600519.SH",
    )
    printed = terminal.out(*csi300(tmp_path / "m", server))

    assert (
        "note: no bars on the last sessions, taken as halts: 600519.SH from 2024-02-05" in printed
    )


# ---- currencies


@pytest.fixture
def yahoo(
    server: VendorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., list[str]]]:
    """Return the words of a fetch by the stand-in of yfinance, of one stock in a currency."""
    monkeypatch.syspath_prepend(str(SUPPORT / "market" / "vendor_libraries"))
    forget("yfinance")
    module = importlib.import_module("yfinance")
    cells = dict.fromkeys(("Open", "High", "Low", "Close"), 100.0)
    cells |= {"Volume": 1000, "Dividends": 0.0, "Stock Splits": 0.0}
    midnights = pd.DatetimeIndex(DAYS, name="Date", tz="America/New_York")
    frame = pd.DataFrame(cells, index=midnights)

    def words(out: Path, currency: str, *more: str) -> list[str]:
        monkeypatch.setattr(module.Ticker, "history", lambda self, **_: frame)
        monkeypatch.setattr(
            module.Ticker, "get_history_metadata", lambda self: {"currency": currency}
        )
        return fetch_words(f"us --from yfinance --symbols XYZ {SPAN}", out, *more)

    yield words
    forget("yfinance")


def rates_of(folder: Path, currency: str, rate: float) -> Path:
    path = folder / "rates.csv"
    rows = [f"{day},{currency},{rate}" for day in ("2024-01-24", *DAYS)]
    path.write_text("\n".join(["date,currency,rate", *rows, ""]))
    return path


@pytest.mark.exhaustive
def test_a_vendor_s_other_currency_is_named_and_converted(
    tmp_path: Path, yahoo: Callable[..., list[str]], terminal: Terminal
) -> None:
    error = terminal.error(*yahoo(tmp_path / "m", "HKD"))
    assert (
        "symbols: yfinance quotes XYZ in HKD, and this market counts in USD; leave them out, or"
        " convert them" in error
    )
    assert "--fx RATES --currency USD" in error

    rates = rates_of(tmp_path, "HKD", 0.128)
    printed = terminal.out(*yahoo(tmp_path / "m", "HKD", "--fx", str(rates), "--currency", "USD"))

    assert "prices of 1 asset in HKD are converted to USD" in printed
    assert load_snapshot(tmp_path / "m").close[0, 0] == pytest.approx(12.8)


@pytest.mark.slow
def test_pence_are_hundredths_of_a_pound(
    tmp_path: Path,
    yahoo: Callable[..., list[str]],
    terminal: Terminal,
) -> None:
    rates = rates_of(tmp_path, "GBP", 1.25)
    printed = terminal.out(*yahoo(tmp_path / "m", "GBp", "--fx", str(rates), "--currency", "USD"))
    assert "note: prices of XYZ in GBp are divided by 100, to GBP" in printed
    assert load_snapshot(tmp_path / "m").close[0, 0] == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("unit", "whole", "parts"),
    [
        ("GBp", "GBP", 100),
        ("GBX", "GBP", 100),
        ("ILA", "ILS", 100),
        ("ZAc", "ZAR", 100),
        ("KWF", "KWD", 1000),
    ],
)
def test_parts_of_a_currency_are_brought_to_whole_units_with_dividends(
    unit: str,
    whole: str,
    parts: int,
) -> None:
    bars = pd.DataFrame(
        {
            "code": ["A", "B"],
            "close": [500.0, 500.0],
            "dividend": [10.0, 10.0],
            "volume": [7.0, 7.0],
        }
    )
    converted, currencies, notes = in_whole_units(bars, {"A": unit, "B": "USD"})

    assert converted["close"].tolist() == [500.0 / parts, 500.0]
    assert converted["dividend"].tolist() == [10.0 / parts, 10.0]
    assert converted["volume"].tolist() == [7.0, 7.0]
    assert currencies == {"A": whole, "B": "USD"}
    assert notes == [f"prices of A in {unit} are divided by {parts}, to {whole}"]


@pytest.mark.exhaustive
def test_the_second_coin_of_a_pair_is_its_currency(
    tmp_path: Path,
    server: VendorServer,
    terminal: Terminal,
) -> None:
    printed = terminal.out(*coins(tmp_path / "m", server))
    assert "note: USDT is taken as USD in the prices of BTCUSDT" in printed
    error = terminal.error(*coins(tmp_path / "n", server, "--symbols", "BTCEUR,BTCUSDT"))
    assert "symbols: binance quotes BTCEUR in EUR, and this market counts in USD" in error


def test_a_stock_that_left_yahoo_ends_early_and_is_not_asked_for_ever(
    tmp_path: Path,
    yahoo: Callable[..., list[str]],
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = yahoo(tmp_path / "m", "USD")
    module = importlib.import_module("yfinance")
    whole = module.Ticker.history
    starts: list[str] = []

    def delisted(self: Any, start: str, **settings: Any) -> pd.DataFrame:
        starts.append(start)
        frame = whole(self)[:6]
        if start > DAYS[5]:
            raise module.exceptions.YFPricesMissingError(
                f"$XYZ: Data doesn't exist for startDate = {start}"
            )

        return frame

    monkeypatch.setattr(module.Ticker, "history", delisted)

    assert f"XYZ ends {DAYS[5]} (3 sessions missing)" in terminal.error(*words)
    assert starts == [FIRST, DAYS[6]]
