"""Rows that the user chooses with `--keep COLUMN=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.row_keys import ALL_ROWS

_SHOWN = 8  # maximum number of values that a message names
FileTables = list[tuple[Path, list[CellTable]]]


def kept_files(path: Path, files: FileTables, keep: Mapping[str, str]) -> FileTables:
    """Return the tables with only the rows that have a value in a column. Tables without the column
    are unchanged, and tables without such a row are left out. Raises DataError if no row of any
    table has the value.
    """
    for column, value in keep.items():
        if value != ALL_ROWS:
            files = _kept_by(path, files, column, value)
    return files


def column_values(files: FileTables, column: str) -> tuple[str, ...]:
    """Return the values of a column in all tables, in the order of the files."""
    values: dict[str, None] = {}
    for _, tables in files:
        for table in tables:
            if column in table.header:
                values.update(dict.fromkeys(map(str, table.cells[column].unique())))
    return tuple(value for value in values if value)


def _kept_by(path: Path, files: FileTables, column: str, value: str) -> FileTables:
    known = column_values(files, column)
    if known and value not in known:
        shown = ", ".join(known[:_SHOWN])
        raise DataError(f"{path}: no row has {value!r} in column {column!r}; it has {shown}")

    kept: FileTables = []
    for file, tables in files:
        chosen = [_rows_with(table, column, value) for table in tables]
        with_rows = [table for table in chosen if table is not None]
        if with_rows:
            kept.append((file, with_rows))
    return kept


def _rows_with(table: CellTable, column: str, value: str) -> CellTable | None:
    """Return the rows of a table that have a value in a column, or None if no row has it."""
    if column not in table.header:
        return table
    is_kept = table.cells[column] == value
    if not is_kept.any():
        return None
    cells = table.cells[is_kept].reset_index(drop=True)
    return replace(table, cells=cells, lines=table.lines[is_kept.to_numpy()])


def named_tables(file: Path, tables: Sequence[CellTable], name: str) -> list[CellTable]:
    """Return the table with this name. Raises DataError if no table has it."""
    for table in tables:
        if table.name == name:
            return [table]
    shown = ", ".join(table.name for table in tables)[:400]
    raise DataError(f"{file}: has no table {name!r}; its tables: {shown}")
