"""Execute the same decisions without some of the executor's rules. The results are only used for
diagnosis and never appear on a card.

The executor is the same as in a run; only the tape that it reads differs. The rules to remove are
selected by cause:

* `costs`: no fees, duties, interest, spread or impact. `fitted_fee`: a fee proportional to the value
  traded. `declared_fees`: the fees that the file declares for its trades.
* `rebalancing`: weights are rebalanced every day. `sizing`: the number of shares for a weight is
  computed at the decision's close, not at the fill price; they are bought on credit if cash is
  insufficient.
* `fill_at_…`: fills at another price of the bar, or at the declared trade's price.
  `fill_before_decision`: fills at the close before the decision's day.
* `limits`: no T+1 rule, price limits, halts, universe, margin requirement or cash limit. `lots`: an
  account 10,000 times as large, without lots. Rounding to whole shares is then negligible, and a
  target weight can be reached by buying or by selling. `dividends`: splits and dividends are not
  booked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace as changed

from ktdeval.market import FillRule, MarketSnapshot
from ktdeval.trading import (
    NO_DUTIES,
    RATE_SCALE,
    Account,
    MarketRules,
    MarketTape,
    Order,
    Settlement,
    TradingConfig,
    open_account,
    settle,
)
from ktdeval_judge.market_plan import MarketPlan
from ktdeval_judge.nav_parts import CAUSES, PRICES, Cause, Path, Simulated
from ktdeval_judge.plan import DeclaredOrder, DeclaredPlan, Held, PlanReader, in_lots, scale_plan

_TIMES = 10_000  #: how many times as large the account without lots is
_CREDIT = 10  #: multiple of the initial cash that an account on credit may owe
_FILLS: dict[str, FillRule] = {
    "fill_at_open": "next_open",
    "fill_at_close": "next_close",
    "fill_at_decision": "same_close",
}


@dataclass(frozen=True)
class Counterfactuals:
    """NAVs of a plan with some rules removed. Tapes that are built are cached."""

    made: MarketPlan
    snapshot: MarketSnapshot
    trading: TradingConfig

    @cached_property
    def possible(self) -> tuple[Cause, ...]:
        """Causes that could change the result of this plan."""
        own = {self._fill_of(column) for column in range(len(self.snapshot.codes))}
        others = {"fitted_fee"}  # an aspect of `costs`, not a separate cause
        others.update(cause for cause, fill in _FILLS.items() if own == {fill})
        if not self._has_close_before:
            others.add("fill_before_decision")
        if self.made.trades is None:
            others.add("fill_at_declared")
        if not self._fees.any():
            others.add("declared_fees")
        if self.made.plan.form != "weight":
            others.update(("rebalancing", "sizing"))

        return tuple(cause for cause in CAUSES if cause not in others)

    def run(self, causes: frozenset[Cause], fee: float = 0.0) -> Simulated:
        """Return the NAV in currency units, starting on the day of the first decision, and the
        value traded. `fee` is a rate on the value traded.
        """
        # In a large account, rounding to whole lots is below float precision.
        times = 1
        tape = self._tape(causes, fee)
        plan = self._plan(causes)
        if "lots" in causes:
            times = _TIMES
            plan = scale_plan(plan, times)

        minor = tape.rules.minor_per_unit
        trading = replace(self.trading, initial_cash=self.trading.initial_cash * times)
        account = open_account(trading, minor)
        lent = 0
        if _is_on_credit(causes, plan.form):
            lent = account.cash_minor * _CREDIT
            account = changed(account, cash_minor=account.cash_minor + lent)

        nav_minor = account.cash_minor - lent
        navs = [nav_minor]
        traded = [0.0]
        reader = PlanReader(plan)
        is_before = "fill_before_decision" in causes
        first = self.made.first_row - is_before
        for row, day in enumerate(self._decision_days(plan, causes), start=first):
            nav = nav_minor / minor
            held = self._list_held(account, tape, row)
            orders = reader.orders(day, held, nav)
            if "sizing" in causes:
                orders = [self._size_order(order, held, tape, row, nav) for order in orders]
            elif "lots" in causes:
                orders += [_opposite(order) for order in orders if order.weight]

            action = tuple(self._order(order, tape.rules) for order in orders)
            settled = settle(account, tape.day(row + 1), action, row)
            account = settled.after
            worth = max(settled.open_nav_minor - lent, 1)
            traded.append(traded[-1] + _count_trades(settled) / worth)
            nav_minor = settled.nav_minor - lent
            navs.append(nav_minor)

        path = np.array(navs[is_before:], dtype=np.float64) / (minor * times)
        if "declared_fees" in causes:
            path = path - np.cumsum(self._fees)
        return Simulated(path, np.array(traded[is_before:]))

    def _plan(self, causes: frozenset[Cause]) -> DeclaredPlan:
        """Return the plan to run. A price of the declared day needs a fill on that day."""
        at_declared_days = self.made.at_declared_days
        if at_declared_days is None or PRICES.isdisjoint(causes):
            return self.made.plan
        return at_declared_days

    def _decision_days(self, plan: DeclaredPlan, causes: frozenset[Cause]) -> list[str]:
        """Return the decision day that applies at each close. If weights are rebalanced daily, the
        last day with decisions is repeated.
        """
        days: list[str] = []
        decided = plan.by_day
        last = self.made.last_row + ("fill_before_decision" in causes)
        for row in range(self.made.first_row, last):
            day = str(self.snapshot.days[row])
            if "rebalancing" in causes and day not in decided and days:
                day = days[-1]
            days.append(day)

        return days

    @property
    def _has_close_before(self) -> bool:
        """Return whether decisions can be moved to the previous session. This is not possible for
        trades, which have been moved already.
        """
        is_decided = self.made.trades is None or self.made.plan.form != "orders"
        return is_decided and self.made.first_row > 0

    @cached_property
    def _tapes(self) -> dict[Any, MarketTape]:
        """Tapes built so far, by fill and by whether dividends are booked."""
        return {}

    @cached_property
    def _fees(self) -> Path:
        """Fees that the file declares by day, in currency units."""
        days = range(self.made.first_row, self.made.last_row + 1)
        return np.array([self.made.fees.get(row, 0.0) for row in days])

    def _fill_of(self, column: int) -> FillRule:
        venue = self.trading.venue or self.snapshot.rules[self.snapshot.venues[column]]
        return venue.fill

    def _list_held(self, account: Account, tape: MarketTape, row: int) -> dict[str, Held]:
        held = {}
        closes = tape.close_ticks[row]
        minor = tape.rules.minor_per_unit
        for column, position in account.positions.items():
            steps = tape.rules.scales[column].steps_per_unit
            value = position.shares * int(closes[column]) / tape.rules.units[column] / minor
            held[self.snapshot.codes[column]] = Held(position.shares / steps, value)
        return held

    def _order(self, order: DeclaredOrder, rules: MarketRules) -> Order:
        column = self.snapshot.asset_index[order.code]
        shares = None
        if order.shares is not None:
            # 0 if the weight was already reached at the close
            least = 1 if order.weight is None else 0
            shares = max(least, round(order.shares * rules.scales[column].steps_per_unit))
        return Order(column, order.side, 0.5, "as declared", order.weight, shares)

    def _size_order(
        self, order: DeclaredOrder, held: dict[str, Held], tape: MarketTape, row: int, nav: float
    ) -> DeclaredOrder:
        """Return an order in whole lots instead of an order to a target weight. Its size is
        computed at the decision's close.
        """
        if not order.weight:
            return order

        column = self.snapshot.asset_index[order.code]
        price = int(tape.close_ticks[row, column]) / tape.rules.scales[column].ticks_per_unit
        if not price:
            return order

        lot = tape.rules.terms[column].lot / tape.rules.scales[column].steps_per_unit
        goal = in_lots(abs(order.weight) * nav / price, lot)
        gap = math.copysign(goal, order.weight) - held.get(order.code, Held(0.0, 0.0)).shares
        return replace(order, side="BUY" if gap > 0 else "SELL", shares=abs(gap))

    # ---- tapes

    def _tape(self, causes: frozenset[Cause], fee: float) -> MarketTape:
        tape = self._read_tape(causes)
        if "costs" in causes:
            tape = replace(tape, liquidity=None)
        if "limits" in causes:
            tape = self._without_limits(tape)
        if "fill_at_declared" in causes:
            tape = self._at_declared(tape)

        if not causes.isdisjoint(("costs", "limits", "lots")):
            tape = _with_terms(tape, causes, fee)
        return tape

    def _read_tape(self, causes: frozenset[Cause]) -> MarketTape:
        fill = next((_FILLS[cause] for cause in causes if cause in _FILLS), None)
        if "fill_before_decision" in causes:
            fill = "same_close"

        key = (fill, "dividends" in causes)
        known = self._tapes
        if key in known:
            return known[key]

        market = self.snapshot
        if "dividends" in causes:
            market = replace(market, factor=np.ones_like(market.factor))

        trading = self.trading
        if fill is not None and (trading.venue is not None or len(market.rules) == 1):
            venue = trading.venue or next(iter(market.rules.values()))
            trading = replace(trading, venue=replace(venue, fill=fill))
        elif fill is not None:
            rules = {name: replace(venue, fill=fill) for name, venue in market.rules.items()}
            market = replace(market, rules=rules)

        known[key] = MarketTape.from_snapshot(market, trading)
        return known[key]

    def _without_limits(self, tape: MarketTape) -> MarketTape:
        none = np.zeros_like(tape.limit_up)  # a missing open is treated like a price at its limit
        has_price = tape.open_ticks > 0
        return replace(tape, limit_up=none, limit_down=none, member=has_price, tradable=has_price)

    def _at_declared(self, tape: MarketTape) -> MarketTape:
        """Return the tape with declared prices as fill prices, averaged with the number of shares
        as weights.
        """
        opens = np.array(tape.open_ticks)
        spent: dict[tuple[int, int], list[float]] = {}
        for each in self.made.trades.itertuples():
            sums = spent.setdefault((int(each.row), int(each.column)), [0.0, 0.0])
            sums[0] += float(each.shares) * float(each.price)
            sums[1] += float(each.shares)

        for (row, column), (value, shares) in spent.items():
            opens[row, column] = round(value / shares * tape.rules.scales[column].ticks_per_unit)

        opens.flags.writeable = False
        return replace(tape, open_ticks=opens)


def _is_on_credit(causes: frozenset[Cause], form: str) -> bool:
    """Return whether orders are not limited by cash. Under `limits`, orders to a weight are still
    limited: the weight refers to the NAV, which does not include credit.
    """
    return "sizing" in causes or ("limits" in causes and form != "weight")


def _opposite(order: DeclaredOrder) -> DeclaredOrder:
    """Return the order to the same weight with the opposite side. The fill price may have moved
    past the weight, so only one of the two orders trades.
    """
    return replace(order, side="SELL" if order.side == "BUY" else "BUY")


def _count_trades(settled: Settlement) -> int:
    return sum(outcome.notional_minor for outcome in settled.outcomes)


def _with_terms(tape: MarketTape, causes: frozenset[Cause], fee: float) -> MarketTape:
    spells = tuple((row, _without(rules, causes, fee)) for row, rules in tape.spells)
    return replace(tape, rules=_without(tape.rules, causes, fee), spells=spells)


def _without(rules: MarketRules, causes: frozenset[Cause], fee: float) -> MarketRules:
    rate = round(fee * RATE_SCALE)
    terms = []
    for each in rules.terms:
        margin = each.margin
        if "costs" in causes:
            commission = each.commission
            if commission is not None:
                commission = commission._replace(unit_rate=0, max_rate=None)
            if margin is not None:
                margin = replace(margin, borrow=0)
            each = changed(
                each,
                buy_rate=rate,
                sell_rate=rate,
                minimum_fee=0,
                commission=commission,
                duties=NO_DUTIES,
                execution=None,
                margin=margin,
            )
        if "limits" in causes:
            if margin is not None:
                margin = replace(margin, initial=0, maintenance=0)
            each = changed(each, locks=False, margin=margin)
        if "lots" in causes:
            each = changed(
                each, lot=1, min_buy=1, min_sell=0, minimum_fee=each.minimum_fee * _TIMES
            )
        terms.append(each)

    return replace(rules, terms=tuple(terms))
