"""Notional account: the result of an episode's orders if the market had no effect on them.

If a mode hides prices, it must hide everything that follows from a price. Cash, NAV and returns
follow from prices. So does whether an order was filled, given limits, suspensions and lots that
cost too much. Any of these would reveal a price to an agent that probes for it with orders. A scene
of such a task therefore gets these books instead of the true books. They depend only on the orders,
and are the same on every market.

The unit of the account is a billionth of the NAV. A position of 50,000,000 is an ordered weight of
0.05, whether or not the order was filled. The rest is cash. Orders are still executed on the true
market, and the ledger records the outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from ktdeval.trading.ledger import OrderRecord, StepRecord
from ktdeval.trading.rule_breaches import RuleBreach, known_breaches
from ktdeval.trading.types import BOOK_NAV, Account, Action, Position, TradingConfig


class BookAccount:
    """Notional account of an episode, used instead of
    `ktdeval.runner.episodes.shown_account.SeenBooks`. `columns` maps codes to assets.
    """

    def __init__(self, trading: TradingConfig, columns: Mapping[str, int]) -> None:
        #: cash and positions as weights, in units of 1 / `BOOK_NAV`
        self.account = Account(BOOK_NAV, {})
        #: last record, with its orders but without their outcomes
        self.last: StepRecord | None = None
        self._trading = trading
        self._columns = columns
        self._ordered: set[int] = set()  # assets ordered so far

    def follow(self, _account: Account, record: StepRecord) -> None:
        """Apply the orders of a record."""
        self.account = self._after(record.orders)
        self.last = structs.replace(
            record,
            orders=tuple(map(_without_outcome, record.orders)),
            corporate_actions=(),
            charges=(),
            positions=(),
            cash_minor=0,
            holdings_minor=0,
            nav_minor=0,
            open_nav_minor=0,
            carried=(),
            working=(),
        )

    def size_orders(self, action: Action) -> Action:
        """Return the orders unchanged, since the executor converts weights into shares."""
        return action

    def breaches(self, action: Action) -> list[RuleBreach]:
        """Return the orders that break a rule in this account; empty if the task gives no feedback
        about broken rules.

        Any asset that was ordered before may be sold, because an earlier sale may not have been
        filled.
        """
        if not self._trading.constraint_feedback:
            return []

        weights = {asset: held.shares for asset, held in self.account.positions.items()}
        found = known_breaches(self.account, weights, action, self._trading)
        return [breach for breach in found if not self._may_be_held(breach, action)]

    def _may_be_held(self, breach: RuleBreach, action: Action) -> bool:
        return breach.rule == "holding" and action[breach.order].asset in self._ordered

    def _after(self, orders: Iterable[OrderRecord]) -> Account:
        """Return the account after orders, with sells first.

        A sale lowers a weight to its target. A buy raises a weight to its target, as far as the
        cash allows.
        """
        weights = {asset: held.shares for asset, held in self.account.positions.items()}
        cash = self.account.cash_minor
        for order in sorted(orders, key=lambda order: order.side != "SELL"):
            if order.code is None or order.target_weight is None:
                continue

            asset = self._columns[order.code]
            self._ordered.add(asset)
            held = weights.get(asset, 0)
            target = round(order.target_weight * BOOK_NAV)
            after = min(held, target)
            if order.side == "BUY":
                after = min(max(held, target), held + cash)

            weights[asset] = after
            cash += held - after

        return Account(cash, {asset: Position(held) for asset, held in weights.items() if held})


def _without_outcome(order: OrderRecord) -> OrderRecord:
    return structs.replace(
        order,
        status="filled",
        rule=None,
        message="",
        filled_shares=0,
        price_ticks=0,
        notional_minor=0,
        fee_minor=0,
        duties={},
    )
