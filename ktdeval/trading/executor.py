"""Execute orders at one day's opens. Every order gets exactly one outcome. A rejected order never
stops other orders.

Sells are executed first, then buys, both in action order. Outcomes are also in action order. Rules
are checked in this order:

    SELL    schema, universe, holding, suspended, price_limit, target, t_plus_1, lot, cash
    BUY     schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot, minimum, cash
    a sell beyond the holding, where short sales are allowed
            schema, universe, suspended, price_limit, position_limit, target, weight_limit, lot,
            minimum, margin

An order is rejected under the first rule that it breaks. Details:

* **target** A target weight is worth `weight * NAV` at the opens, before any fill (weight in parts
  per billion). The target holding is this value in shares, rounded towards zero to whole lots. A
  sell leaves the target holding; a buy adds the whole lots that don't exceed it. The order is
  rejected if the target is already reached or needs a trade in the other direction. A target below
  zero is a short sale, and is rejected under `schema` if short sales are not allowed. An order with
  both a target weight and shares was sized at the decision: it trades these shares, and 0 shares
  mean that the target was already reached.
* **holding, t_plus_1** A sell of more than the sellable shares sells only these. It is partially
  filled under `t_plus_1` if shares bought today are one of the reasons, else under `holding`. A
  sell of a name that is not held is rejected under `holding`, of one that is locked entirely under
  `t_plus_1`. If short sales are allowed, a sell beyond the holding is a short sale.
* **lot** Buys are in whole lots, and on the STAR board at least the board's minimum. Under
  `board_rules: exchange`, STAR and Beijing trade single shares above their smallest order, and a
  smaller sell must sell all sellable shares. Elsewhere, odd lots result only from factor changes: a
  sell is in whole lots, or includes the whole odd remainder of the sellable shares. A buy whose
  target is less than one lot away (STAR: the minimum) is rejected.
* **minimum** A buy or short sale must be worth at least the venue's smallest order. Holdings can be
  sold, and shorts bought back, whatever their value.
* **weight_limit** The limit applies to the whole ordered quantity, before cash cuts it, at the fill
  price and against the same NAV; equality is allowed. A short counts with its absolute value. An
  order sized at the decision is judged by its target weight. A holding with more steps than a
  ledger's integers can store also breaks this rule.
* **cash** A buy is cut to the largest number of whole lots that cash covers including the fee, or
  rejected if cash does not cover one. The value of shorts and their initial margin can be spent
  only on buying back. A buy that turns a short into a holding is filled completely or rejected. A
  sell is rejected if its fee exceeds its proceeds plus the cash.
* **volume** If execution is on (`ktdeval.trading.execution_costs`), a day's orders in one asset
  together trade at most their permitted fraction of its volume. An order beyond this is cut to
  whole lots, or rejected if no lot is left or its price needs volatility and volume that are
  unknown. Under `rest: carry`, the remainder stays in force until it is filled or rejected, a new
  order in its asset replaces it, or its asset has a factor change or margin call. Sizes and weights
  are judged at the reference price; cash and the smallest order at the fill price.
* **limit** An order with a limit (`ktdeval.trading.limit_orders`) fills at the open if the open is
  within the limit, else at the limit if the day's bar trades through it, else it is rejected. With
  execution on, it is cut to the whole lots whose price after spread and impact is within the limit.
  Target weights and weight limits are judged at the open. Buys that fill after the open follow the
  others. The proceeds of a sell after the open, and the name that it frees, are not available to
  the day's buys, because it is unknown which came first.
* **margin** After a short sale, cash must cover the value of all shorts and their initial margin; a
  larger short sale is rejected, not cut.

Fills are at the opens, worsened by execution if it is on. All arithmetic is in integers.
"""

from __future__ import annotations

from msgspec.structs import replace

from ktdeval.trading.daily_settlement import (
    Settlement,
    check_step,
    holdings_minor,
    margin_minor,
    nav_minor,
    open_day,
    value_minor,
)
from ktdeval.trading.execution_costs import UNQUOTED, Quote, needs_liquidity
from ktdeval.trading.fill_sizes import affordable, price_of, within_limit
from ktdeval.trading.limit_orders import LimitFill, limit_fill, open_first
from ktdeval.trading.order_outcomes import (
    REJECTED,
    carried_orders,
    cut_outcome,
    is_well_formed,
    make_fill,
)
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, Action, Order, Outcome, Position
from ktdeval.trading.venue_terms import PPB, Terms, cost, in_lots, worth_steps

_MAX_STEPS = (1 << 63) - 1  # a ledger's integers have 64 bits


def settle(account: Account, day: TradingDay, action: Action, decided_row: int) -> Settlement:
    """Book one fill day: overnight changes, orders, and NAV at the close. Raises InvariantError if
    a check of the result fails.
    """
    opened, corporate_actions, charges = open_day(account, day)
    open_nav = nav_minor(opened, day.open_ticks, day.rules.units)
    called = {charge.asset for charge in charges if charge.kind == "margin_call"}
    carried = carried_orders(account.working, action, day.events.keys() | called)
    after, all_outcomes = execute(opened, day, carried + action, open_nav)
    outcomes = all_outcomes[len(carried) :]

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
        carried,
        tuple(all_outcomes[: len(carried)]),
    )
    check_step(settlement, day, decided_row)

    return settlement


def execute(
    account: Account, day: TradingDay, action: Action, nav: int | None = None
) -> tuple[Account, list[Outcome]]:
    """Execute orders, valid or not, at the opens. Return the new account, and one outcome per
    order, in action order.

    `nav`: the account's NAV at the opens, if already known.
    """
    if not action:
        return account, []
    if nav is None:
        nav = nav_minor(account, day.open_ticks, day.rules.units)

    state = _BrokerState(account, day, nav)
    outcomes = [REJECTED["schema"]] * len(action)
    buys = []

    # Sells first, because their cash funds the day's buys.
    for index, order in enumerate(action):
        if not is_well_formed(order, day):
            continue

        if order.side == "SELL":
            outcomes[index] = state.sell(order)
            state.keep_rest(index, order, outcomes[index])
        elif order.side == "BUY":
            buys.append(index)

    if day.low_ticks:
        buys = open_first(buys, action, day)

    for index in buys:
        outcomes[index] = state.buy(action[index])
        state.keep_rest(index, action[index], outcomes[index])

    # In action order, so that a carried order keeps its place.
    working = tuple(state.rests[index] for index in sorted(state.rests))
    return Account(state.cash + state.held_back, state.positions, working), outcomes


class _BrokerState:
    """Cash and positions while a day's orders are filled."""

    __slots__ = (
        "cash",
        "day",
        "held_back",
        "leaving",
        "limit",
        "max_names",
        "max_worth_ppb",
        "nav",
        "opening",
        "ordered",
        "positions",
        "rests",
        "terms",
        "traded",
    )

    def __init__(self, account: Account, day: TradingDay, nav: int) -> None:
        self.cash = account.cash_minor
        self.positions = dict(account.positions)
        self.day = day
        self.nav = nav
        self.terms = day.rules.terms
        self.max_names = day.rules.limits.max_positions
        # KTD-Fin §3.5 and Appendix I: maximum weight of one name
        self.max_worth_ppb = day.rules.limits.max_weight_ppb * nav
        self.opening = account.positions  # before the day's fills
        self.traded: dict[tuple[int, bool], int] = {}  # (asset, is a sell) -> steps
        self.ordered = 0  # steps of the latest order whose volume was checked
        self.rests: dict[int, Order] = {}  # index of the order -> remainder for the next day
        self.limit: LimitFill | None = None  # limit of the order being judged
        # Proceeds after the open must not pay for a fill that may have happened earlier.
        self.held_back = 0
        self.leaving: set[int] = set()  # assets sold whole after the open

    # --- execution

    def _quote(self, asset: int, selling: bool) -> Quote | None:
        """Return the inputs to a fill's price; None if the price does not depend on size."""
        terms = self.terms[asset]
        liquidity = self.day.liquidity
        if terms.execution is None or liquidity is None:
            return None

        opening = self.opening.get(asset, _NOTHING).shares
        held = -opening if selling else opening
        reference = self.day.open_ticks[asset] if self.limit is None else self.limit.market
        return Quote(
            reference,
            terms.unit,
            terms.execution,
            liquidity.sigma_ppb[asset],
            liquidity.volume[asset],
            liquidity.low_ticks[asset],
            liquidity.high_ticks[asset],
            max(held, 0),
            self.traded.get((asset, selling), 0),
            liquidity.half_spread_ppb[asset],
        )

    def _cut(self, asset: int, wanted: int, selling: bool) -> tuple[int, str | None]:
        """Return the steps that volume and limit allow, and the rule that cut the order, if any."""
        if self.limit is not None and not self.limit.market:
            return 0, "limit"

        steps = self._cut_to_volume(asset, wanted)
        cut_by = None if steps == wanted else "volume"
        if steps and self.limit is not None:
            within = self._cut_to_limit(asset, steps, selling, self.limit)
            if within < steps:
                return within, "limit"

        return steps, cut_by

    def _cut_to_limit(self, asset: int, steps: int, selling: bool, limit: LimitFill) -> int:
        """Return the steps, cut to whole lots whose price is within the limit; 0 if none."""
        quote = self._quote(asset, selling)
        if quote is None:
            return steps
        return within_limit(quote, steps, selling, limit, self.terms[asset].lot)

    def _offer(self, asset: int, selling: bool) -> tuple[Quote | None, int]:
        """Return the quote (None if the price does not depend on size) and the reference price."""
        if self.limit is not None and self.limit.is_within_day:
            return None, self.limit.limit
        return self._quote(asset, selling), self.day.open_ticks[asset]

    def _receive(self, proceeds: int) -> None:
        """Book the proceeds of a sell."""
        if self.limit is not None and self.limit.is_within_day and proceeds > 0:
            self.held_back += proceeds
        else:
            self.cash += proceeds

    def _lacks_name(self, asset: int) -> bool:
        """Return whether the account already holds its maximum number of names."""
        names = len(self.positions) + len(self.leaving - self.positions.keys())
        return names >= self.max_names and asset not in self.leaving

    def _cut_to_volume(self, asset: int, steps: int) -> int:
        """Return the steps, cut to the whole lots that the day's volume allows; 0 if none."""
        terms = self.terms[asset]
        liquidity = self.day.liquidity
        execution = terms.execution
        if execution is None or liquidity is None:
            return steps

        self.ordered = steps
        is_known = liquidity.volume[asset] and liquidity.sigma_ppb[asset]
        if needs_liquidity(execution) and not is_known:
            return 0
        if liquidity.half_spread_ppb[asset] == UNQUOTED:
            return 0
        if execution.participation_ppb is None:
            return steps

        most = liquidity.traded[asset] * execution.participation_ppb // PPB
        most -= self.traded.get((asset, False), 0) + self.traded.get((asset, True), 0)
        if steps <= most:
            return steps
        return max(0, most // terms.lot * terms.lot)

    def _count(self, asset: int, steps: int, selling: bool) -> None:
        """Count a fill towards the day's volume."""
        if self.terms[asset].execution is not None:
            key = (asset, selling)
            self.traded[key] = self.traded.get(key, 0) + steps

    def keep_rest(self, index: int, order: Order, outcome: Outcome) -> None:
        """If remainders are carried, store the remainder of an order that the day's volume cut."""
        if outcome.rule != "volume" or order.asset is None:
            return

        execution = self.terms[order.asset].execution
        left = self.ordered - outcome.shares
        if execution is not None and execution.carries and left > 0:
            self.rests[index] = replace(order, target_weight=None, shares=left)

    def _is_too_large(self, order: Order, steps: int, price: int, unit: int) -> bool:
        if order.shares is not None and order.target_weight is not None:
            is_heavy = round(abs(order.target_weight) * PPB) > self.day.rules.limits.max_weight_ppb
        else:
            # As a product, because an integer division would round the limit.
            is_heavy = steps * price * PPB > self.max_worth_ppb * unit

        return is_heavy or steps > _MAX_STEPS

    def sell(self, order: Order) -> Outcome:
        """Judge and fill one sell."""
        self.limit = limit_fill(order, self.day)
        asset = order.asset
        day = self.day
        if asset is None:
            return REJECTED["universe"]

        terms = self.terms[asset]
        position = self.positions.get(asset)
        if position is None:
            # KTD-Fin §3.1: long only, unless the venue allows short sales
            if terms.margin is None:
                return REJECTED["holding"]

            position = _NOTHING

        if not day.tradable[asset]:
            return REJECTED["suspended"]
        # KTD-Fin §3.1: a stock at its lower limit can't be sold
        if day.limit_down[asset]:
            return REJECTED["price_limit"]

        held = position.shares
        price = day.open_ticks[asset]
        ordered = self._steps_to_sell(order, held, price, terms)
        if ordered is None:
            return REJECTED["target"]
        if terms.margin is None or 0 < ordered <= held:
            return self._fill_sell(asset, ordered, position, terms)
        # The target rounded to whole lots may be above a short of an odd size. Then nothing is
        # sold.
        if ordered <= 0:
            return REJECTED["lot"]
        if position.locked:
            return REJECTED["t_plus_1"]

        return self._sell_short(order, ordered, held, price)

    def _steps_to_sell(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Return the steps that a sell order asks for; None if its target is already reached."""
        if order.shares is not None:
            return order.shares or None

        target = 0
        if order.target_weight:
            target = worth_steps(order.target_weight, self.nav, price, terms.unit)

        if target >= held:
            return None
        return held - in_lots(target, terms.lot)

    def _steps_to_buy(self, order: Order, held: int, price: int, terms: Terms) -> int | None:
        """Return the steps that a buy order asks for; None if its target is already reached."""
        if order.shares is not None:
            return order.shares or None

        target = worth_steps(order.target_weight or 0.0, self.nav, price, terms.unit)
        if target <= held:
            return None

        lot = terms.lot
        if held < 0:  # the target is in whole lots, while a short may be of odd size
            return in_lots(target, lot) - held

        # A holding may include an odd lot, but only whole lots are added.
        return max(0, target // lot * lot - held) // lot * lot

    def _fill_sell(self, asset: int, ordered: int, position: Position, terms: Terms) -> Outcome:
        held = position.shares
        locked = position.locked
        sellable = held - locked
        # T+1 (KTD-Fin §3.1)
        if sellable == 0:
            return REJECTED["t_plus_1"]

        shares = min(ordered, sellable)
        lot = terms.lot
        # An odd lot is sold only with the whole odd remainder, so whole lots remain.
        if shares % lot and (sellable - shares) % lot:
            return REJECTED["lot"]
        if shares < terms.min_sell and shares < sellable:
            return REJECTED["lot"]

        wanted = shares
        shares, cut_by = self._cut(asset, wanted, True)
        if cut_by and (not shares or (shares < terms.min_sell and shares < sellable)):
            return REJECTED[cut_by]

        price = price_of(self._offer(asset, True), shares, True)
        notional, fee = cost(shares, price, terms, True)
        if self.cash + notional < fee:
            return REJECTED["cash"]

        self._count(asset, shares, True)
        self._receive(notional - fee)
        if shares == held:
            del self.positions[asset]
            if self.limit is not None and self.limit.is_within_day:
                self.leaving.add(asset)
        else:
            self.positions[asset] = Position(held - shares, locked)

        if cut_by is None and shares < ordered:
            cut_by = "t_plus_1" if locked else "holding"

        return make_fill(shares, price, notional, fee, cut_by)

    def _sell_short(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a sell that leaves the position short."""
        asset = order.asset
        if asset is None:
            return REJECTED["universe"]

        day = self.day
        terms = self.terms[asset]
        short = ordered - held
        if not day.member[asset]:
            return REJECTED["universe"]
        if not held and self._lacks_name(asset):
            return REJECTED["position_limit"]
        if self._is_too_large(order, short, price, terms.unit):
            return REJECTED["weight_limit"]
        if short % terms.lot:
            return REJECTED["lot"]

        return self._fill_short(asset, ordered, held)

    def _fill_short(self, asset: int, wanted: int, held: int) -> Outcome:
        day = self.day
        terms = self.terms[asset]
        ordered, cut_by = self._cut(asset, wanted, True)
        short = ordered - held
        if cut_by and ordered <= 0:
            return REJECTED[cut_by]
        # If the cut leaves no short sale, only whole lots of the holding are sold.
        if short <= 0:
            sold = self._fill_sell(asset, ordered, self.positions[asset], terms)
            self.ordered = wanted
            return cut_outcome(sold, cut_by)

        price = price_of(self._offer(asset, True), ordered, True)
        notional, fee = cost(ordered, price, terms, True)
        if notional < terms.minimum_notional:
            return REJECTED["minimum"]

        positions = {**self.positions, asset: Position(-short)}
        if self.cash + notional - fee < margin_minor(positions, day, initial=True):
            return REJECTED["margin"]

        self._count(asset, ordered, True)
        # Proceeds up to the value of the short are held as margin. Only the rest could be spent.
        kept = -value_minor(-short, day.open_ticks[asset], terms.unit)
        self.cash += kept
        self._receive(notional - fee - kept)
        self.positions = positions

        return make_fill(ordered, price, notional, fee, cut_by)

    def buy(self, order: Order) -> Outcome:
        """Judge and fill one buy."""
        self.limit = limit_fill(order, self.day)
        asset = order.asset
        day = self.day
        if asset is None:
            return REJECTED["universe"]

        position = self.positions.get(asset)
        held = 0 if position is None else position.shares
        # A short can be bought back even after its asset has left the universe.
        if held >= 0 and not day.member[asset]:
            return REJECTED["universe"]
        if not day.tradable[asset]:
            return REJECTED["suspended"]
        # KTD-Fin §3.1: a stock at its upper limit can't be bought
        if day.limit_up[asset]:
            return REJECTED["price_limit"]
        # KTD-Fin §3.5 and Appendix I: maximum number of positions
        if position is None and self._lacks_name(asset):
            return REJECTED["position_limit"]

        terms = self.terms[asset]
        price = day.open_ticks[asset]
        ordered = self._steps_to_buy(order, held, price, terms)
        if ordered is None:
            return REJECTED["target"]
        if held < 0:
            return self._buy_back(order, ordered, held, price)
        if self._is_too_large(order, held + ordered, price, terms.unit):
            return REJECTED["weight_limit"]
        if ordered % terms.lot or ordered < terms.min_buy:
            return REJECTED["lot"]

        return self._fill_buy(asset, ordered, position or _NOTHING, price, terms)

    def _fill_buy(
        self, asset: int, ordered: int, position: Position, price: int, terms: Terms
    ) -> Outcome:
        cash = self.cash
        if self.day.rules.shorts:
            cash -= margin_minor(self.positions, self.day, initial=True)
        # Checked before the volume cut, so that an order brought below the minimum only by this cut
        # is rejected under `volume`.
        if cost(ordered, price, terms, False)[0] < terms.minimum_notional:
            return REJECTED["minimum"]

        shares, cut_by = self._cut(asset, ordered, False)
        if cut_by and shares < terms.min_buy:
            return REJECTED[cut_by]

        quote, price = self._offer(asset, False)
        paid = price_of((quote, price), shares, False)
        notional, fee = cost(shares, paid, terms, False)
        if notional < terms.minimum_notional:
            return REJECTED[cut_by or "minimum"]

        if notional + fee > cash:
            cut_by = "cash"
            shares = affordable(cash, price, terms, quote, shares)
            if shares < terms.min_buy:
                return REJECTED["cash"]

            paid = price_of((quote, price), shares, False)
            notional, fee = cost(shares, paid, terms, False)
            if notional < terms.minimum_notional:
                return REJECTED["cash"]

        self._count(asset, shares, False)
        # T+1 (KTD-Fin §3.1): not sellable before the next day
        locked = position.locked + shares if terms.locks else 0
        self.cash -= notional + fee
        self.positions[asset] = Position(position.shares + shares, locked)
        return make_fill(shares, paid, notional, fee, cut_by)

    def _buy_back(self, order: Order, ordered: int, held: int, price: int) -> Outcome:
        """Judge and fill a buy of an asset held short: it reduces, closes or reverses the short."""
        asset = order.asset
        if asset is None:
            return REJECTED["universe"]

        day = self.day
        terms = self.terms[asset]
        after = held + ordered
        if after > 0 and not day.member[asset]:
            return REJECTED["universe"]
        if after > 0 and self._is_too_large(order, after, price, terms.unit):
            return REJECTED["weight_limit"]
        if ordered <= 0 or (ordered % terms.lot and after):
            return REJECTED["lot"]

        shares, cut_by = self._cut(asset, ordered, False)
        if cut_by and not shares:
            return REJECTED[cut_by]

        after = held + shares
        quote, price = self._offer(asset, False)
        paid = price_of((quote, price), shares, False)
        notional, fee = cost(shares, paid, terms, False)
        # After the short is closed, only the other shorts require margin.
        positions = dict(self.positions)
        del positions[asset]

        # Buying back may use all cash. A buy that ends in a long holding must leave the other
        # shorts' margin.
        needed = margin_minor(positions, day, initial=True) if after > 0 else 0

        if notional + fee > self.cash - needed:
            if after > 0:
                return REJECTED["cash"]

            cut_by = "cash"
            shares = affordable(self.cash, price, terms, quote, shares)
            if shares <= 0:
                return REJECTED["cash"]

            paid = price_of((quote, price), shares, False)
            notional, fee = cost(shares, paid, terms, False)
            after = held + shares

        self._count(asset, shares, False)
        self.cash -= notional + fee
        if after:
            locked = after if after > 0 and terms.locks else 0
            positions[asset] = Position(after, locked)

        self.positions = positions
        return make_fill(shares, paid, notional, fee, cut_by)


_NOTHING = Position(0)
