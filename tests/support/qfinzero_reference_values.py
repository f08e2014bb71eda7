"""Values of the slow broker: its market, a session's terms, holdings, orders, and prices as slippage and splits make them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.instruments import OptionContract

Row = tuple[int, int, int, int, int]
"""open, high, low, close, volume."""


class Refused(Exception):
    """What a broker does not do."""


@dataclass(frozen=True)
class World:
    """Days and minutes of everything: symbol -> day -> bar, symbol -> start of the minute -> bar."""

    days: dict[str, dict[date, Row]]
    minutes: dict[str, dict[int, Row]]
    splits: list[SplitRow]
    dividends: list[DividendRow]
    fees: dict[str, list[tuple[int, int]]]
    """Borrow fees: symbol -> (since when, hundredths of a percent a year)."""


@dataclass(frozen=True)
class Terms:
    """What a session's orders cost and how they fill."""

    frequency: str = "1d"
    share_fee: int = 0
    contract_fee: int = 0
    exercise_fee: int = 0
    slippage_bps: int = 0
    spread_bps: int = 0
    volume_pct: int = 100
    interest_bps: int = 0


@dataclass
class Holding:
    qty: int = 0
    cost: int = 0
    profit: int = 0

    def add(self, units: int, paid: int) -> None:
        """Units that come (negative: go), and what was paid for them (negative: received)."""
        gone = min(abs(units), abs(self.qty)) if units * self.qty < 0 else 0
        if gone:
            paid_for_gone = math.floor(Fraction(paid * gone, abs(units)))
            cost_of_gone = math.floor(Fraction(self.cost * gone, abs(self.qty)))
            self.profit += -paid_for_gone - cost_of_gone
            self.cost -= cost_of_gone
            paid -= paid_for_gone
        self.cost += paid
        self.qty += units


@dataclass(eq=False)
class Ticket:
    """An order. `sign` is 1 for a purchase and -1 for a sale."""

    symbol: str
    sign: int
    kind: str
    qty: int
    tif: str
    since: int
    limit: int | None = None
    stop: int | None = None
    until: int | None = None
    status: str = "ACCEPTED"
    filled: int = 0
    triggered: bool = False
    spread: Spread | None = None

    @property
    def works(self) -> bool:
        return self.status in ("ACCEPTED", "PARTIALLY_FILLED")


@dataclass(eq=False)
class Spread:
    legs: list[Ticket]
    ratios: list[int]
    limit: int | None


def closes_of(bars: dict[str, Row]) -> dict[str, int]:
    return {symbol: bar[3] for symbol, bar in bars.items()}


def shares_of(symbol: str) -> int:
    return 100 if symbol.startswith("O:") else 1


def slipped(price: int, sign: int, bps: Fraction, symbol: str) -> int:
    """The price that a buyer (1) or seller (-1) gets who pays `bps` beyond it."""
    if not bps:
        return price
    worse = Fraction(price) * (1 + sign * bps / 10_000)
    step = 1 if not symbol.startswith("O:") and worse < 10_000 else 100
    if sign > 0:
        return math.ceil(worse / step) * step
    return max(step, math.floor(worse / step) * step)


def adjusted(contract: OptionContract, split: SplitRow) -> OptionContract:
    """The series that an option becomes: its strike divided, to the nearest cent."""
    strike = math.floor(Fraction(contract.strike_e4, split.new * 100) + Fraction(1, 2)) * 100
    return OptionContract(contract.underlying, contract.expiry, strike, contract.right)
