"""Refuse rows of several accounts, runs or strategies that would be judged as one.

The check is `ktdeval_tables.row_keys`; here are the rows that one account can't have together, for
each form.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ktdeval_judge.readers.role_table import RoleTable, days_of
from ktdeval_tables.row_keys import (
    Conflicts,
    KeyedRows,
    candidates,
    check_keys,
    overlaps,
    path_lengths,
    repeats,
)

# roles whose columns can divide values of accounts, although trades read them in another way
_MIN_VALUES = 10
_WITHIN_DAYS = 0.5  # share of values on days with several values, from which their path is compared
_OF_VALUES = frozenset({"currency", "code", "side", "status", "position"})


def check_trade_keys(table: RoleTable, fills: pd.DataFrame) -> None:
    """Raise DataError if a column divides trades into accounts. `fills` has the columns moment,
    code and side, one row for each row of the table.
    """
    conflicts = repeats(fills[["moment", "code", "side"]])
    _check(table, fills["moment"], fills["code"], conflicts, is_complete=False)


def check_closed_keys(table: RoleTable, entries: pd.DataFrame, exits: pd.DataFrame) -> None:
    """Raise DataError if a column divides closed trades into accounts. Both frames have the columns
    moment and code, one row for each row of the table.
    """
    conflicts = overlaps(entries["code"], entries["moment"], exits["moment"])
    _check(table, entries["moment"], entries["code"], conflicts, is_complete=False)


def check_target_keys(table: RoleTable, targets: pd.DataFrame) -> None:
    """Raise DataError if a column divides targets or orders into accounts. `targets` has the
    columns day and code, one row for each row of the table.
    """
    conflicts = repeats(targets[["day", "code"]])
    _check(table, targets["day"], targets["code"], conflicts, is_complete=True)


def check_value_keys(table: RoleTable, moments: pd.Series, values: pd.Series) -> None:
    """Raise DataError if a column divides account values or returns into accounts, [n] each."""
    check_moment_keys(table, moments)
    days = days_of(moments)
    if len(days) >= _MIN_VALUES and days.duplicated(keep=False).mean() >= _WITHIN_DAYS:
        _check(table, days, None, path_lengths(moments, values), is_complete=True)


def check_moment_keys(table: RoleTable, moments: pd.Series) -> None:
    """Raise DataError if a column divides rows with the same moment, [n], into accounts."""
    conflicts = repeats(moments.to_frame("moment"))
    _check(table, days_of(moments), None, conflicts, is_complete=True)


def _check(
    table: RoleTable,
    moments: pd.Series,
    codes: pd.Series | None,
    conflicts: Conflicts,
    *,
    is_complete: bool,
) -> None:
    cells = candidates(table.table.cells, _taken(table.roles, of_values=codes is None))
    rows = KeyedRows(cells, moments, conflicts, codes, is_complete)
    check_keys(table.place, rows, table.decided, by=True)


def _taken(roles: Mapping[str, tuple[str, ...]], *, of_values: bool) -> list[str]:
    """Return the columns that are read under a role of the form."""
    taken: list[str] = []
    for role, columns in roles.items():
        if not (of_values and role in _OF_VALUES):
            taken += columns
    return taken
