"""Execution of declared orders again: at the declared prices, at the first price after each
decision, under the rules of the venue, and with its costs.

Amounts are floats of the currency: files state cash with up to ten digits after the point, and
figures are printed to the cent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market import Fees, Venue
from ktdeval_published.forms.position_rows import DeclaredAccount, RowOrder
from ktdeval_published.prices import Array, BoardBars, Stamps

FillName = Literal["declared", "first_price"]
_DUST = 1e-9


@dataclass(frozen=True)
class ReplayTerms:
    """Rules under which orders are executed."""

    fill: FillName
    stamp: Literal["begin", "end"] = "begin"
    has_rules: bool = False  #: whether the venue's rules on quantities apply
    lot: float = 0.0  #: buys are whole lots of it; 0: any quantity
    star_lot: float = 0.0  #: smallest order of a STAR share; a whole holding may be sold below it
    is_locked: bool = False  #: shares bought on a day can't be sold on it
    fees: Fees = field(default_factory=Fees)


@dataclass(frozen=True)
class ReplayTrade:
    """Fill of an order."""

    row: int  #: bar of the fill
    column: int
    quantity: float  #: above 0 for a buy
    price: float
    fee: float
    order: int  #: index of the order


@dataclass(frozen=True)
class Replay:
    """Result of an execution."""

    cash: float  #: at the start
    trades: tuple[ReplayTrade, ...]
    refused: Mapping[str, int]  #: orders that were refused or cut, by rule
    traded: float  #: sum of the sizes of all fills in currency
    fees: float
    not_given: tuple[int, ...] = ()  #: orders without a price to fill them at


def terms_of(venue: Venue, stamp: Literal["begin", "end"], star_lot: float) -> ReplayTerms:
    """Return the terms of a venue, without its costs."""
    lot = venue.lot_steps / venue.steps_per_unit if venue.lot_steps > 1 else 0.0
    return ReplayTerms("first_price", stamp, True, lot, star_lot, venue.settlement_lock)


def fee_of(fees: Fees, quantity: float, price: float) -> float:
    """Return the costs of a fill in currency, by the venue's formula."""
    notional = abs(quantity) * price
    is_sell = quantity < 0
    bps = fees.sell_bps if is_sell else fees.buy_bps
    cost = max(notional * bps / 1e4 + abs(quantity) * fees.per_unit, fees.minimum)
    if fees.maximum_bps is not None:
        cost = min(cost, notional * fees.maximum_bps / 1e4)

    if is_sell:
        per_unit = abs(quantity) * fees.sell_levy_per_unit
        if fees.sell_levy_most is not None:
            per_unit = min(per_unit, fees.sell_levy_most)
        cost += notional * fees.sell_levy_bps / 1e4 + per_unit
    return cost


def execute(account: DeclaredAccount, bars: BoardBars, terms: ReplayTerms) -> Replay:
    """Execute the orders of an account from its first state."""
    book = _Book(bars, terms, account.states[0].cash, account.states[0].positions)
    for index, order in enumerate(account.orders):
        book.take(index, order)
    return book.result()


def first_row_after(bars: BoardBars, order: RowOrder, stamp: Literal["begin", "end"]) -> int | None:
    """Return the bar with the first price at or after the moment of an order: the bar that begins
    then. A row with a day alone is filled at the first bar of that day. None if no bar follows.
    """
    column = bars.column.get(order.symbol)
    if column is None:
        return None

    side: Literal["left", "right"] = "left"
    if stamp == "end" and order.has_hour:
        side = "right"  # a bar that ends at the moment of the order began before it
    start = int(np.searchsorted(bars.stamps, order.stamp, side))
    known = np.flatnonzero(~np.isnan(bars.open[start:, column]))
    return start + int(known[0]) if len(known) else None


class _Book:
    """Account in the course of an execution."""

    def __init__(
        self, bars: BoardBars, terms: ReplayTerms, cash: float, positions: Mapping[str, float]
    ) -> None:
        self._bars = bars
        self._terms = terms
        self._start = cash
        self._cash = cash
        self._held: dict[str, float] = defaultdict(float, positions)
        self._bought: dict[str, float] = defaultdict(float)
        self._day: np.datetime64 | None = None
        self._refused: Counter[str] = Counter()
        self._trades: list[ReplayTrade] = []
        self._not_given: list[int] = []

    def take(self, index: int, order: RowOrder) -> None:
        """Fill an order, cut it, or refuse it."""
        column = self._bars.column.get(order.symbol)
        if column is None:
            self._refused["no prices"] += 1
            self._not_given.append(index)
            return

        row = self._row(order)
        if row is None:
            self._refused["no later bar"] += 1
            self._not_given.append(index)
            return

        price = order.price
        if self._terms.fill == "first_price":
            price = float(self._bars.open[row, column])

        self._begin_day(self._bars.days[row])
        quantity = order.quantity
        if self._terms.has_rules:
            quantity = self._allow(order, price)
        if abs(quantity) < _DUST:
            return
        self._fill(
            ReplayTrade(row, column, quantity, price, self._fee(quantity, price), index), order
        )

    def result(self) -> Replay:
        """Return the execution."""
        traded = math.fsum(abs(trade.quantity) * trade.price for trade in self._trades)
        fees = math.fsum(trade.fee for trade in self._trades)
        return Replay(
            self._start,
            tuple(self._trades),
            dict(self._refused),
            traded,
            fees,
            tuple(self._not_given),
        )

    def _row(self, order: RowOrder) -> int | None:
        if self._terms.fill == "first_price":
            return first_row_after(self._bars, order, self._terms.stamp)
        row = int(np.searchsorted(self._bars.stamps, order.stamp, "left"))
        return min(row, len(self._bars.stamps) - 1)

    def _begin_day(self, day: np.datetime64) -> None:
        if day != self._day:
            self._day = day
            self._bought.clear()

    def _allow(self, order: RowOrder, price: float) -> float:
        """Return the quantity that the venue's rules allow, and count what they cut."""
        if order.quantity < 0:
            return -self._allowed_sell(order)
        return self._allowed_buy(order, price)

    def _allowed_sell(self, order: RowOrder) -> float:
        wanted = -order.quantity
        held = self._held[order.symbol]
        if wanted > held + _DUST:
            self._refused["not held"] += 1
            wanted = held
        if self._terms.is_locked:
            free = held - self._bought[order.symbol]
            if wanted > free + _DUST:
                self._refused["T+1"] += 1
                wanted = max(free, 0.0)

        is_whole_holding = abs(wanted - held) < _DUST
        if is_whole_holding:
            return wanted
        return self._sellable(order.symbol, wanted)

    def _sellable(self, symbol: str, wanted: float) -> float:
        """Return how much of a sell the rules on sizes let through if a part of it is kept."""
        if _is_star(symbol):
            if 0 < wanted < self._terms.star_lot:
                self._refused["STAR minimum"] += 1
                return 0.0
            return wanted

        lots = self._in_lots(wanted)
        if lots < wanted - _DUST:
            self._refused["lot"] += 1
        return lots

    def _in_lots(self, quantity: float) -> float:
        """Return a quantity rounded down to whole lots."""
        lot = self._terms.lot
        if not lot:
            return quantity
        return math.floor(quantity / lot + _DUST) * lot

    def _allowed_buy(self, order: RowOrder, price: float) -> float:
        wanted = order.quantity
        is_star = self._terms.star_lot > 0 and _is_star(order.symbol)
        if is_star and wanted < self._terms.star_lot:
            self._refused["STAR minimum"] += 1
            return 0.0
        if not is_star and self._in_lots(wanted) < wanted - _DUST:
            self._refused["lot"] += 1
            wanted = self._in_lots(wanted)

        # above its minimum, an order of a STAR share is of any number of shares
        step = min(1.0, self._terms.lot) if is_star else self._terms.lot
        affordable = self._affordable(wanted, price, step)
        if affordable < wanted - _DUST:
            self._refused["cash"] += 1
            if is_star and affordable < self._terms.star_lot:
                return 0.0
        return affordable

    def _affordable(self, wanted: float, price: float, step: float) -> float:
        """Return how much of a buy the cash pays for, in steps; 0: any quantity."""
        quantity = wanted
        while (
            quantity > _DUST and quantity * price + self._fee(quantity, price) > self._cash + 1e-6
        ):
            if step:
                quantity -= step
                continue
            # without steps, as much as the cash pays for after the costs of this size
            quantity = min(
                quantity * (1 - 1e-9), max(self._cash - self._fee(quantity, price), 0.0) / price
            )
        return max(quantity, 0.0)

    def _fee(self, quantity: float, price: float) -> float:
        if not quantity:
            return 0.0
        return fee_of(self._terms.fees, quantity, price)

    def _fill(self, trade: ReplayTrade, order: RowOrder) -> None:
        self._trades.append(trade)
        self._held[order.symbol] += trade.quantity
        self._cash -= trade.quantity * trade.price + trade.fee
        if trade.quantity > 0:
            self._bought[order.symbol] += trade.quantity


def _is_star(symbol: str) -> bool:
    """Return whether a code is a share of the STAR board in Shanghai."""
    return symbol.startswith("688")


def nav_of(
    replay: Replay, bars: BoardBars, days: Stamps, held: Mapping[str, float] | None = None
) -> Array:
    """Return the value of an account at the last close of each day. Shape: [D]."""
    positions = np.zeros((len(days), len(bars.symbols)))
    cash = np.full(len(days), replay.cash)
    for symbol, amount in (held or {}).items():
        positions[:, bars.column[symbol]] += amount

    for trade in replay.trades:
        place = int(np.searchsorted(days, bars.days[trade.row]))
        positions[place:, trade.column] += trade.quantity
        cash[place:] -= trade.quantity * trade.price + trade.fee
    return cash + value_positions(positions, bars, days)


def value_positions(positions: Array, bars: BoardBars, days: Stamps) -> Array:
    """Return the value of positions [D, N] at each day's last close. Shape: [D]."""
    rows = day_ends(bars, days)
    closes = bars.last_close[rows]
    return np.asarray(np.where(positions != 0, positions * closes, 0.0).sum(axis=1))


def day_ends(bars: BoardBars, days: Stamps) -> npt.NDArray[np.int64]:
    """Return the last bar of each day. Shape: [D]."""
    return np.array([bars.day_rows[day][1] - 1 for day in days], dtype=np.int64)


def declared_nav(account: DeclaredAccount, bars: BoardBars, days: Stamps) -> Array:
    """Return the value that a file declares: its positions at each day's last close, and its own
    cash. Shape: [D].
    """
    positions = np.zeros((len(days), len(bars.symbols)))
    cash = np.zeros(len(days))
    for state in account.states:
        place = int(np.searchsorted(days, state.stamp.astype("datetime64[D]")))
        positions[place:] = 0.0
        for symbol, amount in state.positions.items():
            positions[place:, bars.column[symbol]] = amount
        cash[place:] = state.cash
    return cash + value_positions(positions, bars, days)


def traded_days(account: DeclaredAccount, bars: BoardBars) -> Stamps:
    """Return the market's days from the first decision to the last. Shape: [D]."""
    first = account.states[1].stamp.astype("datetime64[D]")
    last = account.states[-1].stamp.astype("datetime64[D]")
    days = np.array(sorted(bars.day_rows))
    return np.asarray(days[(days >= first) & (days <= last)])


def honest_gap(
    orders: Sequence[RowOrder], bars: BoardBars, stamp: Literal["begin", "end"]
) -> float:
    """Return what prices before the first one after each decision were worth, in currency: the sum
    over orders of (first price - declared price) * quantity.
    """
    total = []
    for order in orders:
        row = first_row_after(bars, order, stamp)
        if row is not None:
            price = float(bars.open[row, bars.column[order.symbol]])
            total.append((price - order.price) * order.quantity)
    return math.fsum(total)
