"""Settle decisions on one asset for N accounts at once, with the same results as the executor to
the minor unit.

Arrays hold 64-bit integers. Products that need more bits are divided exactly (`floor_ratio`). Rare
cases (a factor change of a held asset, a margin call, an order limited by cash) are settled one
account at a time by `ktdeval.trading.settle`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.market import FloatArray
from ktdeval.trading import (
    Account,
    Duty,
    Order,
    Position,
    Side,
    ceil_ratio,
    floor_ratio,
    settle,
)
from ktdeval_gym.single_asset_simulation import AssetMarket

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_Product = tuple[IntArray, IntArray | int]

PPB = 10**9  #: number of parts into which a weight of 1 is divided
RATE_SCALE = 10**10  #: number of parts into which a rate of 1 is divided
HALF_RATE = RATE_SCALE // 2
_ROUNDED = 1 - 1e-6  # as in ktdeval.harness.stance_form; tests check that both are equal
_LARGEST_DIVISOR = 1 << 60
_LARGEST = 1 << 62  # leaves room for a sign and a sum in a 64-bit integer


@dataclass(frozen=True)
class KernelAccounts:
    """Accounts that trade one asset, [N] each. Shares unlock overnight, so none that are locked at
    a close matter at the next open.
    """

    cash: IntArray  #: cash in minor units
    held: IntArray  #: position in steps; negative for a short position
    nav: IntArray  #: NAV at the last close, in minor units


@dataclass(frozen=True)
class KernelOrders:
    """At most one order for each account, [N] each."""

    given: BoolArray  #: whether the account has an order
    buys: BoolArray
    weight: FloatArray  #: target weight


class Kernel:
    """Settles decisions on a market's only traded asset."""

    def __init__(self, market: AssetMarket) -> None:
        tape = market.tape
        asset = market.asset
        self.settled_one_by_one = 0  #: number of account steps that the executor itself has settled
        self._market = market
        self._rules = tape.rules
        self._terms = tape.rules.terms[asset]  #: without duties, which depend on the day
        self._opens = np.ascontiguousarray(tape.open_ticks[:, asset])
        self._closes = np.ascontiguousarray(tape.close_ticks[:, asset])
        self._tradable = tape.tradable[:, asset]
        self._member = tape.member[:, asset]
        self._limit_up = tape.limit_up[:, asset]
        self._limit_down = tape.limit_down[:, asset]
        self._has_event = np.zeros(len(self._opens), dtype=np.bool_)
        for row, changed in tape.events.items():
            self._has_event[row] = asset in changed

        fees = tape.rules.venues[asset].fees
        self._fee_rate = max(fees.buy_bps, fees.sell_bps) / 1e4
        self._steps_per_unit = 1
        if self._terms.commission is not None:
            self._steps_per_unit = self._terms.commission.steps

        on_days = [tape.rules_on(row).terms[asset].duties for row in range(len(self._opens))]
        self._sell_duties = _by_day([duties.sell for duties in on_days if duties])
        self._buy_duties = _by_day([duties.buy for duties in on_days if duties])

        # weight * NAV * unit / (PPB * price), reduced by the common divisor of unit and PPB
        shared = math.gcd(self._terms.unit, PPB)
        self._unit_part = self._terms.unit // shared
        self._ppb_part = PPB // shared
        self._max_nav = _LARGEST // self._unit_part
        self.is_native = max(self._divisors()) < _LARGEST_DIVISOR

    def _divisors(self) -> tuple[int, ...]:
        """Return the largest divisors that a settlement may need."""
        highest = int(max(self._opens.max(), self._closes.max(), 1))
        return (
            self._ppb_part * highest,
            self._terms.unit,
            RATE_SCALE * self._steps_per_unit,
            2 * self._rules.days_a_year * RATE_SCALE,
        )

    # ---- decisions

    def orders(self, actions: IntArray, accounts: KernelAccounts) -> KernelOrders:
        """Return the orders that decisions lead to. `actions`: indices into `DECISIONS`, [N]."""
        rule = self._market.rule
        now = np.sign(accounts.held)
        flat_or_kept = now if rule.hold == "keep" else np.zeros_like(now)
        sold = np.full_like(now, -1 if rule.shorts else 0)
        if rule.sell_closes:
            sold = np.where(now > 0, 0, sold)
        wanted = np.choose(actions, [sold, flat_or_kept, np.ones_like(now)])

        is_positive = accounts.nav > 0
        divisor = np.where(is_positive, accounts.nav, 1)
        exposure = np.where(is_positive, np.abs(accounts.nav - accounts.cash) / divisor, 0.0)
        invested = np.maximum(0.0, 1.0 - self._fee_rate * exposure) / (1.0 + self._fee_rate)
        is_rounded = (wanted * now < 0) | (invested < 1.0)
        rounded = np.where(is_rounded, _ROUNDED, 1.0)

        return KernelOrders(
            given=wanted != now,
            buys=wanted > now,
            weight=wanted * rule.weight * invested * rounded,
        )

    # ---- settlement

    def settle(
        self, accounts: KernelAccounts, rows: IntArray, orders: KernelOrders
    ) -> tuple[KernelAccounts, IntArray]:
        """Settle orders decided at the closes of `rows`, [N]. Return the accounts at the next
        closes, and the notional of the fills, [N].
        """
        day = _FillDays(self, rows + 1)
        cash, rare = self._open_accounts(accounts, day)
        if not self.is_native:
            rare = np.ones_like(rare)

        nav = cash + self._value(accounts.held, day.opens)
        rare |= (nav <= 0) | (nav > self._max_nav)
        price = np.where(day.opens > 0, day.opens, 1)
        safe_nav = np.where(rare, 1, nav)
        target = self._target(orders.weight, safe_nav, price)

        trade = _OrderTerms(accounts.held, cash, target, price, orders.weight)
        sold = self._sell(trade, day)
        bought = self._buy(trade, day)
        if bought.is_cut is not None:
            rare |= orders.given & orders.buys & bought.is_cut

        sells = orders.given & ~orders.buys & sold.is_filled
        buys = orders.given & orders.buys & bought.is_filled
        held = np.where(sells, sold.held, np.where(buys, bought.held, accounts.held))
        cash = np.where(sells, sold.cash, np.where(buys, bought.cash, cash))
        traded = np.where(sells, sold.notional, np.where(buys, bought.notional, 0))
        after = KernelAccounts(cash, held, cash + self._value(held, day.closes))

        self.settled_one_by_one += int(rare.sum())
        for index in np.flatnonzero(rare).tolist():
            traded[index] = self._settle_one(index, accounts, int(rows[index]), orders, after)

        return after, traded

    def _open_accounts(
        self, accounts: KernelAccounts, day: _FillDays
    ) -> tuple[IntArray, BoolArray]:
        """Return the cash at the opens, and whether each account has a rare event before its
        orders.
        """
        rare = (accounts.held != 0) & self._has_event[day.rows]
        margin = self._terms.margin
        if margin is None:
            return accounts.cash, rare

        is_short = accounts.held < 0
        value = np.where(is_short, -self._value(accounts.held, day.previous), 0)
        whole = self._rules.days_a_year * RATE_SCALE
        interest = ceil_ratio([(value, margin.borrow)], whole)
        cash = accounts.cash - interest

        owed = np.where(is_short, -self._value(accounts.held, day.opens), 0)
        needed = floor_ratio([(owed, RATE_SCALE + margin.maintenance)], RATE_SCALE, HALF_RATE)
        return cash, rare | (is_short & (cash < needed)) | (cash < 0)

    def _value(self, held: IntArray, ticks: IntArray) -> IntArray:
        """Return the value of positions, rounded half up; negative for short positions."""
        unit = self._terms.unit
        size = floor_ratio([(np.abs(held), ticks)], unit, unit >> 1)
        return np.where(held < 0, -size, size)

    def _target(self, weight: FloatArray, nav: IntArray, price: IntArray) -> IntArray:
        """Return the number of steps worth a given weight of NAV, rounded towards zero."""
        parts = np.rint(np.abs(weight) * PPB).astype(np.int64)
        size = floor_ratio([(parts, nav * self._unit_part)], self._ppb_part * price)
        return np.where(weight < 0, -size, size)

    def _sell(self, trade: _OrderTerms, day: _FillDays) -> _OrderFills:
        """Check and fill the sell order of every account."""
        terms = self._terms
        held = trade.held
        is_allowed = day.tradable & ~day.limit_down
        if terms.margin is None:
            is_allowed &= held != 0

        target = np.where(trade.weight == 0.0, 0, trade.target)
        is_allowed &= target < held
        ordered = np.where(is_allowed, held - _in_lots(target, terms.lot), 0)
        if terms.margin is None:
            closes = is_allowed
        else:
            closes = is_allowed & (ordered > 0) & (ordered <= held)

        shares = np.where(closes, np.minimum(ordered, held), np.maximum(ordered, 0))
        notional, fee = self._cost(shares, trade.price, day, selling=True)
        cash = trade.cash + notional - fee

        leaves_odd = (shares % terms.lot != 0) & ((held - shares) % terms.lot != 0)
        is_small = (shares < terms.min_sell) & (shares < held)
        is_closed = closes & (held > 0) & ~leaves_odd & ~is_small & (cash >= 0)
        if terms.margin is None:
            return _OrderFills(is_closed, held - shares, cash, notional)

        short = ordered - held
        rate = RATE_SCALE + terms.margin.initial
        owed = floor_ratio([(np.maximum(short, 0), trade.price)], terms.unit, terms.unit >> 1)
        needed = floor_ratio([(owed, rate)], RATE_SCALE, HALF_RATE)
        is_short = is_allowed & ~closes & (ordered > 0) & day.member & (short % terms.lot == 0)
        is_short &= (notional >= terms.minimum_notional) & (cash >= needed)

        return _OrderFills(is_closed | is_short, held - shares, cash, notional)

    def _buy(self, trade: _OrderTerms, day: _FillDays) -> _OrderFills:
        """Check and fill the buy order of every account."""
        terms = self._terms
        lot = terms.lot
        held = trade.held
        target = trade.target
        covers = held < 0
        is_allowed = day.tradable & ~day.limit_up & (target > held) & (covers | day.member)
        added = np.maximum(0, target // lot * lot - held) // lot * lot
        ordered = np.where(covers, _in_lots(target, lot) - held, added)
        ordered = np.where(is_allowed, ordered, 0)
        after = held + ordered

        notional, fee = self._cost(np.maximum(ordered, 0), trade.price, day, selling=False)
        is_back = covers & (ordered > 0) & ((ordered % lot == 0) | (after == 0))
        is_back &= (after <= 0) | day.member
        is_new = ~covers & (ordered % lot == 0) & (ordered >= terms.min_buy)
        is_new &= (ordered > 0) & (notional >= terms.minimum_notional)

        is_valid = is_allowed & (is_back | is_new)
        is_cut = is_valid & (notional + fee > trade.cash)
        return _OrderFills(is_valid & ~is_cut, after, trade.cash - notional - fee, notional, is_cut)

    def _cost(
        self, steps: IntArray, price: IntArray, day: _FillDays, selling: bool
    ) -> tuple[IntArray, IntArray]:
        """Return the notional and the fee of fills, as in `ktdeval.trading.venue_terms.cost`."""
        terms = self._terms
        rate = terms.sell_rate if selling else terms.buy_rate
        duties = self._sell_duties if selling else self._buy_duties
        if terms.commission is None:
            notional = floor_ratio([(steps, price)], terms.unit, terms.unit >> 1)
            fee = floor_ratio([(notional, rate)], RATE_SCALE, HALF_RATE)
            fee = np.maximum(fee, terms.minimum_fee)
            for duty in duties:
                fee = fee + floor_ratio([(notional, duty.rate[day.rows])], RATE_SCALE, HALF_RATE)

            return notional, fee

        commission = terms.commission
        scale = RATE_SCALE * commission.steps
        product: list[_Product] = [(steps, price)]
        notional = floor_ratio(product, terms.unit) if selling else ceil_ratio(product, terms.unit)
        by_value = (notional, rate * commission.steps)
        fee = ceil_ratio([by_value, (steps, commission.unit_rate)], scale)
        fee = np.maximum(fee, terms.minimum_fee)
        if commission.max_rate is not None:
            fee = np.minimum(fee, ceil_ratio([(notional, commission.max_rate)], RATE_SCALE))

        for duty in duties:
            by_unit = ceil_ratio([(steps, duty.unit_rate[day.rows])], scale)
            by_unit = np.minimum(by_unit, duty.most[day.rows])
            fee = fee + ceil_ratio([(notional, duty.rate[day.rows])], RATE_SCALE) + by_unit

        return notional, fee

    def _settle_one(
        self,
        index: int,
        accounts: KernelAccounts,
        row: int,
        orders: KernelOrders,
        after: KernelAccounts,
    ) -> int:
        """Settle one account with the executor, into `after`. Return the notional of its fills."""
        asset = self._market.asset
        held = int(accounts.held[index])
        positions = {asset: Position(held)} if held else {}
        action: tuple[Order, ...] = ()
        if orders.given[index]:
            side: Side = "BUY" if orders.buys[index] else "SELL"
            action = (Order(asset, side, 0.5, "", float(orders.weight[index])),)

        account = Account(int(accounts.cash[index]), positions)
        settled = settle(account, self._market.tape.day(row + 1), action, row)
        position = settled.after.positions.get(asset)
        after.cash[index] = settled.after.cash_minor
        after.held[index] = 0 if position is None else position.shares
        after.nav[index] = settled.nav_minor
        return sum(outcome.notional_minor for outcome in settled.outcomes)


class _FillDays:
    """Market data for the fill days of N accounts, [N] each."""

    def __init__(self, kernel: Kernel, rows: IntArray) -> None:
        self.rows = rows
        self.opens = kernel._opens[rows]
        self.closes = kernel._closes[rows]
        self.previous = kernel._closes[rows - 1]
        self.tradable = kernel._tradable[rows]
        self.member = kernel._member[rows]
        self.limit_up = kernel._limit_up[rows]
        self.limit_down = kernel._limit_down[rows]


@dataclass(frozen=True)
class _DutyByDay:
    """A duty by market row, [T]; 0 where it is not due."""

    rate: IntArray
    unit_rate: IntArray
    most: IntArray


def _by_day(duties: Sequence[Sequence[Duty]]) -> list[_DutyByDay]:
    """Return the transaction charges of one side (stamp duty, levies, …), one for each kind.
    `duties`: the charges on each row.
    """
    kinds = sorted({duty.kind for due in duties for duty in due})
    by_day: list[_DutyByDay] = []
    for kind in kinds:
        rate, unit_rate, most = np.zeros((3, len(duties)), dtype=np.int64)
        most[:] = _LARGEST
        for row, due in enumerate(duties):
            for duty in due:
                if duty.kind != kind:
                    continue

                rate[row] = duty.rate
                unit_rate[row] = duty.unit_rate
                if duty.most is not None:
                    most[row] = duty.most

        by_day.append(_DutyByDay(rate, unit_rate, most))

    return by_day


@dataclass(frozen=True)
class _OrderTerms:
    """Values against which an account's order is checked, [N] each."""

    held: IntArray
    cash: IntArray  #: cash at the opens
    target: IntArray  #: target position in steps
    price: IntArray  #: price in ticks
    weight: FloatArray


@dataclass(frozen=True)
class _OrderFills:
    """Outcome of orders, [N] each. Where an order is not filled, all other fields are
    meaningless.
    """

    is_filled: BoolArray
    held: IntArray
    cash: IntArray
    notional: IntArray
    is_cut: BoolArray | None = None  #: for buys: whether the cash does not cover the order


def _in_lots(steps: IntArray, lot: int) -> IntArray:
    """Round a number of steps towards zero to whole lots."""
    return np.asarray(np.sign(steps) * (np.abs(steps) // lot * lot), dtype=np.int64)
