"""Orders against one day's opens: every order ends as exactly one outcome, and a bad one never stops the others.

Sells are judged first, then buys, each in the order of the action; outcomes come back in the order of the action. Judged are

    SELL    schema, universe, holding, suspended, price_limit, target, t_plus_1, lot, cash
    BUY     schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot, minimum, cash
    a sell beyond the holding, where short sales are allowed
            schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot, minimum, margin

and the first rule that an order breaks rejects it. What the rules mean at the edges:

* **target** A target weight is worth `weight * NAV` at the opens before any fill (weight in parts per billion). The target
  holding is that value in shares, rounded towards zero to whole lots; a sell leaves it, a buy adds the whole lots that don't exceed
  it. A target already reached, or on the other side of the present holding, is rejected under this rule. A target below zero is a
  short, and `schema` where there are none. An order with a target weight and shares was sized when it was decided: it trades these
  shares, and no shares is a target already reached.
* **holding, t_plus_1** A sell of more than is sellable sells what is sellable: partially filled under `t_plus_1` where shares
  bought today are among the reasons, else under `holding`. With nothing held it is rejected under `holding`, with all of it
  locked under `t_plus_1`. Where short sales are allowed it sells short instead.
* **lot** Buys are whole lots, on the STAR board of at least its minimum. Odd lots come only from factor changes: a sell is
  valid when it is whole lots, or when it takes the whole odd remainder of the sellable shares with it. A buy by target whose
  difference is below one lot (STAR: below the minimum) ends here.
* **minimum** A buy or short sale is worth at least the venue's smallest order; what is held can be sold, and what is owed bought
  back, however little it is worth.
* **weight_limit** judges the whole ordered quantity at the fill price against the same NAV, before cash cuts it; equality is
  allowed. A short counts with its size. Of an order sized when it was decided it judges the target weight. A holding of more steps
  than a ledger's integers breaks it too: coins at 1e-8 could.
* **cash** A buy short of cash takes the largest number of whole lots that cash covers with its fee (partially filled), or
  none (rejected). The value of shorts and their initial margin are cash only for buying back. A buy that takes a
  short to a holding is filled whole or not at all. A sell whose fee is more than its proceeds and the cash is rejected.
* **margin** After a short sale cash is at least the value of all shorts and their initial margin; it is not cut to what fits.

Costs are the venue's (`ktdeval.trading.terms.cost`). All arithmetic is in integers.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.jsonio import csv_rows
from ktdeval.trading.account import Settlement, check_step, holdings_minor, margin_minor, nav_minor, open_day
from ktdeval.trading.market_tape import TradingDay
from ktdeval.trading.terms import PPB, RATE_SCALE, Terms, cost, in_lots, worth_steps
from ktdeval.trading.types import Account, Action, Order, Outcome, Position

_RULES = csv_rows(Path(__file__).with_name("rules.csv"))
# No message holds a number: a share count could read as a security code, and under rescaled prices it would be a wrong one.
REJECTIONS = {row["rule"]: row["rejected"] for row in _RULES}
"""Rule -> message of the rejection."""
_REJECTED = {rule: Outcome("rejected", rule, message) for rule, message in REJECTIONS.items()}
_CUT = {row["rule"]: row["cut"] for row in _RULES if row["cut"]}
_MOST_STEPS = (1 << 63) - 1


def settle(account: Account, day: TradingDay, action: Action, decided_row: int) -> Settlement:
    """Book one fill day: overnight changes, orders, NAV at the close, under the tape's rules. Raises InvariantError if a check
    fails.
    """
    opened, corporate_actions, charges = open_day(account, day)
    open_nav = nav_minor(opened, day.open_ticks, day.rules.units)
    after, outcomes = execute(opened, day, action, open_nav)
    held = holdings_minor(after.positions, day.close_ticks, day.rules.units)
    changes, nav = tuple(corporate_actions), after.cash_minor + held
    settlement = Settlement(account, opened, changes, open_nav, action, tuple(outcomes), after, held, nav, tuple(charges))
    check_step(settlement, day, decided_row)
    return settlement


def execute(account: Account, day: TradingDay, action: Action, nav: int | None = None) -> tuple[Account, list[Outcome]]:
    """Fill any orders, legal or not, at the opens; return the new account and one outcome per order, in their order. `nav`: of the
    account at the opens, where it is known already.
    """
    if not action:
        return account, []
    book = _Book(account, day, nav_minor(account, day.open_ticks, day.rules.units) if nav is None else nav)
    outcomes = [_REJECTED["schema"]] * len(action)
    buys = []
    for index, order in enumerate(action):
        if not _is_well_formed(order, day):
            continue
        if order.side == "SELL":
            outcomes[index] = book.sell(order)
        elif order.side == "BUY":
            buys.append(index)
    for index in buys:
        outcomes[index] = book.buy(action[index])
    return Account(book.cash, book.positions), outcomes


def _is_well_formed(order: Order, day: TradingDay) -> bool:
    weight, shares = order.target_weight, order.shares
    if weight is None:
        return isinstance(shares, int) and shares >= 1
    if shares is not None and not (isinstance(shares, int) and shares >= 0):
        return False
    if 0.0 <= weight <= 1.0:
        return True
    return -1.0 <= weight < 0.0 and order.asset is not None and day.rules.terms[order.asset].margin is not None


class _Book:
    """Cash and positions while one day's orders are filled."""

    __slots__ = ("cash", "day", "most_names", "most_worth_ppb", "nav", "positions", "terms")

    def __init__(self, account: Account, day: TradingDay, nav: int) -> None:
        self.cash = account.cash_minor
        self.positions = dict(account.positions)
        self.day = day
        self.terms, self.nav = day.rules.terms, nav
        self.most_names, self.most_worth_ppb = day.rules.limits.max_positions, day.rules.limits.max_weight_ppb * nav

    def _is_too_large(self, order: Order, steps: int, price: int, unit: int) -> bool:
        if order.shares is not None and order.target_weight is not None:
            is_heavy = round(abs(order.target_weight) * PPB) > self.day.rules.limits.max_weight_ppb
        else:
            is_heavy = steps * price * PPB > self.most_worth_ppb * unit
        return is_heavy or steps > _MOST_STEPS

    def sell(self, order: Order) -> Outcome:
        """Judge and fill one sell."""
        asset, day = order.asset, self.day
        if asset is None:
            return _REJECTED["universe"]
        terms, position = self.terms[asset], self.positions.get(asset)
        if position is None:
            if terms.margin is None:
                return _REJECTED["holding"]
            position = _NOTHING
        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        if day.limit_down[asset]:
            return _REJECTED["price_limit"]
        held, price = position.shares, day.open_ticks[asset]
        ordered = self._steps_to_sell(order, held, price, terms)
        if ordered is None:
            return _REJECTED["target"]
        if terms.margin is None or 0 < ordered <= held:
            return self._fill_sell(asset, ordered, position, price, terms)
        if ordered <= 0:  # a short of an odd size, whose target in whole lots is none that a sell leads to
            return _REJECTED["lot"]
        return self._sell_short(order, ordered, held, price) if not position.locked else _REJECTED["t_plus_1"]

    def _steps_to_sell(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Steps that a sell asks for; None where its target is reached already."""
        if order.shares is not None:
            return order.shares or None
        target = worth_steps(order.target_weight, self.nav, price, terms.unit) if order.target_weight else 0
        return None if target >= held else held - in_lots(target, terms.lot)

    def _steps_to_buy(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Steps that a buy asks for; None where its target is reached already."""
        if order.shares is not None:
            return order.shares or None
        target, lot = worth_steps(order.target_weight or 0.0, self.nav, price, terms.unit), terms.lot
        if target <= held:
            return None
        return max(0, target // lot * lot - held) // lot * lot if held >= 0 else in_lots(target, lot) - held

    def _fill_sell(self, asset: int, ordered: int, position: Position, price: int, terms: Terms) -> Outcome:
        held, locked = position.shares, position.locked
        sellable = held - locked
        if sellable == 0:
            return _REJECTED["t_plus_1"]
        shares, lot = min(ordered, sellable), terms.lot
        if shares % lot and (sellable - shares) % lot:
            return _REJECTED["lot"]
        notional, fee = cost(shares, price, terms, True)
        if self.cash + notional < fee:
            return _REJECTED["cash"]
        self.cash += notional - fee
        if shares == held:
            del self.positions[asset]
        else:
            self.positions[asset] = Position(held - shares, locked)
        return _filled(shares, price, notional, fee, None if shares == ordered else "t_plus_1" if locked else "holding")

    def _sell_short(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a sell that ends in a short."""
        asset = order.asset
        if asset is None:
            return _REJECTED["universe"]
        day, terms, short = self.day, self.terms[asset], ordered - held
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
        asset, day = order.asset, self.day
        position = self.positions.get(asset) if asset is not None else None
        held = 0 if position is None else position.shares
        if asset is None or (held >= 0 and not day.member[asset]):
            return _REJECTED["universe"]
        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        if day.limit_up[asset]:
            return _REJECTED["price_limit"]
        if position is None and len(self.positions) >= self.most_names:
            return _REJECTED["position_limit"]
        terms, price = self.terms[asset], day.open_ticks[asset]
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

    def _fill_buy(self, asset: int, ordered: int, position: Position, price: int, terms: Terms) -> Outcome:
        shares, cash = ordered, self.cash
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
        self.cash -= notional + fee
        self.positions[asset] = Position(position.shares + shares, position.locked + shares if terms.locks else 0)
        return _filled(shares, price, notional, fee, None if shares == ordered else "cash")

    def _buy_back(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a buy of what is sold short, and perhaps of more."""
        asset = order.asset
        if asset is None:
            return _REJECTED["universe"]
        day, terms, shares, after = self.day, self.terms[asset], ordered, held + ordered
        if after > 0 and not day.member[asset]:
            return _REJECTED["universe"]
        if after > 0 and self._is_too_large(order, after, price, terms.unit):
            return _REJECTED["weight_limit"]
        if ordered <= 0 or (ordered % terms.lot and after):
            return _REJECTED["lot"]
        notional, fee = cost(shares, price, terms, False)
        rest = {asset_: position for asset_, position in self.positions.items() if asset_ != asset}
        needed = margin_minor(rest, day, initial=True) if after > 0 else 0
        if notional + fee > self.cash - needed:
            shares = 0 if after > 0 else _affordable(self.cash, price, terms)
            if shares <= 0:
                return _REJECTED["cash"]
            notional, fee = cost(shares, price, terms, False)
        self.cash -= notional + fee
        after = held + shares
        self.positions = {**rest, asset: Position(after, after if after > 0 and terms.locks else 0)} if after else rest
        return _filled(shares, price, notional, fee, None if shares == ordered else "cash")


def _filled(shares: int, price: int, notional: int, fee: int, cut_by: str | None = None) -> Outcome:
    """Return the outcome of a fill, of the whole order or of what a rule left of it."""
    if cut_by is None:
        return Outcome("filled", None, "", shares, price, notional, fee)
    return Outcome("partially_filled", cut_by, _CUT[cut_by], shares, price, notional, fee)


def _affordable(cash: int, price: int, terms: Terms) -> int:
    """Return the largest whole-lot quantity whose notional and fee cash covers; 0 or less when there is none."""
    if cash <= 0:
        return 0
    # One unit above the exact bound on the notional, so that no rounding can make the first guess too small.
    capped = terms.levies is not None and terms.levies.most_rate is not None  # then the least cost of a small order is less
    most = (
        min(cash if capped else cash - terms.minimum_fee, cash * RATE_SCALE // (RATE_SCALE + (0 if capped else terms.buy_rate))) + 2
    )
    shares = most * terms.unit // price // terms.lot * terms.lot
    if terms.levies:
        return _largest_covered(shares // terms.lot, cash, price, terms)
    while shares > 0:
        notional, fee = cost(shares, price, terms, False)
        if notional + fee <= cash:
            break
        shares -= terms.lot
    return shares


def _largest_covered(lots: int, cash: int, price: int, terms: Terms) -> int:
    """Return the largest quantity of up to `lots` lots that cash covers; what is paid never falls as the quantity grows."""
    low, high = 0, lots
    while low < high:
        middle = (low + high + 1) // 2
        notional, fee = cost(middle * terms.lot, price, terms, False)
        low, high = (middle, high) if notional + fee <= cash else (low, middle - 1)
    return low * terms.lot


_NOTHING = Position(0)
