"""Value of an account, and what changes it before a day's orders: locks open, factor changes, interest on shorts, margin calls.

A factor change (split, bonus, dividend) by ratio q turns `s` shares into `floor(s * q)` shares, with q in parts per billion.
What is left of the value before, the fraction of a step, is paid in cash:

    value(s, previous mark) == ex_value(shares after) + cash        exactly, and cash >= 0

so a dividend is reinvested at the ex-price, a split changes nothing, and neither makes nor loses a minor unit. The ex-price is the
previous mark over q, not rounded to a tick: on some thousand shares a part of a tick is more than a minor unit. Only a holding that
does not trade that day, which stays marked at a whole tick, is scaled at that mark. Odd lots come only from this. A short is the
mirror of it: as many shares more are owed, and the fraction is paid by the account.

A short pays interest for each day of the market, on its value at the close before: a year's rate over the days that the market has
in a year, however many nights lie between two closes. By nights, interest would tell weekends and holidays to a model that is shown
no dates, and so would all that is sized by a NAV. Then, where cash at the opens is less
than the shorts' own value and the maintenance margin of it, shorts are bought back whole, those of the largest value first, until
it is not; and where cash is below zero, holdings are sold whole in that order. What does not trade stays. An account may owe cash
after that: a ruin that orders can't undo, and the episode goes on with it.

The invariants hold on every fill day, whatever was ordered; a breach is a defect of the engine and stops the episode. They are
checked from the outcomes alone, in sums of their own, so that an error of the executor can't hide behind its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from msgspec import Struct

from ktdeval.errors import InvariantError
from ktdeval.trading.market_tape import FactorEvent, TradingDay
from ktdeval.trading.terms import PPB, RATE_SCALE, Terms, cost
from ktdeval.trading.types import Account, Action, Charge, CorporateAction, Outcome, Position, TradingConfig


class Settlement(Struct, frozen=True):
    """One fill day as booked, from the close before it to its close."""

    before: Account  #: the account at the previous close
    opened: Account  #: the account when orders are filled: unlocked, holdings scaled, charges paid
    corporate_actions: tuple[CorporateAction, ...]  #: what the factor changes did
    open_nav_minor: int  #: NAV of `opened` marked at the opens
    action: Action  #: the orders, as decided
    outcomes: tuple[Outcome, ...]  #: how each ended, in the same order
    after: Account  #: the account at the close
    holdings_minor: int  #: value of the positions at the close
    nav_minor: int  #: cash and holdings at the close
    charges: tuple[Charge, ...] = ()  #: interest and margin calls before the orders


def open_account(config: TradingConfig, minor_per_unit: int = 100) -> Account:
    """Return the account at the start of an episode: all cash."""
    return Account(config.initial_cash * minor_per_unit, {})


def value_minor(shares: int, ticks: int, unit: int) -> int:
    """Worth of shares at a price, in minor units of which each has `unit` ticks of a share, halves up; of a short, below zero."""
    return (shares * ticks + (unit >> 1)) // unit if shares >= 0 else -((-shares * ticks + (unit >> 1)) // unit)


def holdings_minor(positions: Mapping[int, Position], ticks: Sequence[int], units: Sequence[int]) -> int:
    """Worth of all positions, each rounded to a minor unit; `units`: of each asset."""
    return sum(value_minor(held.shares, ticks[asset], units[asset]) for asset, held in positions.items())


def nav_minor(account: Account, ticks: Sequence[int], units: Sequence[int]) -> int:
    """Cash and holdings at the given prices."""
    return account.cash_minor + holdings_minor(account.positions, ticks, units)


def ex_value_minor(shares: int, event: FactorEvent, trades: bool, unit: int) -> int:
    """Worth of the shares after a change at the ex-price, halves up; the whole-tick mark where nothing trades."""
    if not trades:
        return value_minor(shares, event.ex_ticks, unit)
    parts, size = event.ratio_ppb * unit, abs(shares)
    worth = (2 * size * event.previous_ticks * PPB + parts) // (2 * parts)
    return worth if shares >= 0 else -worth


def margin_minor(positions: Mapping[int, Position], day: TradingDay, initial: bool) -> int:
    """Cash that shorts ask for at the opens: their own value and the initial or the maintenance margin, halves up."""
    needed = 0
    for asset, position in positions.items():
        shares = position.shares
        if shares < 0 and (margin := day.rules.terms[asset].margin):
            rate = RATE_SCALE + (margin.initial if initial else margin.maintenance)
            needed += (-value_minor(shares, day.open_ticks[asset], day.rules.units[asset]) * rate + RATE_SCALE // 2) // RATE_SCALE
    return needed


def open_day(account: Account, day: TradingDay) -> tuple[Account, list[CorporateAction], list[Charge]]:
    """Carry an account to where `day`'s orders are filled: all shares become sellable, holdings with a factor change are scaled,
    those scaled to nothing become cash; then interest on shorts and margin calls.
    """
    positions = {asset: Position(held.shares) if held.locked else held for asset, held in account.positions.items()}
    cash, corporate_actions, charges = account.cash_minor, [], []
    if day.rules.shorts and any(held.shares < 0 for held in positions.values()):
        charges = _borrow_charges(positions, day)
        cash += sum(charge.cash_minor for charge in charges)
    for asset in sorted(day.events.keys() & positions.keys()) if day.events else ():
        change = _scaled(asset, positions[asset].shares, day)
        corporate_actions.append(change)
        cash += change.cash_minor
        if change.shares_after:
            positions[asset] = Position(change.shares_after)
        else:
            del positions[asset]
    if day.rules.shorts:
        cash = _call_margin(cash, positions, day, charges)
    return Account(cash, positions), corporate_actions, charges


def _scaled(asset: int, before: int, day: TradingDay) -> CorporateAction:
    event, unit = day.events[asset], day.rules.units[asset]
    size = abs(before) * event.ratio_ppb // PPB
    after = size if before >= 0 else -size
    paid = value_minor(before, event.previous_ticks, unit) - ex_value_minor(after, event, bool(day.tradable[asset]), unit)
    return CorporateAction(asset, event.ratio_ppb / PPB, before, after, paid)


def _borrow_charges(positions: Mapping[int, Position], day: TradingDay) -> list[Charge]:
    """Interest on each short since the last close."""
    charges = []
    for asset in sorted(asset for asset, held in positions.items() if held.shares < 0):
        shares, mark = positions[asset].shares, day.previous_ticks[asset]
        if paid := interest_minor(shares, mark, asset, day):
            charges.append(Charge("borrow", asset, shares, mark, -paid))
    return charges


def interest_minor(shares: int, mark: int, asset: int, day: TradingDay) -> int:
    """Interest on a short for the day, on its value at the mark of the close before, halves up."""
    margin = day.rules.terms[asset].margin
    parts = -value_minor(shares, mark, day.rules.units[asset]) * (margin.borrow if margin else 0)
    whole = day.rules.days_a_year * RATE_SCALE
    return (2 * parts + whole) // (2 * whole)


def _call_margin(cash: int, positions: dict[int, Position], day: TradingDay, charges: list[Charge]) -> int:
    """Close positions as the margin asks for; returns the cash that is left."""
    ticks, units = day.open_ticks, day.rules.units

    def largest(side: int) -> list[int]:
        sized = [
            (-abs(value_minor(held.shares, ticks[asset], units[asset])), asset)
            for asset, held in positions.items()
            if held.shares * side > 0 and day.tradable[asset]
        ]
        return [asset for _, asset in sorted(sized)]

    def close(asset: int) -> None:
        nonlocal cash
        shares = positions.pop(asset).shares
        notional, fee = cost(abs(shares), ticks[asset], day.rules.terms[asset], selling=shares > 0)
        change = (notional if shares > 0 else -notional) - fee
        charges.append(Charge("margin_call", asset, -shares, ticks[asset], change, fee))
        cash += change

    for asset in largest(-1):
        if cash >= margin_minor(positions, day, initial=False):
            break
        close(asset)
    for asset in largest(1):
        if cash >= 0:
            break
        close(asset)
    return cash


def check_step(settlement: Settlement, day: TradingDay, decided_row: int) -> None:
    """Check one booked fill day.

    * decided before filled;
    * cash >= 0, shares > 0, 0 <= locked <= shares (so sellable <= held); shares < 0 and cash < 0 only where shorts are allowed;
    * NAV = cash + holdings at the closes;
    * one outcome an order;
    * cash after = cash before - buys - costs + sells + cash in lieu + charges, and shares likewise, locks being the shares bought
      today where that locks them;
    * a factor change leaves value unchanged: before = after at the ex-price + cash in lieu, to the minor unit.

    Raises:
        InvariantError: one of these does not hold; names it and the fill day's row.
    """
    if decided_row >= day.row:
        _fail(day, f"decided on row {decided_row}, not before the fill")
    if len(settlement.outcomes) != len(settlement.action):
        _fail(day, f"{len(settlement.action)} orders have {len(settlement.outcomes)} outcomes")
    after = settlement.after
    if after.cash_minor < 0 and not (day.rules.shorts and after.cash_minor >= settlement.opened.cash_minor):
        _fail(day, f"cash is negative: {after.cash_minor}")
    shares = {asset: position.shares for asset, position in settlement.before.positions.items()}
    bought: dict[int, int] = {}
    cash = settlement.before.cash_minor + _scale_holdings(settlement, day, shares) + _pay_charges(settlement, day, shares)
    cash += _book_fills(settlement, day.rules.terms, shares, bought)
    if after.cash_minor != cash:
        _fail(day, f"cash is {after.cash_minor}, the fills give {cash}")
    holdings = _check_positions(settlement, day, shares, bought)
    if settlement.holdings_minor != holdings or settlement.nav_minor != cash + holdings:
        _fail(day, f"NAV {settlement.nav_minor} is not cash {cash} + holdings {holdings}")


def _scale_holdings(settlement: Settlement, day: TradingDay, shares: dict[int, int]) -> int:
    """Apply the booked factor changes to `shares`; returns their cash."""
    cash = 0
    for change in settlement.corporate_actions:
        event, unit = day.events[change.asset], day.rules.units[change.asset]
        before = value_minor(change.shares_before, event.previous_ticks, unit)
        takes = change.cash_minor < 0 if change.shares_before > 0 else change.cash_minor > 0
        if shares[change.asset] != change.shares_before or takes:
            _fail(day, f"the factor change of asset {change.asset} starts from another holding or takes cash")
        after = ex_value_minor(change.shares_after, event, bool(day.tradable[change.asset]), unit)
        if before != after + change.cash_minor:
            _fail(day, f"the factor change of asset {change.asset} makes or loses money")
        shares[change.asset] = change.shares_after
        cash += change.cash_minor
    return cash


def _pay_charges(settlement: Settlement, day: TradingDay, shares: dict[int, int]) -> int:
    """Apply the booked charges to `shares`; returns their cash."""
    cash = 0
    for charge in settlement.charges:
        if charge.kind == "margin_call":
            unit = day.rules.units[charge.asset]
            off = (charge.cash_minor + charge.fee_minor) * unit + charge.shares * charge.price_ticks
            if abs(off) >= unit or shares.pop(charge.asset, 0) != -charge.shares:
                _fail(day, f"the margin call of asset {charge.asset} does not close its position at its price")
        elif charge.cash_minor > 0 or charge.shares >= 0:
            _fail(day, f"interest on asset {charge.asset} is not that of a short")
        cash += charge.cash_minor
    return cash


def _book_fills(settlement: Settlement, terms: Sequence[Terms], shares: dict[int, int], bought: dict[int, int]) -> int:
    """Add the fills to `shares` and the buys that are locked to `bought`; returns the change in cash."""
    cash = 0
    for order, outcome in zip(settlement.action, settlement.outcomes):
        asset, filled = order.asset, outcome.shares
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


def _check_positions(settlement: Settlement, day: TradingDay, shares: dict[int, int], bought: dict[int, int]) -> int:
    """Compare the positions with the expected shares and locks; returns their value at the closes."""
    positions, ticks, units, holdings = settlement.after.positions, day.close_ticks, day.rules.units, 0
    if day.rules.shorts:  # what bought a short back is not locked
        bought = {asset: min(number, max(shares[asset], 0)) for asset, number in bought.items()}
    for asset, position in positions.items():
        held, locked = position.shares, position.locked
        if held > 0 <= locked <= held:
            holdings += (held * ticks[asset] + (units[asset] >> 1)) // units[asset]
        elif held < 0 == locked and day.rules.terms[asset].margin:
            holdings -= (-held * ticks[asset] + (units[asset] >> 1)) // units[asset]
        else:
            _fail(day, f"position {asset} holds {held} shares, {locked} of them locked")
        if shares.get(asset) != held or bought.get(asset, 0) != locked:
            _fail(day, f"position {asset} holds {held} shares, {locked} of them locked; the fills give others")
    if len(positions) != len(shares) - list(shares.values()).count(0):
        _fail(day, "a position is missing")
    return holdings


def _fail(day: TradingDay, problem: str) -> NoReturn:
    raise InvariantError(f"fill day {day.row}: {problem}; this is a defect of the engine, please report it")
