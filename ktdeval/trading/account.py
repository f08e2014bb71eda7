"""Worth of an account, and what happens to it overnight: T+1 locks open, factor changes scale holdings.

A factor change (split, bonus, dividend) by ratio q turns `s` shares into `floor(s * q)` shares, with q in parts per billion.
What is left of the value before, the fraction of a share, is paid in cash:

    value_fen(s, previous mark) == ex_value_fen(shares after) + cash_fen        exactly, and cash_fen >= 0

so a dividend is reinvested at the ex-price, a split changes nothing, and neither makes nor loses a fen. The ex-price is the
previous mark over q, not rounded to a tick: on some thousand shares a part of a tick is more than a fen. Only a holding that
does not trade that day, which stays marked at a whole tick, is scaled at that mark. Odd lots come only from this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktdeval.trading.config import TradingConfig
from ktdeval.trading.market_tape import PPB, FactorEvent, TradingDay
from ktdeval.trading.types import TICKS_PER_FEN, Account, Action, CorporateAction, Outcome, Position

_HALF_FEN = TICKS_PER_FEN // 2


class Settlement(NamedTuple):
    """One fill day as booked, from the close before it to its close.

    Attributes:
        before: the account at the previous close.
        opened: the account at the open: unlocked, holdings scaled.
        corporate_actions: what the factor changes did.
        open_nav_fen: NAV of `opened` marked at the opens.
        action: the orders, as decided.
        outcomes: how each ended, in the same order.
        after: the account at the close.
        holdings_fen: value of the positions at the close.
        nav_fen: cash and holdings at the close.
    """

    before: Account
    opened: Account
    corporate_actions: tuple[CorporateAction, ...]
    open_nav_fen: int
    action: Action
    outcomes: tuple[Outcome, ...]
    after: Account
    holdings_fen: int
    nav_fen: int


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
    """Worth of the shares after a factor change at the ex-price, in fen, halves up.

    Args:
        shares: shares after the change.
        event: the change.
        trades: whether the asset trades that day; if not, its mark in whole ticks is the ex-price.
    """
    if not trades:
        return value_fen(shares, event.ex_ticks)
    parts = event.ratio_ppb * TICKS_PER_FEN
    return (2 * shares * event.previous_ticks * PPB + parts) // (2 * parts)


def open_day(account: Account, day: TradingDay) -> tuple[Account, list[CorporateAction]]:
    """Carry an account from the previous close to the open of `day`.

    All shares become sellable; every holding whose factor changes today is scaled as the module says. A holding scaled to
    no whole share becomes cash.
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
