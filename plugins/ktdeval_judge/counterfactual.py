"""The same decisions with one rule of the executor taken away: for diagnosis, and never on a card.

The executor is the suite's own; what changes is the tape that it reads. `costs`: no fees, duties,
spread or impact. `declared_fees`: what the file's trades say that they paid. `fill_at_…`: another
price of the bar, or that of the declared trade. `limits`: no T+1, price limits, halts or universe.
`lots`: an account 10,000 times as large without lots, so that whole shares round nothing.
`dividends`: splits and dividends are not booked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace as changed

from ktdeval.market import FillRule, MarketSnapshot
from ktdeval.trading import (
    NO_DUTIES,
    Account,
    MarketRules,
    MarketTape,
    Order,
    TradingConfig,
    open_account,
    settle,
)
from ktdeval_judge.market_plan import MarketPlan
from ktdeval_judge.nav_parts import CAUSES, Cause, Path
from ktdeval_judge.plan import Held, PlannedOrder, PlanReader, scaled

_TIMES = 10_000  #: how many times as large the account without lots is
_FILLS: dict[str, FillRule] = {
    "fill_at_open": "next_open",
    "fill_at_close": "next_close",
    "fill_at_decision": "same_close",
}


@dataclass(frozen=True)
class Counterfactuals:
    """NAVs of a plan under rules with some taken away. Holds the tapes made so far."""

    made: MarketPlan
    snapshot: MarketSnapshot
    trading: TradingConfig

    @cached_property
    def possible(self) -> tuple[Cause, ...]:
        """Causes that can change anything here."""
        own = {self._fill_of(column) for column in range(len(self.snapshot.codes))}
        causes: list[Cause] = []
        for cause in CAUSES:
            if cause == "fill_at_declared" and self.made.trades is None:
                continue
            if cause == "declared_fees" and not self._fees.any():
                continue
            if cause in _FILLS and own == {_FILLS[cause]}:
                continue
            causes.append(cause)

        return tuple(causes)

    def nav(self, causes: frozenset[Cause]) -> Path:
        """Return the NAV in units of currency, from the day of the first decision on."""
        # A large account's whole lots round nothing that a float would show.
        times = 1
        tape = self._tape(causes)
        plan = self.made.plan
        if "lots" in causes:
            times = _TIMES
            plan = scaled(plan, times)

        trading = replace(self.trading, initial_cash=self.trading.initial_cash * times)
        minor = tape.rules.minor_per_unit
        reader = PlanReader(plan)
        account = open_account(trading, minor)
        nav_minor = account.cash_minor
        navs = [nav_minor]
        for row in range(self.made.first_row, self.made.last_row):
            held = self._held(account, tape, row)
            orders = reader.orders(str(self.snapshot.days[row]), held, nav_minor / minor)
            action = tuple(self._order(order, tape.rules) for order in orders)
            settled = settle(account, tape.day(row + 1), action, row)
            account = settled.after
            nav_minor = settled.nav_minor
            navs.append(nav_minor)

        path = np.array(navs, dtype=np.float64) / (minor * times)
        if "declared_fees" in causes:
            path = path - np.cumsum(self._fees)
        return path

    @cached_property
    def _tapes(self) -> dict[Any, MarketTape]:
        """Tapes that were read, by fill and whether dividends are booked."""
        return {}

    @cached_property
    def _fees(self) -> Path:
        """Fees that the file declares, by day, in units of currency."""
        days = range(self.made.first_row, self.made.last_row + 1)
        return np.array([self.made.fees.get(row, 0.0) for row in days])

    def _fill_of(self, column: int) -> FillRule:
        venue = self.trading.venue or self.snapshot.rules[self.snapshot.venues[column]]
        return venue.fill

    def _held(self, account: Account, tape: MarketTape, row: int) -> dict[str, Held]:
        held = {}
        closes = tape.close_ticks[row]
        minor = tape.rules.minor_per_unit
        for column, position in account.positions.items():
            steps = tape.rules.scales[column].steps_per_unit
            value = position.shares * int(closes[column]) / tape.rules.units[column] / minor
            held[self.snapshot.codes[column]] = Held(position.shares / steps, value)
        return held

    def _order(self, order: PlannedOrder, rules: MarketRules) -> Order:
        column = self.snapshot.asset_index[order.code]
        shares = None
        if order.shares is not None:
            shares = max(1, round(order.shares * rules.scales[column].steps_per_unit))
        return Order(column, order.side, 0.5, "as declared", order.weight, shares)

    # ---- tapes

    def _tape(self, causes: frozenset[Cause]) -> MarketTape:
        tape = self._read_tape(causes)
        if "costs" in causes:
            tape = replace(tape, liquidity=None)
        if "limits" in causes:
            tape = self._without_limits(tape)
        if "fill_at_declared" in causes:
            tape = self._at_declared(tape)

        own = frozenset({"costs", "limits", "lots"}) & causes
        if own:
            tape = _with_terms(tape, own)
        return tape

    def _read_tape(self, causes: frozenset[Cause]) -> MarketTape:
        fill = next((_FILLS[cause] for cause in causes if cause in _FILLS), None)
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
        none = np.zeros_like(tape.limit_up)  # no open counts as at a limit
        has_price = tape.open_ticks > 0
        return replace(tape, limit_up=none, limit_down=none, member=has_price, tradable=has_price)

    def _at_declared(self, tape: MarketTape) -> MarketTape:
        """Return the tape with the declared prices as prices of the fills, means by size."""
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


def _with_terms(tape: MarketTape, causes: frozenset[str]) -> MarketTape:
    spells = tuple((row, _without(rules, causes)) for row, rules in tape.spells)
    return replace(tape, rules=_without(tape.rules, causes), spells=spells)


def _without(rules: MarketRules, causes: frozenset[str]) -> MarketRules:
    terms = []
    for each in rules.terms:
        if "costs" in causes:
            commission = each.commission
            if commission is not None:
                commission = commission._replace(unit_rate=0)
            each = changed(
                each,
                buy_rate=0,
                sell_rate=0,
                minimum_fee=0,
                commission=commission,
                duties=NO_DUTIES,
                execution=None,
            )
        if "limits" in causes:
            each = changed(each, locks=False)
        if "lots" in causes:
            each = changed(
                each, lot=1, min_buy=1, min_sell=0, minimum_fee=each.minimum_fee * _TIMES
            )
        terms.append(each)

    return replace(rules, terms=tuple(terms))
