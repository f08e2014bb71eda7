"""Orders against one day's opens: every order ends as exactly one outcome, and a bad one never stops the others.

Sells are judged first, then buys, each in the order of the action; outcomes come back in the order of the action. Judged are

    SELL    schema, universe, holding, suspended, price_limit, target, t_plus_1, lot, cash
    BUY     schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot, cash

and the first rule that an order breaks rejects it. What the rules mean at the edges:

* **target** A target weight is worth `weight * NAV` at the opens before any fill (weight in parts per billion). The target
  holding is that value in shares, rounded down to whole lots; a sell leaves it, a buy adds the whole lots that don't exceed
  it. A target already reached, or on the other side of the present holding, is rejected under this rule.
* **holding, t_plus_1** A sell of more than is sellable sells what is sellable: partially filled under `t_plus_1` where shares
  bought today are among the reasons, else under `holding`. With nothing held it is rejected under `holding`, with all of it
  locked under `t_plus_1`.
* **lot** Buys are whole lots, on the STAR board of at least its minimum. Odd lots come only from factor changes: a sell is
  valid when it is whole lots, or when it takes the whole odd remainder of the sellable shares with it. A buy by target whose
  difference is below one lot (STAR: below the minimum) ends here.
* **weight_limit** judges the whole ordered quantity at the fill price against the same NAV, before cash cuts it; equality is
  allowed.
* **cash** A buy short of cash takes the largest number of whole lots that cash covers with its fee (partially filled), or
  none (rejected). A sell whose fee is more than its proceeds and the cash is rejected.

Costs are `round_half_up(notional * bps / 10,000)`, at least the minimum, in fen. All arithmetic is in integers.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.jsonio import csv_rows
from ktdeval.trading.account import Settlement, check_step, holdings_fen, nav_fen, open_day
from ktdeval.trading.market_tape import PPB, TradingDay, scaled_int
from ktdeval.trading.types import TICKS_PER_FEN, Account, Action, Order, Outcome, Position, TradingConfig

_RATE_SCALE = 10**10
_HALF_RATE = _RATE_SCALE // 2
_HALF_FEN = TICKS_PER_FEN // 2
_RULES = csv_rows(Path(__file__).with_name("rules.csv"))
# No message holds a number: a share count could read as a security code, and under rescaled prices it would be a wrong one.
REJECTIONS = {row["rule"]: row["rejected"] for row in _RULES}
"""Rule -> what it says to whoever broke it."""
_REJECTED = {rule: Outcome("rejected", rule, message) for rule, message in REJECTIONS.items()}
_CUT = {row["rule"]: row["cut"] for row in _RULES if row["cut"]}


class Terms(NamedTuple):
    """A trading config in the executor's integers; rates are parts of 10**10."""

    buy_rate: int
    sell_rate: int
    min_fee_fen: int
    lot: int
    max_positions: int
    max_weight_ppb: int


@lru_cache(maxsize=64)
def integer_terms(config: TradingConfig) -> Terms:
    """Return the integer form of a config (a pure function; cached because it is asked for on every fill day)."""
    return Terms(
        buy_rate=scaled_int(config.buy_fee_bps, _RATE_SCALE // 10_000),
        sell_rate=scaled_int(config.sell_fee_bps, _RATE_SCALE // 10_000),
        min_fee_fen=scaled_int(config.min_fee_cny, 100),
        lot=config.lot_shares,
        max_positions=config.max_positions,
        max_weight_ppb=scaled_int(config.max_weight, PPB),
    )


def settle(account: Account, day: TradingDay, action: Action, config: TradingConfig, decided_row: int) -> Settlement:
    """Book one fill day: overnight changes, orders, NAV at the close, under the tape's rules. Raises InvariantError if a check
    fails.
    """
    opened, corporate_actions = open_day(account, day)
    open_nav = nav_fen(opened, day.open_ticks)
    after, outcomes = _execute(opened, day, action, integer_terms(config), open_nav)
    held = holdings_fen(after.positions, day.close_ticks)
    changes, nav = tuple(corporate_actions), after.cash_fen + held
    settlement = Settlement(account, opened, changes, open_nav, action, tuple(outcomes), after, held, nav)
    check_step(settlement, day, decided_row)
    return settlement


def execute(account: Account, day: TradingDay, action: Action, config: TradingConfig) -> tuple[Account, list[Outcome]]:
    """Fill any orders, legal or not, at the opens; return the new account and one outcome per order, in their order."""
    return _execute(account, day, action, integer_terms(config), nav_fen(account, day.open_ticks))


def _execute(account: Account, day: TradingDay, action: Action, terms: Terms, nav: int) -> tuple[Account, list[Outcome]]:
    if not action:
        return account, []
    book = _Book(account, day, terms, nav)
    outcomes = [_REJECTED["schema"]] * len(action)
    buys = []
    for place, order in enumerate(action):
        if not _is_well_formed(order):
            continue
        if order.side == "SELL":
            outcomes[place] = book.sell(order)
        elif order.side == "BUY":
            buys.append(place)
    for place in buys:
        outcomes[place] = book.buy(action[place])
    return Account(book.cash, book.positions), outcomes


def _is_well_formed(order: Order) -> bool:
    weight, shares = order.target_weight, order.shares
    if weight is None:
        return isinstance(shares, int) and shares >= 1
    return shares is None and 0.0 <= weight <= 1.0


def _cost(shares: int, price: int, rate: int, min_fee_fen: int) -> tuple[int, int]:
    """Notional and fee of a fill, both in fen."""
    notional = (shares * price + _HALF_FEN) // TICKS_PER_FEN
    fee = (notional * rate + _HALF_RATE) // _RATE_SCALE
    return notional, fee if fee > min_fee_fen else min_fee_fen


class _Book:
    """Cash and positions while one day's orders are filled."""

    __slots__ = ("cash", "day", "nav", "positions", "terms")

    def __init__(self, account: Account, day: TradingDay, terms: Terms, nav: int) -> None:
        self.cash = account.cash_fen
        self.positions = dict(account.positions)
        self.day = day
        self.terms = terms
        self.nav = nav

    def sell(self, order: Order) -> Outcome:
        """Judge and fill one sell."""
        asset, day = order.asset, self.day
        if asset is None:
            return _REJECTED["universe"]
        position = self.positions.get(asset)
        if position is None:
            return _REJECTED["holding"]
        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        if day.limit_down[asset]:
            return _REJECTED["price_limit"]
        held, locked = position
        price = day.open_ticks[asset]
        wanted = order.shares
        if wanted is None:
            target = self._target_shares(order, price)
            if target >= held:
                return _REJECTED["target"]
            wanted = held - target // self.terms.lot * self.terms.lot
        return self._fill_sell(asset, wanted, held, locked, price)

    def _fill_sell(self, asset: int, wanted: int, held: int, locked: int, price: int) -> Outcome:
        sellable, lot = held - locked, self.terms.lot
        if sellable == 0:
            return _REJECTED["t_plus_1"]
        shares = min(wanted, sellable)
        if shares % lot and (sellable - shares) % lot:
            return _REJECTED["lot"]
        notional, fee = _cost(shares, price, self.terms.sell_rate, self.terms.min_fee_fen)
        if self.cash + notional < fee:
            return _REJECTED["cash"]
        self.cash += notional - fee
        if shares == held:
            del self.positions[asset]
        else:
            self.positions[asset] = Position(held - shares, locked)
        if shares == wanted:
            return Outcome("filled", None, "", shares, price, notional, fee)
        rule = "t_plus_1" if locked else "holding"
        return Outcome("partially_filled", rule, _CUT[rule], shares, price, notional, fee)

    def buy(self, order: Order) -> Outcome:
        """Judge and fill one buy."""
        asset, day = order.asset, self.day
        if asset is None or not day.member[asset]:
            return _REJECTED["universe"]
        if not day.tradable[asset]:
            return _REJECTED["suspended"]
        if day.limit_up[asset]:
            return _REJECTED["price_limit"]
        position = self.positions.get(asset)
        if position is None and len(self.positions) >= self.terms.max_positions:
            return _REJECTED["position_limit"]
        held = 0 if position is None else position[0]
        price, wanted, lot = day.open_ticks[asset], order.shares, self.terms.lot
        if wanted is None:
            target = self._target_shares(order, price)
            if target <= held:
                return _REJECTED["target"]
            wanted = max(0, target // lot * lot - held) // lot * lot
        if (held + wanted) * price * PPB > self.terms.max_weight_ppb * self.nav * TICKS_PER_FEN:
            return _REJECTED["weight_limit"]
        if wanted % lot or wanted < day.min_buy_shares[asset]:
            return _REJECTED["lot"]
        return self._fill_buy(asset, wanted, position or _NOTHING, price)

    def _fill_buy(self, asset: int, wanted: int, position: Position, price: int) -> Outcome:
        terms, shares = self.terms, wanted
        notional, fee = _cost(shares, price, terms.buy_rate, terms.min_fee_fen)
        if notional + fee > self.cash:
            shares = self._affordable(price)
            if shares < self.day.min_buy_shares[asset]:
                return _REJECTED["cash"]
            notional, fee = _cost(shares, price, terms.buy_rate, terms.min_fee_fen)
        self.cash -= notional + fee
        self.positions[asset] = Position(position[0] + shares, position[1] + shares)
        if shares == wanted:
            return Outcome("filled", None, "", shares, price, notional, fee)
        return Outcome("partially_filled", "cash", _CUT["cash"], shares, price, notional, fee)

    def _affordable(self, price: int) -> int:
        """Return the largest whole-lot quantity whose notional and fee cash covers; 0 or less when there is none."""
        terms = self.terms
        # One fen above the exact bound on the notional, so that no rounding can make the first guess too small.
        most_fen = min(self.cash - terms.min_fee_fen, self.cash * _RATE_SCALE // (_RATE_SCALE + terms.buy_rate)) + 2
        shares = most_fen * TICKS_PER_FEN // price // terms.lot * terms.lot
        while shares > 0:
            notional, fee = _cost(shares, price, terms.buy_rate, terms.min_fee_fen)
            if notional + fee <= self.cash:
                break
            shares -= terms.lot
        return shares

    def _target_shares(self, order: Order, price: int) -> int:
        """Shares worth the order's target weight at `price`, rounded down to a share."""
        weight_ppb = round((order.target_weight or 0.0) * PPB)
        return weight_ppb * self.nav * TICKS_PER_FEN // (PPB * price)


_NOTHING = Position(0)
