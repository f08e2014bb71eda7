"""Programs whose files can be identified by their columns, as defined in `programs.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec import field

from ktdeval.cards import count
from ktdeval.errors import DataError, UsageError
from ktdeval.values import Value, convert_value, load_yaml, near_matches
from ktdeval_judge.readers.role_table import RoleTable
from ktdeval_judge.readers.roles import near_name, role_names
from ktdeval_tables.cell_tables import CellTable

PLAIN = "plain"  #: name used for files of unknown programs
_INDEX_NAMES = ("", "index", "date", "datetime", "day", "timestamp")


class ProgramTable(Value):
    """A table that a program writes, as defined in `programs.yaml`."""

    form: str = ""
    columns: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  #: columns that are required for reading; if empty, `columns`
    any: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    name: str = ""
    only: bool = False
    first: bool = False
    last: str = ""
    min_columns: int = 0
    roles: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)
    others: str = ""
    level: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decided: str = ""
    cash: str = ""
    start: tuple[str, ...] = ()
    signed_fees: bool = False
    checked_side: str = ""
    cancelled: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    notes: tuple[str, ...] = ()

    def is_of(self, table: CellTable) -> bool:
        """Return whether a table's columns identify it as this table."""
        has_sign = self.columns or self.name or self.first
        names = set(map(near_name, table.header))
        if not has_sign or not names.issuperset(map(near_name, self.columns)):
            return False
        if self.name and table.name.casefold() != self.name:
            return False
        if self.any and names.isdisjoint(map(near_name, self.any)):
            return False
        if self.only and len(table.header) != len(self.columns) + self.first:
            return False
        return self._has_places(table, names)

    def _has_places(self, table: CellTable, names: set[str]) -> bool:
        """Return whether columns are at their expected positions, and no column belongs to another
        program.
        """
        if not names.isdisjoint(map(near_name, self.without)):
            return False
        if self.form == "values" and not names.isdisjoint(_flow_names()):
            return False  # account values with deposits come from another program
        for start in self.starts:
            if not any(column.startswith(start) for column in table.header):
                return False
        header = table.header or ("?",)
        if self.first and header[0].lower() not in ("", "index", "__index_level_0__"):
            return False
        return len(header) >= self.min_columns and self.last in ("", header[-1])


class Program(Value):
    """A program, as defined in `programs.yaml`."""

    tables: tuple[ProgramTable, ...]
    form: str = ""  #: form of all tables together
    date_format: str = ""
    zone: str = ""
    written_in: str = ""
    own_zone: bool = False
    is_label: bool = True
    ends: bool = False
    notes: tuple[str, ...] = ()

    def match_table(self, table: CellTable) -> ProgramTable | None:
        """Return the program's table that has these columns, or None."""
        return next((each for each in self.tables if each.is_of(table)), None)

    def broken_table_of(self, table: CellTable) -> ProgramTable | None:
        """Return the program's table of fills that this table resembles even though columns are
        missing, or None.
        """
        names = set(map(near_name, table.header))
        for each in self.tables:
            if each.form == "fills" and not names.isdisjoint(map(near_name, each.marks)):
                return each
        return None

    def nearest_table(self, table: CellTable) -> ProgramTable:
        """Return the program's table that this table resembles most."""
        names = set(map(near_name, table.header))
        for each in self.tables:
            if not each.only and not names.isdisjoint(map(near_name, each.marks)):
                return each
        return self.tables[-1]


@cache
def programs() -> Mapping[str, Program]:
    """Return the programs by name."""
    path = Path(__file__).with_name("programs.yaml")
    written: Any = load_yaml(path)
    return {name: convert_value(program, Program) for name, program in written.items()}


@cache
def _flow_names() -> frozenset[str]:
    return frozenset(name for name, _ in role_names()["flow"])


def check_program(name: str) -> None:
    """Raise UsageError if the program is not known."""
    known = [*programs(), PLAIN]
    if name not in known:
        hint = near_matches(name[:40], known) or f"; there are {', '.join(known)}"
        raise UsageError(f"--from: no reader {name[:40]!r}{hint}")


def programs_of(tables: Sequence[CellTable]) -> list[str]:
    """Return the names of the programs that may have written one of the tables, according to the
    columns.
    """
    found = []
    for name, program in programs().items():
        if any(program.match_table(table) is not None for table in tables):
            found.append(name)
    return found


def needed_columns(entry: ProgramTable, table: RoleTable) -> dict[str, str]:
    """Return near name -> column for all columns of a program's table. Raises DataError if a
    required column is missing.
    """
    columns = {near_name(column): column for column in reversed(table.table.header)}
    for name in entry.needs or entry.columns:
        if near_name(name) not in columns:
            raise DataError(
                f"{table.place}: lacks the column {name}; include it in the export; {table.shown}"
            )
    return columns


def kept_rows(entry: ProgramTable, table: RoleTable, columns: Mapping[str, str]) -> RoleTable:
    """Return a table with only the rows that are used."""
    for name, values in entry.level.items():
        column = columns.get(near_name(name))
        if column is not None:
            cells = table.table.cells[column]
            chosen = next((value for value in values if (cells == value).any()), None)
            table = table.where(cells == chosen)

    total = len(table)
    for name, kept in entry.keep.items():
        column = columns.get(near_name(name))
        if column is not None:
            cells = table.table.cells[column]
            table = table.where(_is_kept(cells, kept))

    if len(table) < total:
        table.note(f"Left out: {total - len(table)} {entry.others}.")
    return table


def _is_kept(cells: pd.Series, kept: tuple[str, ...] | str) -> pd.Series:
    if isinstance(kept, str):
        return cells.str.fullmatch(kept, case=False)
    return cells.str.lower().isin([value.lower() for value in kept])


def with_parts(entry: ProgramTable, table: RoleTable, columns: Mapping[str, str]) -> RoleTable:
    """Return a table in which each part of a cell that has a role is a separate column, with these
    roles.
    """
    cells = table.table.cells
    roles = {}
    for name, pattern in entry.parts.items():
        column = columns[near_name(name)]
        whole = re.compile(f"^(?:{pattern})$", re.IGNORECASE)
        parts = cells[column].str.extract(whole).fillna("")
        for role in whole.groupindex:
            title = f"{role} in {column}"
            cells = cells.assign(**{title: parts[role]})
            roles[role] = (title,)
    return replace(table, table=replace(table.table, cells=cells), roles=roles)


def without_cancelled(entry: ProgramTable, table: RoleTable) -> RoleTable:
    """Return a table without cancelled trades and without the rows that cancel them. Raises
    DataError if a cancelled trade is not in the file, or if no trade is left.
    """
    side = column_named(table.table, entry.checked_side)
    if not entry.cancelled or side is None:
        return table

    texts = table.table.cells[side]
    is_cancelling = texts.str.fullmatch(entry.cancelled)
    if not is_cancelling.any():
        return table

    trades = pd.DataFrame(
        {
            "code": table.codes(),
            "day": table.texts("date"),
            "shares": table.numbers("shares").abs(),
            "price": table.numbers("price"),
            "side": texts.str.partition(" ")[0],
        }
    )
    keys = list(trades)
    trades["place"] = trades.assign(kind=is_cancelling).groupby([*keys, "kind"]).cumcount()
    is_paired = trades.duplicated([*keys, "place"], keep=False)
    is_alone = is_cancelling & ~is_paired
    if is_alone.any():
        words = "cancels a trade that is not in the file; also export the period of that trade"
        table.refuse(int(is_alone.to_numpy().argmax()), side, words)
    if is_paired.all():
        raise DataError(f"{table.place}: each trade was cancelled; export a period with others")
    table.note(f"Left out, as cancelled later: {count(int(is_cancelling.sum()), 'trade')}.")
    return table.where(~is_paired)


def column_named(table: CellTable, name: str) -> str | None:
    """Return the column with the same near name, or None if no column has it or the name is
    empty.
    """
    wanted = near_name(name)
    found = (column for column in table.header if wanted and near_name(column) == wanted)
    return next(found, None)


def index_column(table: CellTable) -> str | None:
    """Return the column that contains the days, which is recognised by its name, or None."""
    return next((column for column in table.header if column.strip().lower() in _INDEX_NAMES), None)
