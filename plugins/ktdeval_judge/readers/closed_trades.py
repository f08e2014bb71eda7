"""Closed trades: each row is a round-trip trade, with its entry and exit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.declared import Doubt
from ktdeval_judge.readers.account_cash import initial_cash
from ktdeval_judge.readers.frames import ordered_trades, with_lines
from ktdeval_judge.readers.keys import check_closed_keys
from ktdeval_judge.readers.left_out import without_totals
from ktdeval_judge.readers.role_table import RoleTable
from ktdeval_judge.readers.roles import is_kind
from ktdeval_judge.readers.unread import OTHER_SIZES, check_unread

_NEEDED = {"exit date": "the day of the exit", "exit price": "the price of the exit"}
#: relative gap above which a profit does not match its trade; fees are allowed for separately
_MAX_GAP = 0.2
_FEES = 0.01  #: maximum fees for entry and exit together, as a share of the trade's value
_MAX_OTHERS = 0.2  #: maximum share of trades whose profits do not match
_HALF = 0.5
_DIRECTIONS = ("1", "-1", "1.0", "-1.0")
_YES = ("true", "1", "1.0", "yes")


def read_closed_trades(table: RoleTable, flows: str = "") -> dict[str, object]:
    """Return two trades per row: an entry and, if the position is closed, an exit. Raises DataError
    if a row lacks the day or price of its entry or exit, or if too many profits do not match the
    sizes of their trades.
    """
    for role, words in _NEEDED.items():
        if not table.has(role):
            raise _lacks(table, role, words)

    table = without_totals(table, _entry_role(table, "date"))
    table = _with_direction(table.where(table.texts(_entry_role(table, "date")) != ""))
    check_unread("closed", table, flows)
    shares, is_long = _sizes(table)
    entry_price = table.positive(_entry_role(table, "price"))
    is_closed = _closed_rows(table)
    rows = pd.DataFrame({"code": table.codes(), "shares": shares.abs()})
    entries = rows.assign(
        moment=table.moments(_entry_role(table, "date")),
        side=np.where(is_long, "buy", "sell"),
        price=entry_price,
    )
    exits = rows.assign(
        moment=table.moments("exit date", may_lack=True),
        side=np.where(is_long, "sell", "buy"),
        price=table.numbers("exit price", may_lack=True),
    )
    check_closed_keys(table, entries, exits)
    entries["fee"], exits["fee"] = _fees(table)
    for side, fills in (("entry", entries), ("exit", exits)):
        if table.has(f"{side} fee rate"):
            fills["fee"] = table.numbers(f"{side} fee rate") * fills["shares"] * fills["price"]
    _check_exits(table, entries, exits, is_closed)
    _check_profits(table, entries, exits, is_closed)
    table.note("Each row is a closed trade: its entry and its exit are read as two trades.")
    still_open = int((~is_closed).sum())
    if still_open:
        table.note(f"Trades that are still open: {still_open}.")

    fills = pd.concat([with_lines(entries, table), with_lines(exits, table)[is_closed]])
    return {
        "trades": ordered_trades(fills.reset_index(drop=True), table.place),
        "cash": initial_cash(table, -_gains(entries, exits), exits["moment"]),
    }


def _gains(entries: pd.DataFrame, exits: pd.DataFrame) -> pd.Series:
    """Return the gain of each trade, [n]; 0 for trades that are still open."""
    signs = np.where(entries["side"] == "buy", 1.0, -1.0)
    fees = entries["fee"].fillna(0.0) + exits["fee"].fillna(0.0)
    gains = signs * entries["shares"] * (exits["price"] - entries["price"]) - fees
    filled: pd.Series = gains.fillna(0.0)
    return filled


def _lacks(table: RoleTable, role: str, words: str) -> DataError:
    other = "exit price" if role == "exit date" else "exit date"
    has = table.column(other) if table.has(other) else "exit"
    option = f"--map {role.replace(' ', '_')}=COLUMN"
    return DataError(
        f"{table.place}: column {has}: a row is a whole trade, but {words} is missing: add a column"
        f" {role.replace(' ', '_')}, or name it: {option}; {table.shown}"
    )


def _entry_role(table: RoleTable, what: str) -> str:
    role = f"entry {what}"
    return role if table.has(role) else what


def _with_direction(table: RoleTable) -> RoleTable:
    """Return the table with its position column used as side column, if all positions are 1 or
    -1.
    """
    if "side" in table.roles or not table.has("position"):
        return table
    if not table.words("position").isin(_DIRECTIONS).all():
        return table
    roles = {role: columns for role, columns in table.roles.items() if role != "position"}
    return replace(table, roles={**roles, "side": table.roles["position"]})


def _sizes(table: RoleTable) -> tuple[pd.Series, pd.Series]:
    """Return the number of shares in each row, and whether the position is long."""
    if table.has("shares"):
        shares = table.numbers("shares")
    elif table.has("entry value"):
        shares = table.positive("entry value") / table.positive(_entry_role(table, "price"))
        table.note(f"Shares are {table.column('entry value')!r} divided by the entry price.")
    else:
        raise table.lacks("shares")

    table.check(shares != 0, table.column("shares" if table.has("shares") else "entry value"), "expected"
                " a number other than zero, was")  # fmt: skip
    if table.has("is short"):
        return shares, ~table.words("is short").isin(_YES)
    is_long = shares > 0
    role = next((each for each in ("side", "effect") if table.has(each)), "")
    if not role:
        return shares, is_long

    words = table.words(role)
    says_long = is_kind(words, "buy", "long")
    says_short = is_kind(words, "sell")
    table.check(says_long | says_short, table.column(role), "expected long or short, was")
    is_wrong = says_long & ~is_long
    table.check(~is_wrong, table.column(role), "the size is below 0, although the side is")
    return shares, says_long


def _closed_rows(table: RoleTable) -> pd.Series:
    has_exit = table.texts("exit date") != ""
    if table.has("status"):
        words = table.words("status")
        is_known = is_kind(words, "live", "done", "undone", "close") | (words == "")
        table.check(is_known, table.column("status"), "expected open or closed, was")
        has_exit &= ~is_kind(words, "live")
    return has_exit


def _fees(table: RoleTable) -> tuple[pd.Series, pd.Series]:
    """Return each row's fees at entry and at exit. If there is only a common fee, half of it is
    assigned to each.
    """
    if "entry fee" in table.roles or "exit fee" in table.roles:
        none = pd.Series(np.nan, index=table.table.cells.index)
        found = []
        for role in ("entry fee", "exit fee"):
            found.append(table.numbers(role, may_lack=True).abs() if role in table.roles else none)
        return found[0], found[1]

    role = "total fee" if table.has("total fee") else "fee"
    if role not in table.roles:
        none = pd.Series(np.nan, index=table.table.cells.index)
        return none, none
    half = table.sum_of(role).abs() * _HALF
    return half, half


def _check_exits(
    table: RoleTable, entries: pd.DataFrame, exits: pd.DataFrame, is_closed: pd.Series
) -> None:
    is_priced = ~is_closed | (exits["price"] > 0)
    table.check(is_priced, table.column("exit price"), "expected a number above zero, was")
    is_later = ~is_closed | (exits["moment"] >= entries["moment"])
    table.check(is_later, table.column("exit date"), "is before the entry:")


def _check_profits(
    table: RoleTable, entries: pd.DataFrame, exits: pd.DataFrame, is_closed: pd.Series
) -> None:
    """Raise DataError if more than a fifth of the profits do not match sizes and prices. In that
    case, contracts have a multiplier, the currency differs, or sides are swapped.
    """
    if "profit" not in table.roles:
        return

    profits = table.numbers("profit", may_lack=True)
    sign = np.where(entries["side"] == "buy", 1.0, -1.0)
    gross = sign * entries["shares"] * (exits["price"] - entries["price"])
    slack = _MAX_GAP * gross.abs() + _FEES * entries["shares"] * entries["price"]
    is_other = is_closed & profits.notna() & ((profits - gross).abs() > slack)
    if is_other.any():
        table.note(
            Doubt(
                f"Profits that do not match shares and prices: {int(is_other.sum())} of {len(table)} "
                "rows."
            )
        )
    if is_other.sum() > _MAX_OTHERS * is_closed.sum():
        row = int(is_other.to_numpy().argmax())
        words = f"{profits.iloc[row]:g}, but the shares and prices give {gross.iloc[row]:g}"
        table.refuse(row, table.column("profit"), f"{words}: {OTHER_SIZES}")
