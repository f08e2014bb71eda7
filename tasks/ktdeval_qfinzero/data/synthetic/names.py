"""Invented companies and coins (`stocks.csv`, `coins.csv`). No name, ticker or business is meant to be anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ktdeval.jsonio import csv_rows

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
