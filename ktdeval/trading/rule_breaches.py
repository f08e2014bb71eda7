"""Rules that an action breaks, judged at decision time from the account at the last closes.

Only orders that the executor would reject are reported, not orders that it would cut. Prices are
inferred only from the value of holdings, which the account shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktdeval.trading.types import Account, Action, Order, TradingConfig
from ktdeval.trading.venue_terms import PPB, Terms, limits_of

HALF_STEP_PPB = PPB // 20_000
"""Half a unit in the last digit of a holding's weight as tasks show it (with four decimals), in
parts per billion of NAV.
"""


class RuleBreach(NamedTuple):
    """An order that breaks a rule."""

    order: int  #: index of the order in its action
    #: `universe` (the label is not a stock's), `holding`, `position_limit`, `weight_limit` or
    #: `cash`
    rule: str


def known_breaches(
    account: Account,
    held_minor: Mapping[int, int],
    action: Action,
    config: TradingConfig,
    terms: Sequence[Terms] = (),
) -> list[RuleBreach]:
    """Return the orders that break a rule at the last closes, with at most one rule per order.
    Sells come first, as in the executor.

    * `universe`: an order for a label that belongs to no stock.
    * `holding`: a sell of a stock that is not held.
    * `position_limit`: a buy of another name when the maximum number is already held after all
      sells of whole holdings and the preceding buys.
    * `weight_limit`: a buy to a target weight, or of shares of a holding, above the maximum weight
      in NAV. A target equal to a holding's displayed weight never breaks the rule.
    * `cash`: a buy when the preceding buys have spent the cash and the sells' proceeds. Shares of a
      name not held are valued at 0, and costs are ignored.

    T+1 is never broken here, because shares bought today can be sold at the next open. Orders that
    open, add to or reduce a short are not judged. A limit order is judged, but since it might not
    fill, later orders may use both the cash or shares that it would use and those that it would
    free.

    `held_minor`: asset -> value of the holding at the last close. `terms`: terms of each asset,
    [N]; empty if short sales are not allowed.
    """
    judge = _OrderJudge(account, held_minor, config, terms)
    sells_first = sorted(range(len(action)), key=lambda index: action[index].side != "SELL")
    breaches = []

    for index in sells_first:
        order = action[index]
        if order.side == "SELL":
            rule = judge.sell(order)
        else:
            rule = judge.buy(order)

        if rule is not None:
            breaches.append(RuleBreach(index, rule))

    return breaches


class _OrderJudge:
    """Cash and holdings while the orders of an action are judged one by one."""

    def __init__(
        self,
        account: Account,
        held_minor: Mapping[int, int],
        config: TradingConfig,
        terms: Sequence[Terms],
    ) -> None:
        self._terms = terms
        self._held = dict(held_minor)
        self._shares = {asset: held.shares for asset, held in account.positions.items()}
        self._cash = account.cash_minor
        self._nav = account.cash_minor + sum(held_minor.values())
        self._max_names, self._max_ppb = limits_of(config)

    def sell(self, order: Order) -> str | None:
        """Return the rule that a sell breaks, or None. A sell that breaks no rule is booked as if
        filled.
        """
        asset = order.asset
        if asset is None:
            return "universe"
        if asset not in self._held:
            return None if self._can_short(asset) else "holding"
        if self._held[asset] < 0 or (order.target_weight or 0.0) < 0:
            return None  # shorts are not judged

        if order.shares is None:
            left = self._target_minor(order)
        else:
            left = self._held[asset] - self._worth(asset, order.shares)

        proceeds = max(0, self._held[asset] - max(0, left))
        self._cash += proceeds
        if order.limit_ticks is not None:
            self._max_names += 1
            return None

        self._held[asset] -= proceeds

        if order.target_weight == 0 or left <= 0:
            del self._held[asset], self._shares[asset]
        elif order.shares is not None:
            self._shares[asset] -= order.shares

        return None

    def buy(self, order: Order) -> str | None:
        """Return the rule that a buy breaks, or None. A buy that breaks no rule is booked as if
        filled.
        """
        asset = order.asset
        if asset is None:
            return "universe"

        held = self._held.get(asset, 0)
        if held < 0:
            return None  # shorts are not judged

        if order.shares is None:
            target = self._target_minor(order)
        else:
            target = held + self._worth(asset, order.shares)

        if order.shares is None and asset in self._held:
            # The executor rejects this order under `target`, unless the next open moves the
            # holding's value below the target. The next open is not known yet.
            is_as_shown = target <= held + HALF_STEP_PPB * self._nav // PPB
            if is_as_shown:
                return None
        if asset not in self._held and len(self._held) >= self._max_names:
            return "position_limit"
        if target * PPB > self._max_ppb * self._nav:
            return "weight_limit"
        if self._cash <= 0:
            return "cash"

        if order.limit_ticks is None:
            self._cash -= max(0, target - held)
            self._held[asset] = max(held, target)

        return None

    def _target_minor(self, order: Order) -> int:
        return round((order.target_weight or 0.0) * PPB) * self._nav // PPB

    def _can_short(self, asset: int) -> bool:
        return bool(self._terms) and self._terms[asset].margin is not None

    def _worth(self, asset: int, shares: int) -> int:
        """Return the value of shares of a holding at the last close. 0 for an asset that is not
        held, as the account does not show its price.
        """
        if asset not in self._shares:
            return 0
        return self._held[asset] * shares // self._shares[asset]
