"""Invented companies and crypto assets (`stocks.csv`, `coins.csv`), and the events in the life of a
company's shares: listing, splits, dividends, a halt, a bid, and the delisting that follows.

Names, tickers and businesses are not meant to be real.
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

from ktdeval.values import csv_rows
from ktdeval_qfinzero.data.rows import DividendRow, FloatArray, Importance, SplitRow, SymbolRow
from ktdeval_qfinzero.data.synthetic.engine import PriceShock, RiskMoves
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, new_york, shift_sessions, stream
from ktdeval_qfinzero.timestamps import DAY, day_start

Size = Literal["mega", "large", "mid", "thin"]
Role = Literal["plain", "split", "new", "acquired", "halted"]
_IMPORTANCE_OF: dict[Size, Importance] = {
    "mega": "high",
    "large": "high",
    "mid": "medium",
    "thin": "low",
}
Row = TypeVar("Row", bound=msgspec.Struct)


class Stock(msgspec.Struct, frozen=True):
    """A company; a row of `stocks.csv`."""

    ticker: str
    name: str
    sector: str
    business: str
    price: float  #: price at the start, in dollars
    beta: float  #: exposure to the market
    volatility: float  #: standard deviation of the idiosyncratic daily return
    size: Size  #: determines the trading volume
    yield_pct: float = 0.0  #: annual dividends in percent of the first price; 0 for none
    role: Role = "plain"  #: main event in the company's life
    role_at: float = 0.0  #: day of the main event, as a fraction of all days
    new: int = 1  #: number of shares after a split, for each `old` shares
    old: int = 1
    hard_to_borrow: bool = False  #: whether few shares can be borrowed, at high fees

    @property
    def importance(self) -> Importance:
        """Importance of the company's reports."""
        return _IMPORTANCE_OF[self.size]

    @property
    def optionable(self) -> bool:
        """True if the stock may have options. Only companies without a split, listing, bid or halt
        do, so that no contract is ever adjusted.
        """
        return self.role == "plain" and self.size in ("mega", "large")


class Coin(msgspec.Struct, frozen=True):
    """A crypto asset; a row of `coins.csv`."""

    ticker: str
    name: str
    price: float  #: price at the start, in dollars
    beta: float  #: exposure to the move that all crypto assets share
    volatility: float  #: standard deviation of the idiosyncratic daily return
    coins_a_day: float  #: mean volume


def _load(name: str, kind: type[Row]) -> tuple[Row, ...]:
    """Read a CSV file of this package. An empty cell takes the field's default."""
    rows: list[Row] = []
    for row in csv_rows(Path(__file__).with_name(name)):
        filled = {column: cell for column, cell in row.items() if cell}
        rows.append(msgspec.convert(filled, kind, strict=False))

    return tuple(rows)


STOCKS = _load("stocks.csv", Stock)
COINS = _load("coins.csv", Coin)
SECTORS = tuple(dict.fromkeys(stock.sector for stock in STOCKS))


BID_PREMIUM = 0.24  #: Fraction by which a bid exceeds the last close
_CALM = 0.06  #: A stock's remaining exposure to its usual moves after a bid


@dataclass(frozen=True)
class CompanyLife:
    """Events in the life of a company's shares."""

    stock: Stock
    first_row: int  #: first day of trading
    last_row: int  #: last day of trading
    halted_row: int | None  #: day without trading
    bid_row: int | None  #: day of a bid, which is published before the open
    split_row: int | None  #: ex-day of the split
    splits: tuple[SplitRow, ...]
    dividends: tuple[DividendRow, ...]
    shocks: tuple[PriceShock, ...]  #: price jumps that these events cause

    def open_days(self, days: int) -> npt.NDArray[np.bool_]:
        """Return, for each of D days, whether the stock trades."""
        rows = np.arange(days)
        is_listed = (rows >= self.first_row) & (rows <= self.last_row)
        opened: npt.NDArray[np.bool_] = is_listed & (rows != self.halted_row)
        return opened

    def exposure(self, days: int) -> FloatArray:
        """Return the [D] fraction of market and idiosyncratic moves that reaches the price."""
        rows = np.arange(days)
        exposure = np.where(rows < self.first_row, 0.0, 1.0)
        if self.bid_row is None:
            return exposure
        return np.where(rows >= self.bid_row, _CALM, exposure)

    def quiet(self, row: int) -> bool:
        """Return whether a day must have no other news: in the first month after the listing,
        around a halt or a split, from two sessions before a bid onwards, and after the last day of
        trading.
        """
        is_young = self.first_row > 0 and row < self.first_row + 20
        has_bid = self.bid_row is not None and row >= self.bid_row - 2
        is_halted = self.halted_row is not None and abs(row - self.halted_row) <= 3
        is_split = self.split_row is not None and abs(row - self.split_row) <= 1
        is_delisted = row > self.last_row

        return is_young or has_bid or is_halted or is_split or is_delisted

    def shares_per_first(self, day: date) -> float:
        """Return the number of shares on a day for each share at the start."""
        return math.prod(split.new / split.old for split in self.splits if split.ex_day <= day)


def live(seed: int, stock: Stock, grid: MinuteGrid) -> CompanyLife:
    """Draw the events in a company's life over the days of the grid."""
    rng = stream(seed, "life", stock.ticker)
    row = grid.row_at(stock.role_at)
    last = len(grid) - 1
    splits: tuple[SplitRow, ...] = ()
    shocks: tuple[PriceShock, ...] = ()

    if stock.role == "split":
        announced = new_york(shift_sessions(grid.days[row], -12), 16, 30)
        splits = (SplitRow(stock.ticker, grid.days[row], stock.new, stock.old, announced),)

    if stock.role == "new":
        shocks = (PriceShock(row, 0, float(rng.uniform(0.06, 0.24))),)

    if stock.role == "halted" and row < last:
        shocks = (
            PriceShock(row + 1, 0, float(rng.choice([-1.0, 1.0]) * rng.uniform(0.16, 0.28)), 2.0),
        )

    if stock.role == "acquired":
        shocks = (PriceShock(row, 0, math.log1p(BID_PREMIUM) - 0.015),)
        last = row + max(1, min(32, (last - row) // 2))

    life = CompanyLife(
        stock=stock,
        first_row=row if stock.role == "new" else 0,
        last_row=last,
        halted_row=row if stock.role == "halted" else None,
        bid_row=row if stock.role == "acquired" else None,
        split_row=row if stock.role == "split" else None,
        splits=splits,
        dividends=(),
        shocks=shocks,
    )
    if not stock.yield_pct:
        return life
    return _with_dividends(rng, life, grid)


def symbol_row(life: CompanyLife, grid: MinuteGrid, has_options: bool) -> SymbolRow:
    """Return a company's row in the symbols table. If its listing is not in the data, it was listed
    a year before the first day.
    """
    stock = life.stock
    listed_ns = day_start(grid.days[0]) - 365 * DAY
    if life.first_row:
        listed_ns = int(grid.open_ns[life.first_row])

    return SymbolRow(stock.ticker, "stock", stock.name, stock.sector, listed_ns, has_options)


def log_factor(life: CompanyLife, grid: MinuteGrid, moves: RiskMoves) -> FloatArray:
    """Return the [D] logarithm of the effect of splits and dividends on the unadjusted price.
    Dividends are subtracted from the last close before their ex-days.
    """
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


def _with_dividends(rng: np.random.Generator, life: CompanyLife, grid: MinuteGrid) -> CompanyLife:
    """Draw a dividend for each quarter. The dividend rises once a year, and splits divide it."""
    stock = life.stock
    month = int(rng.integers(1, 4))
    day_of_month = int(rng.integers(4, 27))
    lead = int(rng.integers(12, 22))
    wait = int(rng.integers(9, 18))
    rise = 1.0 + float(rng.uniform(0.02, 0.09))
    rows = []

    for year in range(grid.days[0].year, grid.days[-1].year + 1):
        for quarter in range(4):
            ex_day = shift_sessions(date(year, month + 3 * quarter, day_of_month))
            declared = shift_sessions(ex_day, -lead)
            # Dividends declared within the data may be paid after the data end.
            is_near = grid.days[0] < ex_day <= grid.days[-1] + timedelta(days=40)
            if not is_near or declared > grid.days[-1]:
                continue

            raised = rise ** (year - grid.days[0].year)
            amount = stock.price * stock.yield_pct / 400.0 * raised / life.shares_per_first(ex_day)
            cents = round(amount * 100)
            is_delisted = life.last_row < len(grid) - 1 and ex_day > grid.days[life.last_row]
            if is_delisted or cents == 0:
                continue

            row = DividendRow(
                symbol=stock.ticker,
                ex_day=ex_day,
                pay_day=shift_sessions(ex_day, wait),
                amount_e4=cents * 100,
                declared_ns=new_york(declared, 16, 30),
            )
            rows.append(row)

    return replace(life, dividends=tuple(rows))
