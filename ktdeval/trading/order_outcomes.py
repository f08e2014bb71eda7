"""Outcomes of orders, with the wording of each rule, and the valid form of an order."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Action, Order, Outcome
from ktdeval.values.disk.files import csv_rows

_RULES = csv_rows(Path(__file__).with_name("rules.csv"))
# Messages contain no numbers, since a share count could be mistaken for a security code and would
# be wrong under rescaled prices.
REJECTIONS = {row["rule"]: row["rejected"] for row in _RULES}
"""Rule -> message of the rejection."""
REJECTED = {rule: Outcome("rejected", rule, message) for rule, message in REJECTIONS.items()}
_CUT = {row["rule"]: row["cut"] for row in _RULES if row["cut"]}


def is_well_formed(order: Order, day: TradingDay) -> bool:
    """Return whether an order has a valid form. Its weight or number of shares must be within
    range, and it may have a limit only if the day has prices for limits.
    """
    weight = order.target_weight
    shares = order.shares
    limit = order.limit_ticks
    if limit is not None and not (isinstance(limit, int) and limit >= 0 and day.low_ticks):
        return False
    if weight is None:
        return isinstance(shares, int) and shares >= 1
    if shares is not None and not (isinstance(shares, int) and shares >= 0):
        return False
    if 0.0 <= weight <= 1.0:
        return True

    return (
        -1.0 <= weight < 0.0
        and order.asset is not None
        and day.rules.terms[order.asset].margin is not None
    )


def make_fill(
    shares: int, price: int, notional: int, fee: int, cut_by: str | None = None
) -> Outcome:
    """Return the outcome of a fill; it is partial if a rule cut the order."""
    if cut_by is None:
        return Outcome("filled", None, "", shares, price, notional, fee)
    return Outcome("partially_filled", cut_by, _CUT[cut_by], shares, price, notional, fee)


def cut_outcome(sold: Outcome, cut_by: str | None) -> Outcome:
    """Return the outcome of a sale as a partial fill under `cut_by`, the rule that cut its order
    earlier.
    """
    if not sold.shares:
        return sold
    return make_fill(sold.shares, sold.price_ticks, sold.notional_minor, sold.fee_minor, cut_by)


def carried_orders(
    working: tuple[Order, ...], action: Action, ended: AbstractSet[int]
) -> tuple[Order, ...]:
    """Return the working orders that remain in force on the day. A new order replaces a working
    order in the same asset. `ended`: assets whose working orders end. After a factor change, a
    share has another meaning; after a margin call, the position is closed.
    """
    if not working:
        return ()

    replaced = {order.asset for order in action} | ended
    return tuple(order for order in working if order.asset not in replaced)
