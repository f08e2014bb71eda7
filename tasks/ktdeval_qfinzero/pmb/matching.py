"""Matching of orders against bars. No favourable intrabar path is assumed, and all rounding is
against the trader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval_qfinzero.instruments import CONTRACT_SIZE
from ktdeval_qfinzero.pmb.broker_types import Bar, Fill, FillRules, Instrument, Kind, Order, Side

CENT = 100
DOLLAR = 10_000


@dataclass(frozen=True, slots=True)
class BarMatch:
    """Effect of a bar on an order."""

    triggered: bool = False  # whether the stop was reached on this bar, for the first time
    fill: Fill | None = None  # filled units; None if nothing was filled


@dataclass(frozen=True, slots=True)
class SpreadLeg:
    """One order of a spread with its bar, and the units that may still be filled on the bar."""

    order: Order
    bar: Bar
    capacity: int


def price_step(kind: Kind, price_e4: int) -> int:
    """Return the tick size: one cent, or 0.0001 dollars for stocks below one dollar (Rule 612 of
    Regulation NMS).
    """
    return 1 if kind == "STOCK" and price_e4 < DOLLAR else CENT


def capacity(bar: Bar, rules: FillRules) -> int:
    """Return how many units of a bar's volume orders may take."""
    return bar.volume * rules.max_volume_pct // 100


def add_slippage(price_e4: int, side: Side, instrument: Instrument, rules: FillRules) -> int:
    """Return the price that a market order pays or receives at a reference price.

    The price includes slippage and, for options, half the spread, and is rounded to the next step.
    A sale brings at least one step, or the reference price if that is less. Without slippage and
    spread, the result is the reference price.
    """
    half_bps = rules.half_bps(instrument)
    if not half_bps:
        return price_e4

    if side == "BUY":
        paid = -(-price_e4 * (20_000 + half_bps) // 20_000)
        step = price_step(instrument.kind, paid)
        return -(-paid // step) * step

    received = price_e4 * max(0, 20_000 - half_bps) // 20_000
    step = price_step(instrument.kind, received)
    return max(min(step, price_e4), received // step * step)


def match(order: Order, bar: Bar, left: int, rules: FillRules, *, at_open: bool) -> BarMatch:
    """Match an order with the open of a bar, or with the rest of the bar.

    `order`: a working order, accepted at or before the start of the bar; `bar`: a bar with a volume
    above 0; `left`: units of the bar's capacity that earlier orders have left; `at_open`: True at
    the open; False for the rest of the bar, if the order did nothing at the open.
    """
    triggered = False
    price_e4: int | None = None
    if order.stop_e4 is not None and not order.triggered:
        triggered = _is_reached(order.side, order.stop_e4, bar, at_open)
        if triggered:
            price_e4 = _stop_price(order, order.stop_e4, bar, rules)
    elif order.limit_e4 is not None:
        price_e4 = _limit_price(order.side, order.limit_e4, bar, at_open)
    elif at_open:
        price_e4 = add_slippage(bar.open_e4, order.side, order.instrument, rules)

    qty = min(order.open_qty, left)
    if price_e4 is None or qty <= 0:
        return BarMatch(triggered)

    return BarMatch(triggered, Fill(qty, price_e4))


def match_spread(
    legs: Sequence[SpreadLeg], net_limit_e4: int | None, units: int, rules: FillRules
) -> tuple[Fill, ...] | None:
    """Return the fills of all legs of a spread on one tick, or None.

    Each leg fills in full at its bar's open, as a market order would, because no other time is
    known at which the legs could trade together. The net price of one unit must be at or better
    than the limit. `legs`: all legs, each with its bar at this tick; `net_limit_e4`: maximum cost
    per share of one unit (negative: minimum proceeds), None at market; `units`: number of
    combinations.
    """
    if any(leg.capacity < leg.order.open_qty for leg in legs):
        return None

    fills: list[Fill] = []
    cost_e4 = 0
    for leg in legs:
        order = leg.order
        price_e4 = add_slippage(leg.bar.open_e4, order.side, order.instrument, rules)
        value_e4 = price_e4 * order.open_qty * order.instrument.multiplier
        cost_e4 += value_e4 if order.side == "BUY" else -value_e4
        fills.append(Fill(order.open_qty, price_e4))

    if net_limit_e4 is not None and cost_e4 > net_limit_e4 * units * CONTRACT_SIZE:
        return None

    return tuple(fills)


def _is_reached(side: Side, stop_e4: int, bar: Bar, at_open: bool) -> bool:
    """Return whether a bar reaches a stop: from below for a purchase, from above for a sale."""
    if side == "BUY":
        highest_e4 = bar.open_e4 if at_open else bar.high_e4
        return highest_e4 >= stop_e4

    lowest_e4 = bar.open_e4 if at_open else bar.low_e4
    return lowest_e4 <= stop_e4


def _stop_price(order: Order, stop_e4: int, bar: Bar, rules: FillRules) -> int | None:
    """Return the fill price of a stop that is reached on this bar: the worse of the open and the
    stop; None if the order's limit forbids it.
    """
    if order.side == "BUY":
        price_e4 = max(bar.open_e4, stop_e4)
        is_forbidden = order.limit_e4 is not None and price_e4 > order.limit_e4
    else:
        price_e4 = min(bar.open_e4, stop_e4)
        is_forbidden = order.limit_e4 is not None and price_e4 < order.limit_e4

    if is_forbidden:
        return None
    if order.limit_e4 is not None:
        return price_e4

    return add_slippage(price_e4, order.side, order.instrument, rules)


def _limit_price(side: Side, limit_e4: int, bar: Bar, at_open: bool) -> int | None:
    """Return the fill price of a limit order: the open if it is at or better than the limit (also
    for a bracket order sent at the open), else the limit if it is reached; None if it is not
    reached.
    """
    if side == "BUY":
        lowest_e4 = bar.open_e4 if at_open else bar.low_e4
        return min(limit_e4, bar.open_e4) if lowest_e4 <= limit_e4 else None

    highest_e4 = bar.open_e4 if at_open else bar.high_e4
    return max(limit_e4, bar.open_e4) if highest_e4 >= limit_e4 else None
