"""Rows that are not trades, values or targets: they are left out, counted and listed by kind."""

from __future__ import annotations

import pandas as pd

from ktdeval.cards import count
from ktdeval_judge.readers.role_table import RoleTable
from ktdeval_judge.readers.roles import is_kind
from ktdeval_tables.numbers import MISSING, parse_figures
from ktdeval_tables.row_meanings import kinds_of_rows

_MOST = 0.5  # largest share of the rows that are left out because they have no size
_DIGIT = "[0-9]"


def rows_of_trades(table: RoleTable, size: str, price: str = "") -> RoleTable:
    """Return the rows that can be trades. Rows that lack a size or a price and do not say that
    they buy or sell are deposits, dividends, fees or totals; rows that say so but have no size
    traded nothing. `price`: role of the price; empty for orders.
    """
    no_size = _lacks(table, size)
    no_price = no_size.copy()
    if price:
        no_price = _lacks(table, price)
    if "side" not in table.roles and "is buy" not in table.roles:
        return _without(table, no_size & (no_price | _lacks(table, "code")), "shares")

    if "side" in table.roles:
        words = table.words("side")
        says_trade = is_kind(words, "buy", "sell", "long")
        says_nothing = is_kind(words, "hold") | (words == "")
        is_other = ~says_trade & ~says_nothing
        table = _without(
            table,
            (~says_trade & no_size & no_price)
            | (is_other & (no_size | no_price | _is_cash(table)))
            | (is_other & (_is_zero(table, size) | _is_zero(table, price)))
            | (says_nothing & no_size),
            "shares and price" if price else "a size",
        )

    no_size = _lacks(table, size)
    if no_size.mean() < _MOST:
        table = _without(table, no_size, "a size")
    return table


def without_totals(table: RoleTable, role: str = "date") -> RoleTable:
    """Return a table without the last rows whose day is a word, such as `Total`."""
    if role not in table.roles:
        return table
    cells = table.texts(role)
    is_word = (cells != "") & ~cells.str.contains(_DIGIT, regex=True)
    is_last = is_word[::-1].cummin()[::-1]
    if is_last.all() or not is_last.any():
        return table
    return _without(table, is_last, "a day", table.column(role))


def _lacks(table: RoleTable, role: str) -> pd.Series:
    if role not in table.roles:
        return pd.Series(False, index=table.table.cells.index)
    return table.texts(role).isin(MISSING)


def _is_zero(table: RoleTable, role: str) -> pd.Series:
    if role not in table.roles:
        return pd.Series(False, index=table.table.cells.index)
    numbers, _ = parse_figures(table.texts(role), table.table.decimal)
    return numbers == 0


def _is_cash(table: RoleTable) -> pd.Series:
    """Return whether the code of each row denotes cash."""
    if "code" not in table.roles:
        return pd.Series(False, index=table.table.cells.index)
    return is_kind(table.words("code"), "cash")


def _without(table: RoleTable, is_other: pd.Series, what: str, column: str = "") -> RoleTable:
    """Return a table without some rows, with a note on them. If all rows are like that, return the
    table unchanged. `what`: what these rows lack. `column`: column with their kinds.
    """
    if not is_other.any() or is_other.all():
        return table
    if not column and "side" in table.roles:
        column = table.column("side")
    shown = kinds_of_rows(table.table.cells[column][is_other]) if column else ""
    named = f": {shown}" if shown else ""
    table.note(f"Left out: {count(int(is_other.sum()), 'row')} without {what}{named}.")
    return table.where(~is_other)
