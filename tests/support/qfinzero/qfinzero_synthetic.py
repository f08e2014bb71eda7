"""Generated markets of the tests: a reduced one in memory, made once for a process, and minutes of
many stocks.
"""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import date
from functools import lru_cache

import msgspec
import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    BarKey,
    Bars,
    MomentSpan,
    PriceRows,
    SymbolRow,
)
from ktdeval_qfinzero.data.synthetic.companies import STOCKS, live
from ktdeval_qfinzero.data.synthetic.market import SyntheticMarket, generate
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, session_grid, shift_sessions
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams
from ktdeval_qfinzero.data.synthetic.prices import CompanyCourse, common_moves, make_stock
from ktdeval_qfinzero.timestamps import DAY, day_start
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews, MemoryPrices

ALL_TIME = MomentSpan(0, 2**62)
SMALL = SyntheticMarketParams(
    first_day="2024-10-21",
    last_day="2025-01-15",
    minute_first="2024-12-16",
    minute_last="2024-12-31",
    stocks=9,
    coins=2,
    option_underlyings=2,
    option_minute_underlyings=1,
    option_minute_first="2024-12-23",
    option_minute_last="2024-12-27",
    as_of_day="2024-12-24",
)
"""Nine stocks of every role, three months of days, two weeks of minutes with an early close."""


@lru_cache(maxsize=1)
def small_market() -> SyntheticMarket:
    """Nine stocks, two of them with options, and two coins; a quarter of a second."""
    market = generate(SMALL)
    return dataclasses.replace(market, prices=_in_memory(market.prices))


def digest_of_bars(bars: Bars) -> str:
    """Equal for equal bytes."""
    columns = (np.ascontiguousarray(getattr(bars, name)) for name in BAR_COLUMNS)
    return hashlib.sha256(
        b"".join(column.dtype.str.encode() + column.tobytes() for column in columns)
    ).hexdigest()


def dataset_of(market: SyntheticMarket) -> Dataset:
    """The market as services read it, out of memory."""
    return Dataset(
        market.info,
        _in_memory(market.prices),
        MemoryCalendars(market.events),
        MemoryNews(market.news),
    )


def _in_memory(rows: PriceRows) -> MemoryPrices:
    return MemoryPrices(
        **{field.name: getattr(rows, field.name) for field in dataclasses.fields(PriceRows)}
    )


def generate_minutes(symbols: int = 50, days: int = 252) -> MemoryPrices:
    """Stocks with bars of minutes and nothing else, for measurements: 50 of them make 4.6 million
    bars in a year. `symbols`: number of stocks; beyond the table, its tickers with a number behind;
    `days`: sessions from 2024-01-02 on.
    """
    first = date(2024, 1, 2)
    grid = session_grid(first, shift_sessions(first, days - 1))
    common = common_moves(0, grid, [])
    table: dict[BarKey, Bars] = {}
    rows = []

    for count in range(symbols):
        stock = STOCKS[count % len(STOCKS)]
        name = stock.ticker + (str(count // len(STOCKS) + 1) if count >= len(STOCKS) else "")
        plain = msgspec.structs.replace(stock, ticker=name, role="plain", yield_pct=0.0)
        course = CompanyCourse(live(0, plain, grid), (), (), ())
        table["stock", name, "minute"] = make_stock(0, grid, common, course).minutes
        rows.append(SymbolRow(name, "stock", stock.name, stock.sector, day_start(first) - DAY))

    return MemoryPrices(table, rows)


def bars(asset_class: str, symbol: str, resolution: str) -> Bars:
    """Bars of an instrument of the reduced market."""
    return small_market().prices.bar_table[asset_class, symbol, resolution]


def grid_of(params: SyntheticMarketParams) -> MinuteGrid:
    """The sessions of a market."""
    return session_grid(date.fromisoformat(params.first_day), date.fromisoformat(params.last_day))
