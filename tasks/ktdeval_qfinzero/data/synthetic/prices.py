"""Prices of stocks and coins: what moves them all, what moves each, and their bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval_qfinzero.data.memory import BarKey, MemoryPrices
from ktdeval_qfinzero.data.rows import Bars, SymbolRow
from ktdeval_qfinzero.data.synthetic.corporate import Life, live, log_factor
from ktdeval_qfinzero.data.synthetic.earnings import Report, draw_reports
from ktdeval_qfinzero.data.synthetic.engine import Moves, Shock, Tape, Traded, combine, draw_moves, make_tape, with_shocks
from ktdeval_qfinzero.data.synthetic.grid import Grid, session_grid, shift_sessions
from ktdeval_qfinzero.data.synthetic.happenings import Happening, draw_happenings
from ktdeval_qfinzero.data.synthetic.names import SECTORS, STOCKS, Coin, Size, Stock
from ktdeval_qfinzero.moments import DAY, day_start

_MARKET_VOLATILITY, _MARKET_DRIFT = 0.0085, 0.0003
_SECTOR_VOLATILITY = 0.0045
_COIN_VOLATILITY = 0.026
_TRADES: Mapping[Size, tuple[float, float]] = {
    "mega": (260_000.0, 95.0),
    "large": (62_000.0, 82.0),
    "mid": (11_000.0, 75.0),
    "thin": (420.0, 90.0),
}
"""Trades on an ordinary day, and shares of one."""
_COIN_TRADES = 90_000.0


@dataclass(frozen=True, eq=False)
class Common:
    """Moves of the market, and of each sector on top of it."""

    market: Moves
    sectors: Mapping[str, Moves]


@dataclass(frozen=True)
class Course:
    """All that happens to a company, before it is known what that does to its price.

    Attributes:
        life: listing, splits, dividends, halt, bid.
        reports: its earnings.
        happenings: news of its own, and what analysts say.
        shocks: jumps that reports and happenings cause.
    """

    life: Life
    reports: tuple[Report, ...]
    happenings: tuple[Happening, ...]
    shocks: tuple[Shock, ...]


def common_moves(seed: int, grid: Grid, shocks: list[Shock]) -> Common:
    """What moves all stocks.

    Args:
        seed: of the market.
        grid: sessions.
        shocks: jumps of all stocks.
    """
    market = draw_moves(seed, ("equities",), grid, _MARKET_VOLATILITY, _MARKET_DRIFT)
    sectors = {sector: draw_moves(seed, ("sector", sector), grid, _SECTOR_VOLATILITY) for sector in SECTORS}
    return Common(with_shocks(market, shocks), sectors)


def draw_course(seed: int, stock: Stock, grid: Grid) -> Course:
    """What happens to a company."""
    life = live(seed, stock, grid)
    reports, report_shocks = draw_reports(seed, life, grid)
    happenings = draw_happenings(seed, life, reports, grid)
    return Course(life, reports, happenings, (*report_shocks, *(happening.shock for happening in happenings)))


def make_stock(seed: int, grid: Grid, common: Common, course: Course) -> Tape:
    """A stock's bars on all days."""
    life, stock = course.life, course.life.stock
    own = with_shocks(draw_moves(seed, ("stock", stock.ticker), grid, stock.volatility), course.shocks)
    parts = [(stock.beta, common.market), (1.0, common.sectors[stock.sector]), (1.0, own)]
    moves = with_shocks(combine(parts, life.exposure(len(grid))), life.shocks)
    trades, size = _TRADES[stock.size]
    sizes = size * np.array([life.shares_per_first(day) for day in grid.days])
    traded = Traded(stock.price, log_factor(life, grid, moves), life.open_days(len(grid)), trades, sizes)
    return make_tape(seed, ("stock", stock.ticker), grid, moves, traded)


def usual_volatility(stock: Stock) -> float:
    """Standard deviation of an ordinary day's return of a stock."""
    return math.hypot(stock.beta * _MARKET_VOLATILITY, _SECTOR_VOLATILITY, stock.volatility)


def coin_moves(seed: int, grid: Grid) -> Moves:
    """What moves all coins."""
    return draw_moves(seed, ("all coins",), grid, _COIN_VOLATILITY, 0.0006)


def make_coin(seed: int, grid: Grid, common: Moves, coin: Coin) -> Tape:
    """A coin's bars on all days, every minute of them."""
    own = draw_moves(seed, ("coin", coin.ticker), grid, coin.volatility)
    moves = combine([(coin.beta, common), (1.0, own)])
    days = len(grid)
    size = np.full(days, coin.coins_a_day / _COIN_TRADES)
    traded = Traded(coin.price, np.zeros(days), np.ones(days, dtype=np.bool_), _COIN_TRADES, size, whole=False)
    return make_tape(seed, ("coin", coin.ticker), grid, moves, traded)


def coin_row(coin: Coin, grid: Grid) -> SymbolRow:
    """The coin's listing, known from a year before the first day."""
    return SymbolRow(coin.ticker, "crypto", coin.name, "crypto", day_start(grid.days[0]) - 365 * DAY)


def generate_minutes(symbols: int = 50, days: int = 252, seed: int = 0) -> MemoryPrices:
    """Stocks with bars of minutes and nothing else, for measurements: 50 of them make 4.6 million bars in a year.

    Args:
        symbols: number of stocks; beyond the table, its tickers with a number behind.
        days: sessions from 2024-01-02 on.
        seed: of the market.
    """
    first = date(2024, 1, 2)
    grid = session_grid(first, shift_sessions(first, days - 1))
    common = common_moves(seed, grid, [])
    table: dict[BarKey, Bars] = {}
    rows = []
    for count in range(symbols):
        stock = STOCKS[count % len(STOCKS)]
        name = stock.ticker + (str(count // len(STOCKS) + 1) if count >= len(STOCKS) else "")
        plain = stock._replace(ticker=name, role="plain", yield_pct=0.0)
        course = Course(live(seed, plain, grid), (), (), ())
        table["stock", name, "minute"] = make_stock(seed, grid, common, course).minutes
        rows.append(SymbolRow(name, "stock", stock.name, stock.sector, day_start(first) - DAY))
    return MemoryPrices(table, rows)
