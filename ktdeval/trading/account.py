"""Worth of an account, and what happens to it overnight: T+1 locks open, factor changes scale holdings.

A factor change (split, bonus, dividend) by ratio q turns `s` shares into `floor(s * q)` shares, with q in parts per billion.
What is left of the value before, the fraction of a share, is paid in cash:

    value_fen(s, previous mark) == ex_value_fen(shares after) + cash_fen        exactly, and cash_fen >= 0

so a dividend is reinvested at the ex-price, a split changes nothing, and neither makes nor loses a fen. The ex-price is the
previous mark over q, not rounded to a tick: on some thousand shares a part of a tick is more than a fen. Only a holding that
does not trade that day, which stays marked at a whole tick, is scaled at that mark. Odd lots come only from this.

The invariants hold on every fill day, whatever was ordered; a breach is a defect of the engine and stops the episode. They are
checked from the outcomes alone, in sums of their own, so that an error of the executor can't hide behind its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from ktdeval.errors import InvariantError
from ktdeval.trading.market_tape import PPB, FactorEvent, TradingDay
from ktdeval.trading.types import TICKS_PER_FEN, Account, Action, CorporateAction, Outcome, Position, TradingConfig

_HALF_FEN = TICKS_PER_FEN // 2


class Settlement(NamedTuple):
    """One fill day as booked, from the close before it to its close."""

    before: Account  #: the account at the previous close
    opened: Account  #: the account at the open: unlocked, holdings scaled
    corporate_actions: tuple[CorporateAction, ...]  #: what the factor changes did
    open_nav_fen: int  #: NAV of `opened` marked at the opens
    action: Action  #: the orders, as decided
    outcomes: tuple[Outcome, ...]  #: how each ended, in the same order
    after: Account  #: the account at the close
    holdings_fen: int  #: value of the positions at the close
    nav_fen: int  #: cash and holdings at the close


def open_account(config: TradingConfig) -> Account:
    """Return the account at the start of an episode: all cash."""
    return Account(config.initial_cash_cny * 100, {})


def value_fen(shares: int, ticks: int) -> int:
    """Worth of shares at a price, in fen, halves up."""
    return (shares * ticks + _HALF_FEN) // TICKS_PER_FEN


def holdings_fen(positions: Mapping[int, Position], ticks: Sequence[int]) -> int:
    """Worth of all positions, each rounded to a fen."""
    total = 0
    for asset, position in positions.items():
        total += (position[0] * ticks[asset] + _HALF_FEN) // TICKS_PER_FEN
    return total


def nav_fen(account: Account, ticks: Sequence[int]) -> int:
    """Cash and holdings at the given prices, in fen."""
    return account.cash_fen + holdings_fen(account.positions, ticks)


def ex_value_fen(shares: int, event: FactorEvent, trades: bool) -> int:
    """Worth of the shares after a change at the ex-price, in fen, halves up; the whole-tick mark where nothing trades."""
    if not trades:
        return value_fen(shares, event.ex_ticks)
    parts = event.ratio_ppb * TICKS_PER_FEN
    return (2 * shares * event.previous_ticks * PPB + parts) // (2 * parts)


def open_day(account: Account, day: TradingDay) -> tuple[Account, list[CorporateAction]]:
    """Carry an account to the open of `day`: all shares become sellable, holdings with a factor change are scaled, those scaled to
    no whole share become cash.
    """
    positions = {asset: Position(held[0]) if held[1] else held for asset, held in account.positions.items()}
    if not day.events:
        return Account(account.cash_fen, positions), []
    cash, corporate_actions = account.cash_fen, []
    for asset in sorted(day.events.keys() & positions.keys()):
        event = day.events[asset]
        before = positions[asset].shares
        after = before * event.ratio_ppb // PPB
        paid = value_fen(before, event.previous_ticks) - ex_value_fen(after, event, bool(day.tradable[asset]))
        corporate_actions.append(CorporateAction(asset, event.ratio_ppb / PPB, before, after, paid))
        cash += paid
        if after:
            positions[asset] = Position(after)
        else:
            del positions[asset]
    return Account(cash, positions), corporate_actions


def check_step(settlement: Settlement, day: TradingDay, decided_row: int) -> None:
    """Check one booked fill day.

    * decided before filled;
    * cash >= 0, shares > 0, 0 <= locked <= shares (so sellable <= held);
    * NAV = cash + holdings at the closes;
    * one outcome an order;
    * cash after = cash before - buys - costs + sells + cash in lieu, and shares likewise, locks being the shares bought today;
    * a factor change leaves value unchanged: before = after at the ex-price + cash in lieu, to the fen.

    Raises:
        InvariantError: one of these does not hold; names it and the fill day's row.
    """
    if decided_row >= day.row:
        _fail(day, f"decided on row {decided_row}, not before the fill")
    if len(settlement.outcomes) != len(settlement.action):
        _fail(day, f"{len(settlement.action)} orders have {len(settlement.outcomes)} outcomes")
    after = settlement.after
    if after.cash_fen < 0:
        _fail(day, f"cash is negative: {after.cash_fen} fen")
    shares = {asset: position[0] for asset, position in settlement.before.positions.items()}
    bought: dict[int, int] = {}
    cash = settlement.before.cash_fen + _scale_holdings(settlement, day, shares) + _book_fills(settlement, shares, bought)
    if after.cash_fen != cash:
        _fail(day, f"cash is {after.cash_fen} fen, the fills give {cash}")
    holdings = _check_positions(settlement, day, shares, bought)
    if settlement.holdings_fen != holdings or settlement.nav_fen != cash + holdings:
        _fail(day, f"NAV {settlement.nav_fen} fen is not cash {cash} + holdings {holdings}")


def _scale_holdings(settlement: Settlement, day: TradingDay, shares: dict[int, int]) -> int:
    """Apply the booked factor changes to `shares`; returns their cash."""
    cash = 0
    for change in settlement.corporate_actions:
        event = day.events[change.asset]
        before = value_fen(change.shares_before, event.previous_ticks)
        if shares[change.asset] != change.shares_before or change.cash_fen < 0:
            _fail(day, f"the factor change of asset {change.asset} starts from another holding or takes cash")
        after = ex_value_fen(change.shares_after, event, bool(day.tradable[change.asset]))
        if before != after + change.cash_fen:
            _fail(day, f"the factor change of asset {change.asset} makes or loses money")
        shares[change.asset] = change.shares_after
        cash += change.cash_fen
    return cash


def _book_fills(settlement: Settlement, shares: dict[int, int], bought: dict[int, int]) -> int:
    """Add the fills to `shares` and the buys to `bought`; returns the change in cash."""
    cash = 0
    for order, (_, _, _, filled, _, notional, fee) in zip(settlement.action, settlement.outcomes):
        asset = order[0]
        if not filled or asset is None:
            continue
        cash -= fee
        if order[1] == "BUY":
            cash -= notional
            shares[asset] = shares.get(asset, 0) + filled
            bought[asset] = bought.get(asset, 0) + filled
        else:
            cash += notional
            shares[asset] = shares.get(asset, 0) - filled
    return cash


def _check_positions(settlement: Settlement, day: TradingDay, shares: dict[int, int], bought: dict[int, int]) -> int:
    """Compare the positions with the expected shares and locks; returns their value at the closes."""
    positions, ticks, holdings = settlement.after.positions, day.close_ticks, 0
    for asset, (held, locked) in positions.items():
        if not held > 0 <= locked <= held:
            _fail(day, f"position {asset} holds {held} shares, {locked} of them locked")
        if shares.get(asset) != held or bought.get(asset, 0) != locked:
            _fail(day, f"position {asset} holds {held} shares, {locked} of them locked; the fills give others")
        holdings += (held * ticks[asset] + TICKS_PER_FEN // 2) // TICKS_PER_FEN
    if len(positions) != sum(map(bool, shares.values())):
        _fail(day, "a position is missing")
    return holdings


def _fail(day: TradingDay, problem: str) -> NoReturn:
    raise InvariantError(f"fill day {day.row}: {problem}; this is a defect of the engine, please report it")
