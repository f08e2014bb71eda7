"""Rows of totals in a table of positions: they are the account's value. Columns that could have the
same role as one that is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.options import ReadOptions
from ktdeval_judge.readers.role_table import RoleTable
from ktdeval_judge.readers.roles import assign_roles, resolve_given
from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.row_keys import quoted
from ktdeval_tables.row_meanings import TotalRows, total_rows, twin_columns

POSITIONS = "positions"  #: name of the table of positions next to rows of totals
_ROWS = "rows "  # prefix of the name of a table that consists of rows of totals
_TWINS = frozenset(
    {"weight", "position", "shares", "price", "filled shares", "filled price", "nav", "return",
     "return fraction", "return percent", "entry price", "exit price", "cash"}
)  # fmt: skip


def with_totals_apart(tables: Sequence[CellTable], options: ReadOptions) -> list[CellTable]:
    """Return tables in which rows of totals are a table of their own, named after these rows. For
    `--nav`, only these rows are returned.
    """
    apart: list[CellTable] = []
    for table in tables:
        totals = _totals_of(table, options)
        if totals is None:
            apart.append(table)
            continue
        values = _values_of(table, totals, options)
        apart.append(values)
        if not options.is_nav:
            columns = [name for name in table.header if name not in totals.columns]
            apart.append(_rows(table, ~totals.is_total, columns, POSITIONS))
    return apart


def name_twins(table: RoleTable) -> None:
    """Add a note on each unread column that could have the role of a column that is read."""
    roles = {role: columns for role, columns in table.roles.items() if role in _TWINS}
    twins = twin_columns(table.table, table.roles)
    for column, (role, other) in twins.items():
        if role in roles:
            option = "--map " + quoted(f"{role.replace(' ', '_')}={column}")
            table.note(f"Read as {role}: {other!r}. Not read: {column!r}; to read it, {option}.")


def note_total_rows(table: RoleTable) -> None:
    """Add a note to a table that consists of rows of totals."""
    if table.table.name.startswith(_ROWS):
        name = table.table.name.removeprefix(_ROWS)
        table.note(f"Rows {name!r} are read as the account's value, not as a position.")


def _totals_of(table: CellTable, options: ReadOptions) -> TotalRows | None:
    try:
        given = resolve_given(table, options.roles)
        roles = assign_roles(table, {"nav": "-", **given})
    except DataError:
        return None
    if "code" not in roles or "date" not in roles:
        return None
    return total_rows(table, roles["code"][0], roles["date"][0])


def _values_of(table: CellTable, totals: TotalRows, options: ReadOptions) -> CellTable:
    """Return the account values in rows of totals: the day and the columns that only they fill."""
    given = resolve_given(table, options.roles)
    day = assign_roles(table, {"nav": "-", **given})["date"][0]
    columns = [day, *totals.columns]
    if given.get("nav") in table.header:
        columns = [day, given["nav"]]
    return _rows(table, totals.is_total, columns, f"{_ROWS}{totals.name}")


def _rows(table: CellTable, is_kept: pd.Series, columns: Sequence[str], name: str) -> CellTable:
    cells = table.cells.loc[is_kept, list(dict.fromkeys(columns))].reset_index(drop=True)
    lines = table.lines[table.cells.index[is_kept].to_numpy()]
    return replace(table, cells=cells, lines=lines, name=name)
