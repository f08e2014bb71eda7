"""Invariants of every fill day, whatever was ordered. A breach is a defect of the engine and stops the episode.

Checked from the outcomes alone, in sums of its own, so that an error of the executor can't hide behind its own arithmetic.
"""

from __future__ import annotations

from typing import NoReturn

from ktdeval.errors import InvariantError
from ktdeval.trading.account import Settlement, ex_value_fen, value_fen
from ktdeval.trading.market_tape import TradingDay
from ktdeval.trading.types import TICKS_PER_FEN


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
