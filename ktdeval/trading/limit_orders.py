"""Limit orders: comparison of the limit with the prices of the fill day.

A limit order is good for its fill day. With the venue's fills at the open:

    buy     the open is at or below the limit       filled at the open
            else the bar trades below the limit     filled at the limit, within the day
            else                                    rejected under `limit`
    sell    the same with above

A bar that only touches the limit fills nothing, because the order's place in the queue at that
price is not known. If fills are at a close, only that close is compared with the limit. Thus no
fill is better than the market price or worse than the limit.

A limit is in decision-day prices. After a factor change, it is converted to fill-day prices, as the
last close is, and rounded to the order's disadvantage.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Order
from ktdeval.trading.venue_terms import PPB


class LimitFill(Struct, frozen=True):
    """Ways in which a limit order can fill on one day."""

    limit: int  #: in ticks, in fill-day prices
    #: market price, within the limit, at which the order can trade, in ticks; 0 if none
    market: int
    is_within_day: bool = False  #: whether the order fills at the limit after the open

    def holds(self, price: int, selling: bool) -> bool:
        """Return whether a price is within the limit."""
        if selling:
            return price >= self.limit
        return price <= self.limit


def limit_fill(order: Order, day: TradingDay) -> LimitFill | None:
    """Return how a limit order can fill on a day; None if the order has no limit or no asset."""
    asset = order.asset
    if order.limit_ticks is None or asset is None:
        return None

    selling = order.side == "SELL"
    limit = _on_day(order.limit_ticks, asset, day, selling)
    opened = LimitFill(limit, day.open_ticks[asset])
    if opened.holds(opened.market, selling):
        return opened

    # If fills are at a close, only that close counts.
    furthest = 0
    if day.rules.scales[asset].fill == "next_open":
        furthest = day.high_ticks[asset] if selling else day.low_ticks[asset]

    # 0 means that a price is not known.
    is_through = furthest > limit if selling else 0 < furthest < limit
    if not is_through:
        return LimitFill(limit, 0)
    return LimitFill(limit, furthest, is_within_day=True)


def _on_day(limit: int, asset: int, day: TradingDay, selling: bool) -> int:
    """Return a limit in fill-day prices, rounded down for a buy and up for a sell."""
    event = day.events.get(asset)
    if event is None:
        return limit
    if selling:
        return -(-limit * PPB // event.ratio_ppb)
    return limit * PPB // event.ratio_ppb


def open_first(buys: Sequence[int], orders: Sequence[Order], day: TradingDay) -> list[int]:
    """Return the indices of buys; buys that fill after the open come last."""
    at_open = []
    later = []
    for index in buys:
        fill = limit_fill(orders[index], day)
        if fill is not None and fill.is_within_day:
            later.append(index)
        else:
            at_open.append(index)

    return at_open + later
