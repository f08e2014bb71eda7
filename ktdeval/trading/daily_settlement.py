"""Value of an account, changes to it before a day's orders (unlocking, factor changes, interest on
shorts, margin calls), and the invariants of a fill day.

**Factor changes.** A split, bonus or dividend with ratio q (in parts per billion) turns `s` shares
into `floor(s * q)` shares. The remaining value, a fraction of a step, is paid in cash:

    value(s, previous mark) == ex_value(shares after) + cash        exactly, and cash >= 0

Thus a dividend is reinvested at the ex-price, a split leaves the value unchanged, and no minor unit
is created or lost. The ex-price is the previous mark divided by q, not rounded to a tick: for a few
thousand shares a fraction of a tick is more than a minor unit. Only an asset that does not trade on
that day is scaled at a whole tick, because its mark is a price in whole ticks. Odd lots result only
from factor changes. A short is scaled in the same way with the opposite sign: the account pays for
the fraction.

**Interest.** For each trading day, a short pays interest on its value at the previous close. The
daily rate is the annual rate divided by the trading days per year, whatever the number of nights
between two closes. Interest per night would reveal weekends and holidays, for example through the
NAV, to a model from which dates are hidden.

**Margin calls.** If cash at the opens is less than the shorts' value plus their maintenance margin,
shorts are bought back whole, largest first, until cash suffices. If cash is then negative, holdings
are sold whole in the same order. Positions that do not trade are kept. The account may still owe
cash after a margin call. Orders can't prevent this, and the episode continues.

**Invariants** are checked on every fill day, regardless of the orders. A violation is an engine bug
and stops the episode. The checks use only the outcomes and are separate from the executor, so they
detect errors in its arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from ktdeval.errors import InvariantError
from ktdeval.trading.execution_costs import Quote, fill_ticks
from ktdeval.trading.factor_events import FactorEvent
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import (
    Account,
    Action,
    Charge,
    CorporateAction,
    Order,
    Outcome,
    Position,
    TradingConfig,
)
from ktdeval.trading.venue_terms import PPB, RATE_SCALE, cost


class Settlement(Struct, frozen=True):
    """One booked fill day, from the previous close to the day's close."""

    before: Account  #: the account at the previous close
    #: the account just before the orders: shares unlocked, holdings scaled, charges paid
    opened: Account
    corporate_actions: tuple[CorporateAction, ...]  #: effects of the factor changes
    open_nav_minor: int  #: NAV of `opened`, marked at the opens
    action: Action  #: the orders as decided
    outcomes: tuple[Outcome, ...]  #: outcome of each order, in the order of `action`
    after: Account  #: the account at the close
    holdings_minor: int  #: value of the positions at the close
    nav_minor: int  #: cash and holdings at the close
    charges: tuple[Charge, ...] = ()  #: interest and margin calls before the orders
    carried: tuple[Order, ...] = ()  #: remainders of earlier orders, still in force on this day
    #: outcome of each remainder, in the order of `carried`
    carried_outcomes: tuple[Outcome, ...] = ()

    @property
    def fills(self) -> Iterator[tuple[Order, Outcome]]:
        """Yield the day's orders with their outcomes, starting with orders from earlier days."""
        yield from zip(self.carried, self.carried_outcomes, strict=True)
        yield from zip(self.action, self.outcomes, strict=True)


def open_account(config: TradingConfig, minor_per_unit: int = 100) -> Account:
    """Return the initial account of an episode: all cash."""
    return Account(config.initial_cash * minor_per_unit, {})


def value_minor(shares: int, ticks: int, unit: int) -> int:
    """Return the value of shares at a price in ticks, in minor units, rounded half up; negative for
    a short. `unit`: ticks of one step's price per minor unit.
    """
    if shares >= 0:
        return (shares * ticks + (unit >> 1)) // unit
    return -((-shares * ticks + (unit >> 1)) // unit)


def holdings_minor(
    positions: Mapping[int, Position], ticks: Sequence[int], units: Sequence[int]
) -> int:
    """Return the total value of all positions, each rounded to a minor unit. `units`: by asset, as
    in `value_minor`.
    """
    return sum(
        value_minor(held.shares, ticks[asset], units[asset]) for asset, held in positions.items()
    )


def nav_minor(account: Account, ticks: Sequence[int], units: Sequence[int]) -> int:
    """Return the value of cash and holdings at the given prices."""
    return account.cash_minor + holdings_minor(account.positions, ticks, units)


def ex_value_minor(shares: int, event: FactorEvent, trades: bool, unit: int) -> int:
    """Return the value of shares after a factor change. It is computed at the unrounded ex-price
    and rounded half up. If the asset does not trade, the mark in whole ticks is used instead.
    """
    if not trades:
        return value_minor(shares, event.ex_ticks, unit)

    parts = event.ratio_ppb * unit
    size = abs(shares)
    worth = (2 * size * event.previous_ticks * PPB + parts) // (2 * parts)

    if shares < 0:
        return -worth
    return worth


def margin_minor(positions: Mapping[int, Position], day: TradingDay, initial: bool) -> int:
    """Return the cash that shorts require at the opens: their value plus the initial or maintenance
    margin, rounded half up.
    """
    needed = 0
    for asset, position in positions.items():
        shares = position.shares
        if shares >= 0:
            continue

        margin = day.rules.terms[asset].margin
        if margin is None:
            continue

        # Margin is required in addition to the shorts' value, which is covered by their sale
        # proceeds.
        rate = RATE_SCALE + (margin.initial if initial else margin.maintenance)
        owed = -value_minor(shares, day.open_ticks[asset], day.rules.units[asset])
        needed += (owed * rate + RATE_SCALE // 2) // RATE_SCALE

    return needed


def open_day(
    account: Account, day: TradingDay
) -> tuple[Account, list[CorporateAction], list[Charge]]:
    """Bring an account from the previous close to `day`'s opens, before its orders.

    All shares become sellable. Shorts pay interest. Holdings with a factor change are scaled, or
    turned into cash if no whole step is left. Margin calls come last.
    """
    positions = {}
    for asset, held in account.positions.items():
        # T+1 (KTD-Fin §3.1): shares bought yesterday are sellable today
        positions[asset] = Position(held.shares) if held.locked else held

    cash = account.cash_minor
    corporate_actions = []
    charges = []

    # Interest precedes factor changes: it is charged on the shares held at the previous close.
    if day.rules.shorts and any(held.shares < 0 for held in positions.values()):
        charges = _borrow_charges(positions, day)
        cash += sum(charge.cash_minor for charge in charges)

    changed = sorted(day.events.keys() & positions.keys()) if day.events else ()
    for asset in changed:
        change = _scale_position(asset, positions[asset].shares, day)
        corporate_actions.append(change)
        cash += change.cash_minor

        if change.shares_after:
            positions[asset] = Position(change.shares_after)
        else:
            del positions[asset]

    if day.rules.shorts:
        cash = _call_margin(cash, positions, day, charges)

    return Account(cash, positions), corporate_actions, charges


def _scale_position(asset: int, before: int, day: TradingDay) -> CorporateAction:
    event = day.events[asset]
    unit = day.rules.units[asset]
    size = abs(before) * event.ratio_ppb // PPB
    after = size if before >= 0 else -size

    value_before = value_minor(before, event.previous_ticks, unit)
    value_after = ex_value_minor(after, event, bool(day.tradable[asset]), unit)
    in_lieu = value_before - value_after

    return CorporateAction(asset, event.ratio_ppb / PPB, before, after, in_lieu)


def _borrow_charges(positions: Mapping[int, Position], day: TradingDay) -> list[Charge]:
    """Return the interest charge on each short since the previous close."""
    charges = []
    shorts = sorted(asset for asset, held in positions.items() if held.shares < 0)
    for asset in shorts:
        shares = positions[asset].shares
        mark = day.previous_ticks[asset]
        paid = interest_minor(shares, mark, asset, day)
        if paid:
            charges.append(Charge("borrow", asset, shares, mark, -paid))

    return charges


def interest_minor(shares: int, mark: int, asset: int, day: TradingDay) -> int:
    """Return a day's interest on a short, rounded up. It is based on the short's value at the
    previous close, with the price `mark`.
    """
    margin = day.rules.terms[asset].margin
    rate = 0 if margin is None else margin.borrow
    parts = -value_minor(shares, mark, day.rules.units[asset]) * rate
    # Per trading day, because interest per night would reveal hidden weekdays and holidays.
    whole = day.rules.days_a_year * RATE_SCALE

    return -(-parts // whole)


def _call_margin(
    cash: int, positions: dict[int, Position], day: TradingDay, charges: list[Charge]
) -> int:
    """Close positions until the margin requirement is met, and append the charges to `charges`.
    Return the remaining cash.
    """
    # A margin call restores only the maintenance margin, not the initial margin.
    for asset in _largest_first(positions, day, side=-1):
        if cash >= margin_minor(positions, day, initial=False):
            break

        charge = _close_position(asset, positions, day)
        charges.append(charge)
        cash += charge.cash_minor

    for asset in _largest_first(positions, day, side=1):
        if cash >= 0:
            break

        charge = _close_position(asset, positions, day)
        charges.append(charge)
        cash += charge.cash_minor

    return cash


def _largest_first(positions: Mapping[int, Position], day: TradingDay, side: int) -> list[int]:
    """Return the tradable assets held (`side` 1) or sold short (`side` -1), largest value at the
    opens first.
    """
    sized = []
    for asset, held in positions.items():
        if held.shares * side > 0 and day.tradable[asset]:
            value = value_minor(held.shares, day.open_ticks[asset], day.rules.units[asset])
            sized.append((-abs(value), asset))

    return [asset for _, asset in sorted(sized)]


def _close_position(asset: int, positions: dict[int, Position], day: TradingDay) -> Charge:
    """Remove a position at the open, and return the charge. The charge's cash includes the fee."""
    shares = positions.pop(asset).shares
    price = day.open_ticks[asset]
    terms = day.rules.terms[asset]
    liquidity = day.liquidity
    execution = terms.execution
    if execution is not None and liquidity is not None:
        # A margin call can't wait: it pays the impact of its full size, whatever the day's volume.
        # If volume or volatility is not known, it pays only the half-spread.
        if not liquidity.volume[asset] or not liquidity.sigma_ppb[asset]:
            execution = replace(execution, is_by_liquidity=False, impact_ppb=0)

        quote = Quote(
            reference=price,
            unit=terms.unit,
            terms=execution,
            sigma_ppb=liquidity.sigma_ppb[asset],
            volume=liquidity.volume[asset],
            low=liquidity.low_ticks[asset],
            high=liquidity.high_ticks[asset],
            # If the spread is unknown, the venue's minimum applies: half a tick.
            half_spread_ppb=max(0, liquidity.half_spread_ppb[asset]),
        )
        price = fill_ticks(quote, abs(shares), selling=shares > 0)

    notional, fee = cost(abs(shares), price, terms, selling=shares > 0)
    if shares < 0:
        notional = -notional

    return Charge("margin_call", asset, -shares, price, notional - fee, fee)


def check_step(settlement: Settlement, day: TradingDay, decided_row: int) -> None:
    """Check a booked fill day.

    * The decision was made before the fill day.
    * cash >= 0, shares > 0, 0 <= locked <= shares (so sellable <= held); shares < 0 and cash < 0
      only if shorts are allowed.
    * NAV = cash + holdings at the closes.
    * Each order has one outcome. No fill is at a better price than under the venue's fill rule, and
      if execution is off, fills are exactly at that price. A limit order fills after the open only
      at its limit, and only if the bar has traded through it.
    * cash after = cash before - buys - costs + sells + cash in lieu + charges. Shares are
      reconciled in the same way; the locked shares are those bought today, if the venue locks them.
    * A factor change leaves value unchanged: before = after at the ex-price + cash in lieu, to the
      minor unit.

    Raises InvariantError if one of these conditions does not hold; the message names the condition
    and the fill day's row.
    """
    if decided_row >= day.row:
        _fail(day, f"decided on row {decided_row}, not before the fill")

    if len(settlement.outcomes) != len(settlement.action):
        _fail(day, f"{len(settlement.action)} orders, but {len(settlement.outcomes)} outcomes")

    # A margin call may leave the account owing cash, but orders must not increase the debt.
    after = settlement.after
    may_owe = day.rules.shorts and after.cash_minor >= settlement.opened.cash_minor
    if after.cash_minor < 0 and not may_owe:
        _fail(day, f"cash is negative: {after.cash_minor}")

    shares = {asset: position.shares for asset, position in settlement.before.positions.items()}
    bought: dict[int, int] = {}
    cash = settlement.before.cash_minor
    cash += _scale_holdings(settlement, day, shares)
    cash += _pay_charges(settlement, day, shares)
    cash += _book_fills(settlement, day, shares, bought)

    if after.cash_minor != cash:
        _fail(day, f"cash is {after.cash_minor}, but the fills give {cash}")

    for order, outcome in settlement.fills:
        if outcome.shares and not _is_at_price(order, outcome, day):
            _fail(day, f"a fill of asset {order.asset} is at a price that the day does not have")

    holdings = _check_positions(settlement, day, shares, bought)
    if settlement.holdings_minor != holdings or settlement.nav_minor != cash + holdings:
        _fail(
            day, f"NAV {settlement.nav_minor} is not the sum of cash {cash} and holdings {holdings}"
        )


def _scale_holdings(settlement: Settlement, day: TradingDay, shares: dict[int, int]) -> int:
    """Apply the booked factor changes to `shares`, and return the resulting cash."""
    cash = 0
    for change in settlement.corporate_actions:
        event = day.events[change.asset]
        unit = day.rules.units[change.asset]
        before = value_minor(change.shares_before, event.previous_ticks, unit)
        # A holding never pays cash in lieu, and a short never receives it.
        if change.shares_before > 0:
            takes = change.cash_minor < 0
        else:
            takes = change.cash_minor > 0

        if shares[change.asset] != change.shares_before or takes:
            _fail(
                day,
                f"the factor change of asset {change.asset} does not start from the actual"
                " holding, or takes cash",
            )

        after = ex_value_minor(change.shares_after, event, bool(day.tradable[change.asset]), unit)
        if before != after + change.cash_minor:
            _fail(day, f"the factor change of asset {change.asset} creates or loses money")

        shares[change.asset] = change.shares_after
        cash += change.cash_minor

    return cash


def _pay_charges(settlement: Settlement, day: TradingDay, shares: dict[int, int]) -> int:
    """Apply the booked charges to `shares`, and return the resulting cash."""
    cash = 0
    for charge in settlement.charges:
        if charge.kind == "margin_call":
            unit = day.rules.units[charge.asset]
            # A notional is rounded to a minor unit, so it may be off by less than one unit,
            # expressed here in ticks.
            off = (charge.cash_minor + charge.fee_minor) * unit + charge.shares * charge.price_ticks
            if abs(off) >= unit or shares.pop(charge.asset, 0) != -charge.shares:
                _fail(
                    day,
                    f"the margin call of asset {charge.asset} does not close its position at its"
                    " price",
                )
        elif charge.cash_minor > 0 or charge.shares >= 0:
            _fail(day, f"interest on asset {charge.asset} is not that of a short")

        cash += charge.cash_minor

    return cash


def _is_at_price(order: Order, outcome: Outcome, day: TradingDay) -> bool:
    """Return whether a fill is at the day's price or, if execution is on, at this price or a worse
    one. The price of a limit order must also be within the limit.
    """
    asset = order.asset
    if asset is None:
        return False

    reference = day.open_ticks[asset]
    if order.limit_ticks is not None:
        event = day.events.get(asset)
        ratio = PPB if event is None else event.ratio_ppb
        side = 1 if order.side == "BUY" else -1
        limit = side * order.limit_ticks * PPB
        # Compared in fractions of a tick; the sign makes the comparison the same for both sides.
        if limit < side * outcome.price_ticks * ratio:
            return False
        if limit < side * reference * ratio:
            return _is_at_limit(order, outcome.price_ticks, day, limit - ratio)

    if day.rules.terms[asset].execution is None:
        return outcome.price_ticks == reference
    if order.side == "BUY":
        return outcome.price_ticks >= reference
    return outcome.price_ticks <= reference


def _is_at_limit(order: Order, price: int, day: TradingDay, beyond: int) -> bool:
    """Return whether a fill after the open is at the limit, to a tick, and the day's bar has traded
    through it. `beyond`: bound one tick worse than the limit, in fractions of a tick; negative for
    a sell.
    """
    asset = order.asset
    if asset is None or day.rules.scales[asset].fill != "next_open":
        return False

    event = day.events.get(asset)
    ratio = PPB if event is None else event.ratio_ppb
    if order.side == "BUY":
        return price * ratio > beyond and 0 < day.low_ticks[asset] < price
    return -price * ratio > beyond and day.high_ticks[asset] > price


def _book_fills(
    settlement: Settlement, day: TradingDay, shares: dict[int, int], bought: dict[int, int]
) -> int:
    """Add the fills to `shares`, and locked buys to `bought`. Return the change in cash."""
    terms = day.rules.terms
    cash = 0
    for order, outcome in settlement.fills:
        asset = order.asset
        filled = outcome.shares
        if not filled or asset is None:
            continue

        cash -= outcome.fee_minor
        if order.side == "BUY":
            cash -= outcome.notional_minor
            shares[asset] = shares.get(asset, 0) + filled
            if terms[asset].locks:
                bought[asset] = bought.get(asset, 0) + filled
        else:
            cash += outcome.notional_minor
            shares[asset] = shares.get(asset, 0) - filled

    return cash


def _check_positions(
    settlement: Settlement, day: TradingDay, shares: dict[int, int], bought: dict[int, int]
) -> int:
    """Compare the positions with the expected shares and locked shares. Return the value of the
    positions at the closes.
    """
    positions = settlement.after.positions
    ticks = day.close_ticks
    units = day.rules.units
    holdings = 0

    if day.rules.shorts:  # shares bought to cover a short are not locked
        bought = {asset: min(number, max(shares[asset], 0)) for asset, number in bought.items()}

    for asset, position in positions.items():
        held = position.shares
        locked = position.locked
        if held > 0 <= locked <= held:
            holdings += (held * ticks[asset] + (units[asset] >> 1)) // units[asset]
        elif held < 0 == locked and day.rules.terms[asset].margin:
            holdings -= (-held * ticks[asset] + (units[asset] >> 1)) // units[asset]
        else:
            _fail(day, f"position {asset} holds {held} shares, {locked} of them locked")

        if shares.get(asset) != held or bought.get(asset, 0) != locked:
            _fail(
                day,
                f"position {asset} holds {held} shares, {locked} of them locked; the fills give"
                " different numbers",
            )

    if len(positions) != len(shares) - list(shares.values()).count(0):
        _fail(day, "a position is missing")

    return holdings


def _fail(day: TradingDay, problem: str) -> NoReturn:
    raise InvariantError(
        f"fill day {day.row}: {problem}; this is a defect of the engine, please report it"
    )
