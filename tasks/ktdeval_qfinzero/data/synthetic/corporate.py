"""Invented companies and coins (`stocks.csv`, `coins.csv`; no name, ticker or business is meant to be anybody's), and the life of a
company's shares: listing, splits, dividends, a halt, a bid and the delisting after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import csv_rows
from ktdeval_qfinzero.data.rows import DividendRow, FloatArray, SplitRow, SymbolRow
from ktdeval_qfinzero.data.synthetic.engine import Moves, Shock
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, shift_sessions, stream
from ktdeval_qfinzero.moments import DAY, day_start

Size = Literal["mega", "large", "mid", "thin"]
Role = Literal["plain", "split", "new", "acquired", "halted"]
Row = TypeVar("Row", bound=msgspec.Struct)


class Stock(msgspec.Struct, frozen=True):
    """A company. `ticker, name, sector, business`: what texts call it; `new, old`: terms of its split."""

    ticker: str
    name: str
    sector: str
    business: str
    price: float  #: dollars at the start
    beta: float  #: exposure to the market
    volatility: float  #: standard deviation of a day's return of its own
    size: Size  #: how much it is traded
    yield_pct: float = 0.0  #: dividends of a year in percent of the first price; 0 pays none
    role: Role = "plain"  #: what happens to it; `role_at` says when, as a fraction of the days
    role_at: float = 0.0
    new: int = 1
    old: int = 1
    hard_to_borrow: bool = False  #: whether shares to sell short are few and dear

    @property
    def optionable(self) -> bool:
        """Whether it may have options: no split, listing, bid or halt ever touches its contracts."""
        return self.role == "plain" and self.size in ("mega", "large")


class Coin(msgspec.Struct, frozen=True):
    """A coin: dollars at the start, exposure to the coins' common move, volatility of its own, mean number traded a day."""

    ticker: str
    name: str
    price: float
    beta: float
    volatility: float
    coins_a_day: float


def _load(name: str, kind: type[Row]) -> tuple[Row, ...]:
    """Rows of a CSV file of this package; an empty cell has the field's default."""
    rows = ({column: cell for column, cell in row.items() if cell} for row in csv_rows(Path(__file__).with_name(name)))
    return tuple(msgspec.convert(row, kind, strict=False) for row in rows)


STOCKS = _load("stocks.csv", Stock)
COINS = _load("coins.csv", Coin)
SECTORS = tuple(dict.fromkeys(stock.sector for stock in STOCKS))


BID_PREMIUM = 0.24  #: Offer of a bidder above the last close
_CALM = 0.06  #: Share of its moves that a stock keeps while it waits for the bidder's money


@dataclass(frozen=True)
class Life:
    """A company's shares; `first_row, last_row`: days of trading; `splits, dividends` with the moment each became known."""

    stock: Stock  #: the company
    first_row: int
    last_row: int
    halted_row: int | None  #: a day without trading; None without one
    bid_row: int | None  #: the day before whose open a bid became known; None without one
    split_row: int | None  #: the ex-day of its split; None without one
    splits: tuple[SplitRow, ...]
    dividends: tuple[DividendRow, ...]
    shocks: tuple[Shock, ...]  #: jumps that these happenings cause

    def open_days(self, days: int) -> npt.NDArray[np.bool_]:
        """[D] whether it trades."""
        rows = np.arange(days)
        opened: npt.NDArray[np.bool_] = (rows >= self.first_row) & (rows <= self.last_row) & (rows != self.halted_row)
        return opened

    def exposure(self, days: int) -> FloatArray:
        """[D] share of the market's and its own moves that reach the price."""
        rows = np.arange(days)
        kept = np.where(rows < self.first_row, 0.0, 1.0)
        return kept if self.bid_row is None else np.where(rows >= self.bid_row, _CALM, kept)

    def quiet(self, row: int) -> bool:
        """Whether nothing of its own happens on a day: not listed for a month yet, halted, just split, waiting for a bidder."""
        young = self.first_row > 0 and row < self.first_row + 20
        bid_for = self.bid_row is not None and row >= self.bid_row - 2
        halted = self.halted_row is not None and abs(row - self.halted_row) <= 3
        split = self.split_row is not None and abs(row - self.split_row) <= 1
        return young or bid_for or halted or split or row > self.last_row

    def shares_per_first(self, day: date) -> float:
        """Shares on a day for each one at the start."""
        return math.prod(split.new / split.old for split in self.splits if split.ex_day <= day)


def live(seed: int, stock: Stock, grid: Grid) -> Life:
    """Draw a company's life over the days of the grid."""
    rng = stream(seed, "life", stock.ticker)
    row, last = grid.row_at(stock.role_at), len(grid) - 1
    splits: tuple[SplitRow, ...] = ()
    shocks: tuple[Shock, ...] = ()
    if stock.role == "split":
        announced = new_york(shift_sessions(grid.days[row], -12), 16, 30)
        splits = (SplitRow(stock.ticker, grid.days[row], stock.new, stock.old, announced),)
    if stock.role == "new":
        shocks = (Shock(row, 0, float(rng.uniform(0.06, 0.24))),)
    if stock.role == "halted" and row < last:
        shocks = (Shock(row + 1, 0, float(rng.choice([-1.0, 1.0]) * rng.uniform(0.16, 0.28)), 2.0),)
    if stock.role == "acquired":
        shocks = (Shock(row, 0, math.log1p(BID_PREMIUM) - 0.015),)
        last = row + max(1, min(32, (last - row) // 2))
    halted, bid, split = (row if stock.role == role else None for role in ("halted", "acquired", "split"))
    life = Life(stock, row if stock.role == "new" else 0, last, halted, bid, split, splits, (), shocks)
    return life if not stock.yield_pct else _with_dividends(rng, life, grid)


def symbol_row(life: Life, grid: Grid, has_options: bool) -> SymbolRow:
    """Return the company's listing; those that were there before the first day are known from a year before it."""
    stock = life.stock
    listed_ns = int(grid.open_ns[life.first_row]) if life.first_row else day_start(grid.days[0]) - 365 * DAY
    return SymbolRow(stock.ticker, "stock", stock.name, stock.sector, listed_ns, has_options)


def log_factor(life: Life, grid: Grid, moves: Moves) -> FloatArray:
    """[D] logarithm of what splits, and dividends taken off the last close, do to the unadjusted price from their ex-days' open."""
    factor = np.zeros(len(grid))
    closes = np.cumsum((moves.jumps + moves.steps).sum(axis=1)) + math.log(life.stock.price)
    terms = [(split.ex_day, math.log(split.old / split.new), 0) for split in life.splits]
    terms += [(dividend.ex_day, 0.0, dividend.amount_e4) for dividend in life.dividends]
    for ex_day, size, amount_e4 in sorted(terms):
        row = grid.row_on_or_after(ex_day)
        if row is None or row == 0:
            continue
        last_close = math.exp(closes[row - 1] + factor[row - 1])
        factor[row:] += size + math.log1p(-min(0.5, amount_e4 / 1e4 / last_close))
    return factor


def _with_dividends(rng: np.random.Generator, life: Life, grid: Grid) -> Life:
    """Return a payment each quarter, raised once a year, split with the shares."""
    stock = life.stock
    month, day_of_month = int(rng.integers(1, 4)), int(rng.integers(4, 27))
    lead, wait = int(rng.integers(12, 22)), int(rng.integers(9, 18))
    rise = 1.0 + float(rng.uniform(0.02, 0.09))
    rows = []
    for year in range(grid.days[0].year, grid.days[-1].year + 1):
        for quarter in range(4):
            ex_day = shift_sessions(date(year, month + 3 * quarter, day_of_month))
            declared = shift_sessions(ex_day, -lead)
            if not grid.days[0] < ex_day <= grid.days[-1] + timedelta(days=40) or declared > grid.days[-1]:
                continue
            amount = stock.price * stock.yield_pct / 400.0 * rise ** (year - grid.days[0].year) / life.shares_per_first(ex_day)
            delisted = life.last_row < len(grid) - 1 and ex_day > grid.days[life.last_row]
            if delisted or round(amount * 100) == 0:
                continue
            pay_day = shift_sessions(ex_day, wait)
            rows.append(DividendRow(stock.ticker, ex_day, pay_day, round(amount * 100) * 100, new_york(declared, 16, 30)))
    return replace(life, dividends=tuple(rows))
