"""Execute orders at one day's opens. Every order gets exactly one outcome; an order that is
rejected never stops the others.

Sells are executed first, then buys, each in the order of the action; outcomes are returned in the
order of the action. The rules, in the order in which they are checked:

    SELL    schema, universe, holding, suspended, price_limit, target, t_plus_1, lot, cash
    BUY     schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot, minimum, cash
    a sell beyond the holding, where short sales are allowed
            schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot,
            minimum, margin

The first rule that an order breaks rejects it. Details:

* **target** A target weight is worth `weight * NAV` at the opens before any fill (weight in parts
  per billion). The target holding is that value in shares, rounded towards zero to whole lots. A
  sell leaves the target holding; a buy adds the whole lots that don't exceed it. The order is
  rejected if the target is reached already, or would need a trade in the other direction. A target
  below zero is a short sale; where short sales are not allowed, it is rejected under `schema`. An
  order with a target weight and shares was sized when it was decided: it trades these shares, and
  0 shares mean that the target is reached already.
* **holding, t_plus_1** A sell of more than is sellable sells what is sellable. It is partially
  filled under `t_plus_1` if shares bought today are among the reasons, else under `holding`. If
  nothing is held it is rejected under `holding`; if all of the holding is locked, under `t_plus_1`.
  Where short sales are allowed, such a sell is a short sale.
* **lot** Buys are whole lots, on the STAR board of at least its minimum. Under `board_rules:
  exchange` STAR and Beijing trade single shares beyond their smallest order; a sell of fewer must
  sell all sellable shares. Elsewhere odd lots come only from factor changes: a sell is valid if it
  is whole lots, or if it includes the whole odd remainder of the sellable shares. A buy by target
  whose difference is below one lot (STAR: below the minimum) is rejected under this rule.
* **minimum** A buy or short sale is worth at least the venue's smallest order. Holdings can be
  sold, and shorts bought back, however little they are worth.
* **weight_limit** judges the whole ordered quantity at the fill price against the same NAV, before
  cash cuts it; equality is allowed. A short counts with its absolute value. An order sized when it
  was decided is judged by its target weight. A holding of more steps than fit into a ledger's
  integers breaks this rule too, which coins in steps of 1e-8 could reach.
* **cash** If cash is short, a buy is cut to the largest number of whole lots that cash covers with
  its fee (partially filled), or rejected if that is none. The value of shorts and their initial
  margin can be spent only on buying back. A buy that turns a short into a holding is filled whole
  or not at all. A sell whose fee exceeds its proceeds and the cash is rejected.
* **margin** After a short sale cash is at least the value of all shorts and their initial margin;
  a larger short sale is rejected, not cut.

Costs are the venue's (`ktdeval.trading.venue_terms.cost`). All arithmetic is in integers.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.trading.daily_settlement import (
    Settlement,
    check_step,
    holdings_minor,
    margin_minor,
    nav_minor,
    open_day,
)
from ktdeval.trading.market_tape import TradingDay
from ktdeval.trading.types import Account, Action, Order, Outcome, Position
from ktdeval.trading.venue_terms import PPB, RATE_SCALE, Terms, cost, in_lots, worth_steps
from ktdeval.values.files import csv_rows

_RULES = csv_rows(Path(__file__).with_name("rules.csv"))
# No message contains a number: a share count could be read as a security code, and under rescaled
# prices it would be wrong.
REJECTIONS = {row["rule"]: row["rejected"] for row in _RULES}
"""Rule -> message of the rejection."""
_REJECTED = {rule: Outcome("rejected", rule, message) for rule, message in REJECTIONS.items()}
_CUT = {row["rule"]: row["cut"] for row in _RULES if row["cut"]}
_MOST_STEPS = (1 << 63) - 1  # a ledger's integers have 64 bits
# Half a unit each for the notional, the commission and a few duties, and one for the division
_ROUNDED_UNITS = 4


def settle(account: Account, day: TradingDay, action: Action, decided_row: int) -> Settlement:
    """Book one fill day: overnight changes, orders, NAV at the close. Raises InvariantError if a
    check of the result fails.
    """
    opened, corporate_actions, charges = open_day(account, day)
    open_nav = nav_minor(opened, day.open_ticks, day.rules.units)
    after, outcomes = execute(opened, day, action, open_nav)

    held = holdings_minor(after.positions, day.close_ticks, day.rules.units)
    nav = after.cash_minor + held
    settlement = Settlement(
        account,
        opened,
        tuple(corporate_actions),
        open_nav,
        action,
        tuple(outcomes),
        after,
        held,
        nav,
        tuple(charges),
    )
    check_step(settlement, day, decided_row)

    return settlement


def execute(
    account: Account, day: TradingDay, action: Action, nav: int | None = None
) -> tuple[Account, list[Outcome]]:
    """Execute orders, valid or not, at the opens. Return the new account, and one outcome per order
    in the order of the action.

    `nav`: NAV of the account at the opens, if the caller has it already.
    """
    if not action:
        return account, []
    if nav is None:
        nav = nav_minor(account, day.open_ticks, day.rules.units)

    state = _BrokerState(account, day, nav)
    outcomes = [_REJECTED["schema"]] * len(action)
    buys = []

    # Sells first: their cash funds the day's buys.
    for index, order in enumerate(action):
        if not _is_well_formed(order, day):
            continue

        if order.side == "SELL":
            outcomes[index] = state.sell(order)
        elif order.side == "BUY":
            buys.append(index)

    for index in buys:
        outcomes[index] = state.buy(action[index])

    return Account(state.cash, state.positions), outcomes


def _is_well_formed(order: Order, day: TradingDay) -> bool:
    weight = order.target_weight
    shares = order.shares
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


class _BrokerState:
    """Cash and positions while one day's orders are filled."""

    __slots__ = ("cash", "day", "most_names", "most_worth_ppb", "nav", "positions", "terms")

    def __init__(self, account: Account, day: TradingDay, nav: int) -> None:
        self.cash = account.cash_minor
        self.positions = dict(account.positions)
        self.day = day
        self.nav = nav
        self.terms = day.rules.terms
        self.most_names = day.rules.limits.max_positions
        # KTD-Fin §3.5 and Appendix I: largest weight of one name
        self.most_worth_ppb = day.rules.limits.max_weight_ppb * nav

    def _is_too_large(self, order: Order, steps: int, price: int, unit: int) -> bool:
        if order.shares is not None and order.target_weight is not None:
            is_heavy = round(abs(order.target_weight) * PPB) > self.day.rules.limits.max_weight_ppb
        else:
            # Multiplied out: an integer division would round the limit.
            is_heavy = steps * price * PPB > self.most_worth_ppb * unit

        return is_heavy or steps > _MOST_STEPS

    def sell(self, order: Order) -> Outcome:
        """Judge and fill one sell."""
        asset = order.asset
        day = self.day
        if asset is None:
            return _REJECTED["universe"]

        terms = self.terms[asset]
        position = self.positions.get(asset)
        if position is None:
            # KTD-Fin §3.1: long only, where the venue allows no short sales
            if terms.margin is None:
                return _REJECTED["holding"]

            position = _NOTHING

        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        # KTD-Fin §3.1: a stock at its lower limit can't be sold
        if day.limit_down[asset]:
            return _REJECTED["price_limit"]

        held = position.shares
        price = day.open_ticks[asset]
        ordered = self._steps_to_sell(order, held, price, terms)
        if ordered is None:
            return _REJECTED["target"]
        if terms.margin is None or 0 < ordered <= held:
            return self._fill_sell(asset, ordered, position, price, terms)
        # A short of an odd size: the rounded target is not below the position, nothing to sell.
        if ordered <= 0:
            return _REJECTED["lot"]
        if position.locked:
            return _REJECTED["t_plus_1"]

        return self._sell_short(order, ordered, held, price)

    def _steps_to_sell(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Return the steps that a sell asks for; None if its target is reached already."""
        if order.shares is not None:
            return order.shares or None

        target = 0
        if order.target_weight:
            target = worth_steps(order.target_weight, self.nav, price, terms.unit)

        if target >= held:
            return None
        return held - in_lots(target, terms.lot)

    def _steps_to_buy(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Return the steps that a buy asks for; None if its target is reached already."""
        if order.shares is not None:
            return order.shares or None

        target = worth_steps(order.target_weight or 0.0, self.nav, price, terms.unit)
        if target <= held:
            return None

        lot = terms.lot
        if held < 0:  # the target is whole lots, a short need not be
            return in_lots(target, lot) - held

        # A holding may be an odd lot, too; what is added are whole lots.
        return max(0, target // lot * lot - held) // lot * lot

    def _fill_sell(
        self, asset: int, ordered: int, position: Position, price: int, terms: Terms
    ) -> Outcome:
        held = position.shares
        locked = position.locked
        sellable = held - locked
        # T+1 (KTD-Fin §3.1)
        if sellable == 0:
            return _REJECTED["t_plus_1"]

        shares = min(ordered, sellable)
        lot = terms.lot
        # An odd lot is sold only with the whole odd remainder: what stays must be whole lots.
        if shares % lot and (sellable - shares) % lot:
            return _REJECTED["lot"]
        if shares < terms.min_sell and shares < sellable:
            return _REJECTED["lot"]

        notional, fee = cost(shares, price, terms, True)
        if self.cash + notional < fee:
            return _REJECTED["cash"]

        self.cash += notional - fee
        if shares == held:
            del self.positions[asset]
        else:
            self.positions[asset] = Position(held - shares, locked)

        cut_by = None
        if shares < ordered:
            cut_by = "t_plus_1" if locked else "holding"

        return _filled(shares, price, notional, fee, cut_by)

    def _sell_short(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a sell after which the position is short."""
        asset = order.asset
        if asset is None:
            return _REJECTED["universe"]

        day = self.day
        terms = self.terms[asset]
        short = ordered - held
        if not day.member[asset]:
            return _REJECTED["universe"]
        if not held and len(self.positions) >= self.most_names:
            return _REJECTED["position_limit"]
        if self._is_too_large(order, short, price, terms.unit):
            return _REJECTED["weight_limit"]
        if short % terms.lot:
            return _REJECTED["lot"]

        notional, fee = cost(ordered, price, terms, True)
        if notional < terms.minimum_notional:
            return _REJECTED["minimum"]

        positions = {**self.positions, asset: Position(-short)}
        if self.cash + notional - fee < margin_minor(positions, day, initial=True):
            return _REJECTED["margin"]

        self.cash += notional - fee
        self.positions = positions
        return _filled(ordered, price, notional, fee)

    def buy(self, order: Order) -> Outcome:
        """Judge and fill one buy."""
        asset = order.asset
        day = self.day
        if asset is None:
            return _REJECTED["universe"]

        position = self.positions.get(asset)
        held = 0 if position is None else position.shares
        # A short can be bought back after its asset has left the universe.
        if held >= 0 and not day.member[asset]:
            return _REJECTED["universe"]
        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        # KTD-Fin §3.1: a stock at its upper limit can't be bought
        if day.limit_up[asset]:
            return _REJECTED["price_limit"]
        # KTD-Fin §3.5 and Appendix I: most positions held
        if position is None and len(self.positions) >= self.most_names:
            return _REJECTED["position_limit"]

        terms = self.terms[asset]
        price = day.open_ticks[asset]
        ordered = self._steps_to_buy(order, held, price, terms)
        if ordered is None:
            return _REJECTED["target"]
        if held < 0:
            return self._buy_back(order, ordered, held, price)
        if self._is_too_large(order, held + ordered, price, terms.unit):
            return _REJECTED["weight_limit"]
        if ordered % terms.lot or ordered < terms.min_buy:
            return _REJECTED["lot"]

        return self._fill_buy(asset, ordered, position or _NOTHING, price, terms)

    def _fill_buy(
        self, asset: int, ordered: int, position: Position, price: int, terms: Terms
    ) -> Outcome:
        shares = ordered
        cash = self.cash
        if self.day.rules.shorts:
            cash -= margin_minor(self.positions, self.day, initial=True)

        notional, fee = cost(shares, price, terms, False)
        if notional < terms.minimum_notional:
            return _REJECTED["minimum"]

        if notional + fee > cash:
            shares = _affordable(cash, price, terms)
            if shares < terms.min_buy:
                return _REJECTED["cash"]

            notional, fee = cost(shares, price, terms, False)
            if notional < terms.minimum_notional:
                return _REJECTED["cash"]

        # T+1 (KTD-Fin §3.1): not to be sold before the next day
        locked = position.locked + shares if terms.locks else 0
        self.cash -= notional + fee
        self.positions[asset] = Position(position.shares + shares, locked)

        cut_by = None if shares == ordered else "cash"
        return _filled(shares, price, notional, fee, cut_by)

    def _buy_back(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a buy of an asset that is held short, to less of a short or beyond it."""
        asset = order.asset
        if asset is None:
            return _REJECTED["universe"]

        day = self.day
        terms = self.terms[asset]
        shares = ordered
        after = held + ordered
        if after > 0 and not day.member[asset]:
            return _REJECTED["universe"]
        if after > 0 and self._is_too_large(order, after, price, terms.unit):
            return _REJECTED["weight_limit"]
        if ordered <= 0 or (ordered % terms.lot and after):
            return _REJECTED["lot"]

        notional, fee = cost(shares, price, terms, False)
        # The other positions: only their shorts will ask for margin.
        positions = dict(self.positions)
        del positions[asset]

        # To buy back, all cash may be spent; a holding must leave the margin of the other shorts.
        needed = margin_minor(positions, day, initial=True) if after > 0 else 0

        if notional + fee > self.cash - needed:
            if after > 0:
                return _REJECTED["cash"]

            shares = _affordable(self.cash, price, terms)
            if shares <= 0:
                return _REJECTED["cash"]

            notional, fee = cost(shares, price, terms, False)
            after = held + shares

        self.cash -= notional + fee
        if after:
            locked = after if after > 0 and terms.locks else 0
            positions[asset] = Position(after, locked)

        self.positions = positions
        cut_by = None if shares == ordered else "cash"
        return _filled(shares, price, notional, fee, cut_by)


def _filled(shares: int, price: int, notional: int, fee: int, cut_by: str | None = None) -> Outcome:
    """Return the outcome of a fill, partial if a rule has cut the order."""
    if cut_by is None:
        return Outcome("filled", None, "", shares, price, notional, fee)
    return Outcome("partially_filled", cut_by, _CUT[cut_by], shares, price, notional, fee)


def _affordable(cash: int, price: int, terms: Terms) -> int:
    """Return the largest whole-lot quantity whose notional and fee cash covers; 0 or less if there
    is none.
    """
    if cash <= 0:
        return 0

    # An upper bound on the notional: cash less the smallest fee. Where the commission has a
    # maximum, it can be below both the minimum and the rate, so that only cash itself is a bound.
    is_capped = terms.commission is not None and terms.commission.most_rate is not None
    if is_capped:
        most = cash
    else:
        after_minimum = cash - terms.minimum_fee
        after_rate = cash * RATE_SCALE // (RATE_SCALE + terms.buy_rate + _duty_rate(terms))
        most = min(after_minimum, after_rate)

    # Some units more, so that no rounding can make the first guess too small.
    shares = (most + _ROUNDED_UNITS) * terms.unit // price // terms.lot * terms.lot

    # With a commission by share the first guess may be far off: bisect. Else it is off by a lot or
    # two.
    if terms.commission:
        return _largest_covered(shares // terms.lot, cash, price, terms)

    while shares > 0:
        notional, fee = cost(shares, price, terms, False)
        if notional + fee <= cash:
            break

        shares -= terms.lot

    return shares


def _duty_rate(terms: Terms) -> int:
    """Return the part of a buy's notional that duties take."""
    if terms.duties is None:
        return 0
    return sum(duty.rate for duty in terms.duties.buy)


def _largest_covered(lots: int, cash: int, price: int, terms: Terms) -> int:
    """Return the largest quantity of at most `lots` lots that cash covers, by bisection: the price
    of a larger quantity is never lower.
    """
    low = 0
    high = lots
    while low < high:
        middle = (low + high + 1) // 2
        notional, fee = cost(middle * terms.lot, price, terms, False)
        if notional + fee <= cash:
            low = middle
        else:
            high = middle - 1

    return low * terms.lot


_NOTHING = Position(0)
