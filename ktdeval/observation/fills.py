"""Outcomes of the previous step's orders, as text for an agent's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.observation.state import ObservedState
from ktdeval.observation.state_entries import ObservedOrder, first_number


@dataclass(frozen=True, slots=True)
class Fill:
    """Outcome of all orders for one asset in a step."""

    #: `filled 5 % of NAV`, `filled 2 % of NAV, cut by cash`, `rejected: lot`, `booked`,
    #: `not read: an unknown label`
    words: str
    is_traded: bool  #: True if the state shows that any order was filled


def fill_of(state: ObservedState, label: str) -> Fill | None:
    """Return the outcome of the previous step's orders for an asset; None if it had no order, or if
    the task does not show outcomes. A `label` that is missing from the state may be an unknown
    asset.
    """
    named = label.lower()
    orders = [order for order in state.last_orders if (order.label or "").lower() == named]
    if not orders and label not in state.assets and label not in state.universe:
        orders = [order for order in state.last_orders if order.label is None]
    if not orders:
        return None

    if not any(order.status for order in orders):
        if all(order.label is None for order in orders):
            return Fill("not read: an unknown label", is_traded=False)
        return Fill("booked", is_traded=True)  # an account at book value does not show outcomes

    rules = ", ".join(dict.fromkeys(order.rule for order in orders if order.rule))
    if not any(order.filled_shares for order in orders):
        return Fill(f"rejected: {rules}" if rules else "rejected", is_traded=False)

    words = f"filled {_fill_size(orders, state.account.nav)}"
    if rules:
        words += f", cut by {rules}"
    return Fill(words, is_traded=True)


def _fill_size(orders: Sequence[ObservedOrder], nav: float | None) -> str:
    """Return the size of fills as a share of the NAV after the fills, or in shares if no price is
    shown.
    """
    shares = 0.0
    notional = 0.0
    for order in orders:
        shares += order.filled_shares
        price = first_number(order.cells, "fill_price", "fill_price_cny")
        if price is not None:
            notional += order.filled_shares * price

    if notional and nav and nav > 0:
        return f"{100 * notional / nav:.3g} % of NAV"
    return f"{shares:,.6g} shares"
