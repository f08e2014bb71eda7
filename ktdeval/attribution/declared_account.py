"""Compare the account that a file declares with the account that was executed from its decisions.

Both accounts hold cash and shares. A *fill* changes both, and its gain at the close of a later row is

    gain(T)  =  shares close(T)  -  paid,        paid = shares price, without fees

so that an account's value is its first cash, plus the gains of its fills, minus its fees. The gap
between two accounts with the same first cash is therefore a sum over decisions. Let q and V be the
shares and the money that a decision's fills declare, Q and W those executed, and p the declared
price. For each decision,

    rows left out     q close - V                  if the decision was never given to the executor
    lots and limits   (q - Q) (close - p)          shares that were not filled as declared
    price and moment  the rest, W - V + (q - Q) p  once both are filled; before that, the price moves

`fees` are the executed minus the declared fees. `corporate actions` are shares and cash that appear
without a trade: splits, dividends, bonus shares. The `residual` is what remains: parts of the
declared value that its own cash, holdings and fills do not explain.

Example, worked by hand: 1,000 of cash. The file buys 10 shares at 20.00 and pays a fee of 1. The
executor buys 8 shares at 21.00 and pays 2. The close is 25.00. Declared: 1,000 + 10 (25 - 20) - 1 =
1,049. Executed: 1,000 + 8 (25 - 21) - 2 = 1,030. The gap of 19 is 2 (25 - 20) = 10 by lots and
limits, 8 (21 - 20) = 8 by price, and 2 - 1 = 1 by fees.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError

Values = npt.NDArray[np.float64]
GapCause = Literal[
    "price_and_moment",
    "lots_and_limits",
    "fees",
    "rows_left_out",
    "corporate_actions",
    "residual",
]
GAP_CAUSES: tuple[GapCause, ...] = get_args(GapCause)
"""Causes of a gap between a declared and an executed account, in the order of printing."""
_NO_CASH = 0.005  #: money below half a cent is a rounding error


@dataclass(frozen=True, slots=True)
class AccountFill:
    """Shares and money that enter or leave an account, at the close of `row` at the latest."""

    row: int  #: row of the prices
    asset: int  #: column of the prices
    shares: float  #: negative if sold
    paid: float  #: money paid for the shares, without fees; negative if received
    fee: float = 0.0
    #: decision that led to the fill. Declared and executed fills of one decision and asset are
    #: compared. Empty: a corporate action
    decision: str = ""


@dataclass(frozen=True, kw_only=True)
class AccountPath:
    """An account on T rows of prices."""

    fills: tuple[AccountFill, ...]
    values: Values  #: account value at each close, [T]; NaN where it is not known


@dataclass(frozen=True, kw_only=True)
class AccountGap:
    """Gap between a declared and an executed account, at each close."""

    declared: Values  #: [T]
    executed: Values  #: [T]
    #: gap by cause, [T] each; their sum is declared minus executed value
    parts: Mapping[GapCause, Values]

    @property
    def gap(self) -> Values:
        """Declared minus executed value, [T]."""
        return self.declared - self.executed

    @property
    def largest_residual(self) -> float:
        """Largest absolute residual on any row with a declared value."""
        return float(np.nanmax(np.abs(self.parts["residual"])))


def declared_nav(cash: Values, holdings: Values, closes: Values) -> Values:
    """Return the account value at each close, [T], from cash [T] and shares [T, N]. `closes` [T, N]
    are unadjusted, in the account's currency. A holding without a close makes the value NaN.
    """
    held = holdings != 0.0
    worth = np.where(held, holdings * closes, 0.0)
    values: Values = cash + worth.sum(axis=1)
    return values


def book_fills(
    cash: Values,
    holdings: Values,
    rows: Sequence[int],
    decisions: Sequence[str],
    references: Values,
) -> tuple[AccountFill, ...]:
    """Return the fills between successive books of an account. `cash` [K] and `holdings` [K, N] are
    the books in order; `rows` and `decisions` [K] say, for each book, the row of prices by which it
    is reached, and the decision that led to it. The first book has no fill.

    Shares that change without cash are a corporate action. Cash that changes without shares is no
    fill: it stays in the residual. If several assets change between two books, the money is divided
    by `references` [K, N], prices that are only used for this.
    """
    fills: list[AccountFill] = []
    for number in range(1, len(cash)):
        moved = holdings[number] - holdings[number - 1]
        assets = np.flatnonzero(moved)
        spent = float(cash[number - 1] - cash[number])
        decision = decisions[number]
        if abs(spent) < _NO_CASH:
            decision = ""

        paid = _money_by_asset(spent, moved[assets], references[number, assets])
        for asset, money in zip(assets.tolist(), paid, strict=True):
            shares = float(moved[asset])
            fills.append(AccountFill(rows[number], asset, shares, money, decision=decision))

    return tuple(fills)


def _money_by_asset(spent: float, shares: Values, references: Values) -> list[float]:
    """Return the money paid for each asset. Their sum is `spent`."""
    if not len(shares) or abs(spent) < _NO_CASH:
        return [0.0] * len(shares)

    estimates = shares * references
    if not np.isfinite(estimates).all() or not estimates.any():
        estimates = np.zeros(len(shares))
        weights = np.abs(shares)
    else:
        weights = np.abs(estimates)

    rest = spent - float(estimates.sum())
    paid: list[float] = (estimates + rest * weights / float(weights.sum())).tolist()
    return paid


def account_gap(
    declared: AccountPath,
    executed: AccountPath,
    closes: Values,
    left_out: Iterable[str] = (),
) -> AccountGap:
    """Return the gap between two accounts by cause. `closes` [T, N] are the prices at which both
    are valued. `left_out`: decisions that were not given to the executor. Raises DataError if the
    shapes differ.
    """
    rows = len(closes)
    if len(declared.values) != rows or len(executed.values) != rows:
        raise DataError(
            f"account gap: {len(declared.values)} declared and {len(executed.values)} executed "
            f"values for {rows} rows of closes; give one of each for every row"
        )

    omitted = frozenset(left_out)
    parts: dict[GapCause, Values] = {cause: np.zeros(rows) for cause in GAP_CAUSES}
    parts["corporate_actions"] += _gains(_actions(declared), closes)
    parts["corporate_actions"] -= _gains(_actions(executed), closes)
    parts["fees"] += _fees(executed, rows) - _fees(declared, rows)

    claims = _by_decision(declared)
    trades = _by_decision(executed)
    for key in sorted(claims.keys() | trades.keys()):
        claimed = claims.get(key, [])
        filled = trades.get(key, [])
        whole = _gains(claimed, closes) - _gains(filled, closes)
        if key[0] in omitted and not filled:
            parts["rows_left_out"] += whole
            continue

        unfilled = _unfilled_gains(claimed, filled, closes)
        parts["lots_and_limits"] += unfilled
        parts["price_and_moment"] += whole - unfilled

    gap = declared.values - executed.values
    known = [parts[cause] for cause in GAP_CAUSES if cause != "residual"]
    parts["residual"] = gap - np.sum(known, axis=0)
    return AccountGap(declared=declared.values, executed=executed.values, parts=parts)


def _actions(account: AccountPath) -> list[AccountFill]:
    return [fill for fill in account.fills if not fill.decision]


def _by_decision(account: AccountPath) -> dict[tuple[str, int], list[AccountFill]]:
    found: dict[tuple[str, int], list[AccountFill]] = defaultdict(list)
    for fill in account.fills:
        if fill.decision:
            found[fill.decision, fill.asset].append(fill)
    return found


def _gains(fills: Iterable[AccountFill], closes: Values) -> Values:
    """Return the gain of fills at each close, [T], without fees; 0 before the fill."""
    gains = np.zeros(len(closes))
    for fill in fills:
        gains[fill.row :] += fill.shares * closes[fill.row :, fill.asset] - fill.paid
    return gains


def _fees(account: AccountPath, rows: int) -> Values:
    """Return the fees paid by each close, [T]."""
    paid = np.zeros(rows)
    for fill in account.fills:
        paid[fill.row :] += fill.fee
    return paid


def _unfilled_gains(
    claimed: Sequence[AccountFill], filled: Sequence[AccountFill], closes: Values
) -> Values:
    """Return the gain of the shares that were declared, but not filled, at the declared price. Shares
    that were filled, but not declared, count with the opposite sign, at their own price.
    """
    ordered = math.fsum(fill.shares for fill in claimed)
    shares = ordered - math.fsum(fill.shares for fill in filled)
    priced = claimed or filled
    row = min(fill.row for fill in priced)
    gains = np.zeros(len(closes))
    traded = math.fsum(abs(fill.shares) for fill in priced)
    if not traded or not shares:
        return gains

    price = math.fsum(abs(fill.paid) for fill in priced) / traded
    gains[row:] = shares * (closes[row:, priced[0].asset] - price)
    return gains
