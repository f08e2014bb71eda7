"""Rules that an action breaks as known when it is decided: on the account at the last closes.

Judged are orders that the executor would reject, not those that it would cut. A price enters only where the account shows it, by
the value of a holding, so that feedback tells nothing about a stock that a mode doesn't show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktdeval.trading.terms import PPB, Terms, limits_of
from ktdeval.trading.types import Account, Action, Order, TradingConfig


class Breach(NamedTuple):
    """Order that breaks a rule."""

    order: int  #: index of the order in its action
    rule: str  #: `universe` (a label of no stock), `holding`, `position_limit`, `weight_limit` or `cash`


def known_breaches(
    account: Account, held_minor: Mapping[int, int], action: Action, config: TradingConfig, terms: Sequence[Terms] = ()
) -> list[Breach]:
    """Return the orders that break a rule at the last closes, sells first, as the executor takes them; at most one rule an order.

    * `universe`, `holding`: an order for a label of no stock; a sell of what is not held.
    * `position_limit`: a buy of another name when the largest number is held after all whole sells and the buys before it.
    * `weight_limit`: a buy to a target weight, or of shares of a holding, beyond the largest weight of NAV.
    * `cash`: a buy when the sells' proceeds and cash are spent by the buys before it. Shares of a name that is not held count 0,
      and costs are not counted.

    T+1 breaks nothing here: what was bought today can be sold at the next open. Nor do orders that open, add to or reduce a short.
    `held_minor`: asset -> value of the holding at the last close. `terms`: [N] rules of each asset; () where nothing can be sold
    short.
    """
    judged = _Judged(account, held_minor, config, terms)
    sells_first = sorted(range(len(action)), key=lambda index: action[index].side != "SELL")
    rules = ((index, (judged.sell if action[index].side == "SELL" else judged.buy)(action[index])) for index in sells_first)
    return [Breach(index, rule) for index, rule in rules if rule is not None]


class _Judged:
    """Cash and names while the orders of an action are judged."""

    def __init__(self, account: Account, held_minor: Mapping[int, int], config: TradingConfig, terms: Sequence[Terms]) -> None:
        self._terms = terms
        self._held, self._shares = dict(held_minor), {asset: held.shares for asset, held in account.positions.items()}
        self._cash, self._nav = account.cash_minor, account.cash_minor + sum(held_minor.values())
        self._most_names, self._most_ppb = limits_of(config)

    def sell(self, order: Order) -> str | None:
        asset = order.asset
        if asset is None or asset not in self._held:
            return "universe" if asset is None else None if self._can_short(asset) else "holding"
        if self._held[asset] < 0 or (order.target_weight or 0.0) < 0:
            return None
        left = self._target_minor(order) if order.shares is None else self._held[asset] - self._worth(asset, order.shares)
        proceeds = max(0, self._held[asset] - max(0, left))
        self._cash += proceeds
        self._held[asset] -= proceeds
        if order.target_weight == 0 or left <= 0:
            del self._held[asset], self._shares[asset]
        elif order.shares is not None:
            self._shares[asset] -= order.shares
        return None

    def buy(self, order: Order) -> str | None:
        asset = order.asset
        if asset is None:
            return "universe"
        held = self._held.get(asset, 0)
        if held < 0:
            return None
        target = self._target_minor(order) if order.shares is None else held + self._worth(asset, order.shares)
        if order.shares is None and target <= held:
            return None  # the executor's `target`, as far as the next open leaves it so
        if asset not in self._held and len(self._held) >= self._most_names:
            return "position_limit"
        if target * PPB > self._most_ppb * self._nav:
            return "weight_limit"
        if self._cash <= 0:
            return "cash"
        self._cash -= max(0, target - held)
        self._held[asset] = max(held, target)
        return None

    def _target_minor(self, order: Order) -> int:
        return round((order.target_weight or 0.0) * PPB) * self._nav // PPB

    def _can_short(self, asset: int) -> bool:
        return bool(self._terms) and self._terms[asset].margin is not None

    def _worth(self, asset: int, shares: int) -> int:
        """Value of shares of a holding at the last close; 0 where nothing is held, for its price is not shown."""
        return self._held[asset] * shares // self._shares[asset] if asset in self._shares else 0
