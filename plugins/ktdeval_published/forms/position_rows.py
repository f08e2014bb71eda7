"""Rows of decisions with the account after each: JSON lines with `date`, `id`, `this_action` and
`positions`.

An id that repeats means that days were run again from an earlier state. The account is then the
branch that ends in the last row; rows of other branches are forked, and count_words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.errors import DataError
from ktdeval.values import loads_untrusted

_TOLERANCE = 1e-6
_DIGITS = 4  #: digits after the point to which boards of coins round quantities


@dataclass(frozen=True)
class RowOrder:
    """Decision to buy or sell."""

    row: int  #: line of the file, from 1
    stamp: np.datetime64  #: moment that the row states, in seconds
    symbol: str
    quantity: float  #: above 0 for a buy
    price: float  #: price implied by the change of cash
    has_hour: bool
    amount: float = 0.0  #: quantity as the row's action states it, above 0

    @property
    def day(self) -> np.datetime64:
        """Day of the decision."""
        day: np.datetime64 = self.stamp.astype("datetime64[D]")
        return day


@dataclass(frozen=True)
class State:
    """Account after a row."""

    stamp: np.datetime64
    positions: Mapping[str, float]  #: without zeros
    cash: float


@dataclass(frozen=True)
class DeclaredAccount:
    """Account that a file declares: its branch of states, and its orders."""

    states: tuple[State, ...]  #: the first is the account before any decision
    orders: tuple[RowOrder, ...]
    rows: int  #: rows of the file
    forked_rows: int  #: rows of branches that were given up
    repeated_ids: int
    without_trade: int  #: rows that say `no_trade`
    of_zero: int  #: rows with an amount of 0
    unexplained: int  #: rows whose change of positions is not that of their action
    days: frozenset[np.datetime64] = field(default_factory=frozenset)  #: days with a decision


def read_account(data: bytes, where: Path, cash_key: str) -> DeclaredAccount:
    """Read a file of decisions. Raises DataError, with the line, for a row that can't be read."""
    rows = _read_rows(data, where)
    if len(rows) < 2:
        raise DataError(f"{where}: has {len(rows)} row; an account needs a first one and decisions")

    branch = _last_branch(rows)
    states = [_state(rows[index], index, where, cash_key) for index in branch]
    counts: Counter[str] = Counter()
    orders = []
    for place, index in enumerate(branch[1:], 1):
        order = _order(rows[index], index, states[place - 1], states[place], counts)
        if order is not None:
            orders.append(order)

    ids = [row.get("id") for row in rows]
    return DeclaredAccount(
        states=tuple(states),
        orders=tuple(orders),
        rows=len(rows),
        forked_rows=len(rows) - len(branch),
        repeated_ids=len(ids) - len(set(ids)),
        without_trade=counts["no_trade"],
        of_zero=counts["zero"],
        unexplained=counts["unexplained"],
        days=frozenset(state.stamp.astype("datetime64[D]") for state in states[1:]),
    )


def _read_rows(data: bytes, where: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = loads_untrusted(line)
        except ValueError as error:
            raise DataError(f"{where}: line {number} is not one JSON object: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("positions"), dict):
            raise DataError(f"{where}: line {number} has no object `positions`")
        if "date" not in row:
            raise DataError(f"{where}: line {number} has no field `date`")
        rows.append(row)
    return rows


def _last_branch(rows: list[dict[str, Any]]) -> list[int]:
    """Return the indices of the rows that lead to the last one: before a row with id n comes the
    latest earlier row with id n - 1. Without numbered ids, all rows are one branch.
    """
    ids = [one for row in rows if isinstance(one := row.get("id"), int)]
    if len(ids) < len(rows) or len(set(ids)) == len(ids):
        return list(range(len(rows)))

    branch = [len(rows) - 1]
    wanted = ids[-1] - 1
    for index in range(len(rows) - 2, -1, -1):
        if ids[index] == wanted:
            branch.append(index)
            wanted -= 1
    return branch[::-1]


def _state(row: dict[str, Any], index: int, where: Path, cash_key: str) -> State:
    positions = dict(row["positions"])
    if cash_key not in positions:
        raise DataError(f"{where}: line {index + 1}: positions have no key {cash_key!r}")

    for symbol, amount in positions.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not math.isfinite(amount):
            raise DataError(f"{where}: line {index + 1}: positions of {symbol} is not a number")

    cash = float(positions.pop(cash_key))
    held = {symbol: float(amount) for symbol, amount in positions.items() if amount}
    return State(_stamp(row["date"], index, where), held, cash)


def _stamp(text: Any, index: int, where: Path) -> np.datetime64:
    try:
        return np.datetime64(str(text).strip().replace(" ", "T"), "s")
    except ValueError as error:
        raise DataError(f"{where}: line {index + 1}: date {text!r} is no moment") from error


def _order(
    row: dict[str, Any], index: int, before: State, after: State, counts: Counter[str]
) -> RowOrder | None:
    """Return the order of a row, and count rows without one."""
    action = row.get("this_action") or {}
    kind = str(action.get("action", ""))
    symbol = str(action.get("symbol", ""))
    amount = float(action.get("amount") or 0)
    side = 0
    if kind.startswith("buy"):
        side = 1
    elif kind.startswith("sell"):
        side = -1

    moved = after.positions != before.positions
    if not side:
        counts["no_trade"] += 1
        counts["unexplained"] += moved
        return None
    if not amount:
        counts["zero"] += 1
        counts["unexplained"] += moved
        return None

    quantity = side * amount
    change = after.positions.get(symbol, 0.0) - before.positions.get(symbol, 0.0)
    if abs(change - round(quantity, _DIGITS)) <= _TOLERANCE:
        quantity = change  # a board may round what it books
    elif abs(change - quantity) > _TOLERANCE * max(1.0, amount):
        counts["unexplained"] += 1
    price = (before.cash - after.cash) / quantity
    return RowOrder(
        index + 1, after.stamp, symbol, quantity, price, len(str(row["date"])) > 10, amount
    )
