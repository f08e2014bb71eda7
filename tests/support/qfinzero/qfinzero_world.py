"""A small market for the tests of the QFinZero services: three stocks, options, a coin, rates,
events and news, in memory.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    BarKey,
    Bars,
    BorrowRow,
    ContractRow,
    DatasetInfo,
    DividendRow,
    EventRelease,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, SECOND, day_start, parse_moment
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews, MemoryPrices
from support.tables import beside

FIRST = date(2025, 1, 2)
LAST = date(2025, 2, 28)  #: Days with bars of a day
#: Days with bars of minutes (the 9th was a holiday)
MINUTE_FIRST = date(2025, 1, 6)
MINUTE_LAST = date(2025, 1, 10)
START = {"AVLN": 100.0, "BRKT": 50.0, "CSTL": 240.0, "BTCX": 60_000.0}
EXPIRIES = (date(2025, 1, 10), date(2025, 1, 17), date(2025, 2, 21))
STRIKES = (80, 90, 95, 100, 105, 110, 120)
RATES = {"1M": 4.30, "3M": 4.31, "1Y": 4.20, "2Y": 4.25, "5Y": 4.40, "10Y": 4.60, "30Y": 4.80}


def at(text: str) -> int:
    """A moment from its text."""
    return parse_moment(text, "test")


def path(symbol: str, n: int, scale: float = 0.01) -> np.ndarray:
    """A price path [n] in e4 that starts at the symbol's price; equal for equal arguments."""
    rng = np.random.default_rng([ord(letter) for letter in symbol])
    steps = np.concatenate(([0.0], rng.normal(0, scale, n - 1)))
    return np.round(START[symbol] * np.exp(np.cumsum(steps)), 2) * 10_000


def bars_of(start_ns: np.ndarray, close_e4: np.ndarray, volume: float = 10_000.0) -> Bars:
    """Bars whose open is the close before, with a high and low a cent beyond."""
    close = close_e4.astype(np.int64)
    open_ = np.concatenate((close[:1], close[:-1]))
    high = np.maximum(open_, close) + 100
    low = np.maximum(np.minimum(open_, close) - 100, 100)
    count = len(close)

    return Bars(
        np.asarray(start_ns, np.int64),
        open_,
        high,
        low,
        close,
        np.full(count, volume),
        np.full(count, 10, np.int64),
    )


@functools.cache
def stock_days() -> tuple[date, ...]:
    days: list[date] = trading_hours().days.astype(object).tolist()
    return tuple(day for day in days if FIRST <= day <= LAST)


def minute_starts() -> np.ndarray:
    hours = trading_hours()
    rows = [hours.row_of(day) for day in stock_days() if MINUTE_FIRST <= day <= MINUTE_LAST]
    return np.concatenate([hours.minutes(row) for row in rows if row is not None])


@functools.cache
def contracts() -> tuple[OptionContract, ...]:
    return tuple(
        OptionContract("AVLN", expiry, strike * 10_000, right)
        for expiry, right, strike in product(EXPIRIES, "CP", STRIKES)
    )


def bar_table() -> dict[BarKey, Bars]:
    """Bars by key, the caller's own mapping; the bars are shared."""
    return dict(_all_bars())


@functools.cache
def _all_bars() -> dict[BarKey, Bars]:
    days = np.array([day_start(day) for day in stock_days()])
    minutes = minute_starts()
    table: dict[BarKey, Bars] = {}

    for symbol in ("AVLN", "BRKT", "CSTL"):
        table["stock", symbol, "day"] = bars_of(days, path(symbol, len(days)), 4_000_000.0)
        table["stock", symbol, "minute"] = bars_of(minutes, path(symbol, len(minutes), 0.0005))

    every_day = np.arange(day_start(FIRST), day_start(LAST) + DAY, DAY)
    table["crypto", "BTCX", "day"] = bars_of(
        every_day, path("BTCX", len(every_day), 0.03), 1234.5678
    )
    every_minute = np.arange(day_start(MINUTE_FIRST), day_start(date(2025, 1, 8)), MINUTE)
    table["crypto", "BTCX", "minute"] = bars_of(
        every_minute, path("BTCX", len(every_minute), 0.0005), 1.2345
    )
    spot = table["stock", "AVLN", "day"].close_e4

    for contract in contracts():
        alive = days <= day_start(contract.expiry)
        intrinsic = np.array([contract.intrinsic_e4(int(price)) for price in spot[alive]])
        years = (day_start(contract.expiry) - days[alive]) / DAY / 365
        worth = (
            np.round(
                (
                    intrinsic
                    + 0.4
                    * 0.25
                    * spot[alive]
                    * np.sqrt(years + 1 / 365)
                    * np.exp(-intrinsic / spot[alive] * 9)
                )
                / 100
            )
            * 100
        )
        table["option", contract.symbol, "day"] = bars_of(
            days[alive], np.maximum(worth, 100), 500.0
        )

    return table


def _row(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of a row, whose moments and lists are of its types."""
    moments = {
        f"{name}_ns": at(given[name])
        for name in ("time", "announced", "published")
        if name in given
    }
    fields = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }

    return {name: value for name, value in fields.items() if f"{name}_ns" not in moments} | moments


def events() -> list[EventRow]:
    rows = []
    for given in beside(__file__)["events"]:
        fields = _row(given)
        releases = [EventRelease(at(when), value) for when, value in fields.pop("releases")]
        rows.append(EventRow(**fields, releases=tuple(releases)))

    return rows


def news() -> list[NewsRow]:
    return [NewsRow(**_row(given)) for given in beside(__file__)["news"]]


def small_prices() -> MemoryPrices:
    early = at("2024-12-01T00:00:00Z")
    hours = trading_hours()
    return MemoryPrices(
        bar_table(),
        [
            SymbolRow("AVLN", "stock", "Avalon Systems", "technology", early, True),
            SymbolRow("BRKT", "stock", "Bracket Corp", "industrials", early),
            SymbolRow("CSTL", "stock", "Castle Holdings", "financials", early),
            SymbolRow("BTCX", "crypto", "Bitcoin X", "crypto", early),
        ],
        [
            ContractRow(
                contract.symbol, "AVLN", contract.expiry, contract.strike_e4, contract.right, early
            )
            for contract in contracts()
        ],
        [RateRow(day, RATES, hours.close_of(day) + 2 * 3600 * SECOND) for day in stock_days()],
        [
            DividendRow(
                "AVLN", date(2025, 1, 13), date(2025, 1, 31), 2_500, at("2025-01-03T21:30:00Z")
            )
        ],
        [SplitRow("CSTL", date(2025, 1, 21), 2, 1, at("2025-01-07T21:30:00Z"))],
        [BorrowRow("AVLN", early, 100_000, 25), BorrowRow("BRKT", early, 500, 1_200)],
    )


def small_dataset() -> Dataset:
    """The whole market, with its clock at the close of 2025-01-06."""
    info = DatasetInfo(
        "small", True, "0" * 64, FIRST, LAST, MINUTE_FIRST, MINUTE_LAST, at("2025-01-06T21:00:00Z")
    )
    return Dataset(info, small_prices(), MemoryCalendars(events()), MemoryNews(news()))


def with_prices(dataset: Dataset, bars: dict[Any, Bars] | None = None, **rows: Any) -> Dataset:
    """A dataset with further or other bars, and other rows, in its price store."""
    prices = dataset.prices

    assert isinstance(prices, MemoryPrices)

    return replace(
        dataset, prices=replace(prices, bar_table={**prices.bar_table, **(bars or {})}, **rows)
    )


def store_small(folder: Path) -> Path:
    """Store the market in a folder."""
    data = small_dataset()
    save_dataset(folder, small_prices(), events(), news(), data.info)
    return folder
