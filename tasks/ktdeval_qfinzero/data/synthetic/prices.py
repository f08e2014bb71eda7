"""Prices of stocks and coins: what moves them all, what moves each, and their bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ktdeval_qfinzero.data.rows import FloatArray, SymbolRow
from ktdeval_qfinzero.data.synthetic.corporate import Life, live, log_factor
from ktdeval_qfinzero.data.synthetic.earnings import Report, draw_reports
from ktdeval_qfinzero.data.synthetic.engine import MarketTape, Moves, Shock, Traded, combine, draw_moves, make_tape, with_shocks
from ktdeval_qfinzero.data.synthetic.grid import Grid
from ktdeval_qfinzero.data.synthetic.happenings import Happening, draw_happenings
from ktdeval_qfinzero.data.synthetic.names import SECTORS, Coin, Size, Stock
from ktdeval_qfinzero.moments import DAY, day_start

_MARKET_VOLATILITY, _MARKET_DRIFT = 0.0085, 0.0003
_SECTOR_VOLATILITY = 0.0045
_COIN_VOLATILITY = 0.026
_TRADES: Mapping[Size, tuple[float, float]] = {
    "mega": (260_000.0, 95.0),
    "large": (62_000.0, 82.0),
    "mid": (11_000.0, 75.0),
    "thin": (420.0, 90.0),
}  #: Trades on an ordinary day, and shares of one
_COIN_TRADES = 90_000.0


@dataclass(frozen=True, eq=False)
class Common:
    """Moves of the market, and of each sector on top of it."""

    market: Moves
    sectors: Mapping[str, Moves]


@dataclass(frozen=True)
class Course:
    """Happenings of a company, before it is known what that does to its price."""

    life: Life  #: listing, splits, dividends, halt, bid
    reports: tuple[Report, ...]  #: its earnings
    happenings: tuple[Happening, ...]  #: news of its own, and what analysts say
    shocks: tuple[Shock, ...]  #: jumps that reports and happenings cause


@dataclass(frozen=True, eq=False)
class Quotes:
    """Closes of all stocks."""

    grid: Grid  #: days
    close: Mapping[str, FloatArray] = field(default_factory=dict)  #: ticker -> [D] dollars; NaN on days without a bar
    #: ticker -> [D] the last close before each day in that day's shares (a split divides it); NaN before the listing
    before: Mapping[str, FloatArray] = field(default_factory=dict)

    def change(self, ticker: str, row: int) -> float:
        """Percent from the last close to a day's; NaN where there is none."""
        return float((self.close[ticker][row] / self.before[ticker][row] - 1.0) * 100.0)

    def changes(self, row: int) -> dict[str, float]:
        """Percent of all stocks that have one, by ticker."""
        found = {ticker: self.change(ticker, row) for ticker in sorted(self.close)}
        return {ticker: change for ticker, change in found.items() if np.isfinite(change)}


def closes_of(grid: Grid, tape: MarketTape, splits: Mapping[int, float]) -> tuple[FloatArray, FloatArray]:
    """[D] closes of a stock, and [D] the last close before each day in that day's shares; `splits`: row of an ex-day -> ratio."""
    close = np.full(len(grid), np.nan)
    close[np.searchsorted(grid.midnight_ns, tape.days.start_ns)] = tape.days.close_e4 / 1e4
    before = np.full(len(grid), np.nan)
    last = np.nan
    for row in range(len(grid)):
        last /= splits.get(row, 1.0)
        before[row] = last
        last = close[row] if np.isfinite(close[row]) else last
    return close, before


def common_moves(seed: int, grid: Grid, shocks: list[Shock]) -> Common:
    """Return what moves all stocks, with the jumps of economic releases."""
    market = draw_moves(seed, ("equities",), grid, _MARKET_VOLATILITY, _MARKET_DRIFT)
    sectors = {sector: draw_moves(seed, ("sector", sector), grid, _SECTOR_VOLATILITY) for sector in SECTORS}
    return Common(with_shocks(market, shocks), sectors)


def draw_course(seed: int, stock: Stock, grid: Grid) -> Course:
    """Return what happens to a company."""
    life = live(seed, stock, grid)
    reports, report_shocks = draw_reports(seed, life, grid)
    happenings = draw_happenings(seed, life, reports, grid)
    return Course(life, reports, happenings, (*report_shocks, *(happening.shock for happening in happenings)))


def make_stock(seed: int, grid: Grid, common: Common, course: Course) -> MarketTape:
    """Return a stock's bars on all days."""
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
    """Return what moves all coins."""
    return draw_moves(seed, ("all coins",), grid, _COIN_VOLATILITY, 0.0006)


def make_coin(seed: int, grid: Grid, common: Moves, coin: Coin) -> MarketTape:
    """Return a coin's bars on all days, every minute of them."""
    own = draw_moves(seed, ("coin", coin.ticker), grid, coin.volatility)
    moves = combine([(coin.beta, common), (1.0, own)])
    days = len(grid)
    size = np.full(days, coin.coins_a_day / _COIN_TRADES)
    traded = Traded(coin.price, np.zeros(days), np.ones(days, dtype=np.bool_), _COIN_TRADES, size, whole=False)
    return make_tape(seed, ("coin", coin.ticker), grid, moves, traded)


def coin_row(coin: Coin, grid: Grid) -> SymbolRow:
    """Return the coin's listing, known from a year before the first day."""
    return SymbolRow(coin.ticker, "crypto", coin.name, "crypto", day_start(grid.days[0]) - 365 * DAY)
