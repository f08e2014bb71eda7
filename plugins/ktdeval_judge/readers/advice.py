"""Advice on columns that are missing. Each column that is named was tried: its cells fit."""

from __future__ import annotations

import re
from collections.abc import Collection

import pandas as pd

from ktdeval_tables.cell_tables import CellTable
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.numbers import parse_figures
from ktdeval_tables.row_keys import describes_row, quoted, words_in

_CODE = re.compile(r"(?=.*[A-Z0-9])[A-Z0-9][A-Z0-9._:/=^-]{0,19}")
_PLAIN = re.compile(r"[0-9.]{1,5}|[0-9]{7,}")
_MONTHS = frozenset(
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
)
_YEAR = r"(?:19|20)[0-9]{2}"
_MOST_MONTHS = 6  # number of month columns from which a table is one of years and months
_HEAD = 1000
_MOST_WORDS = {"buy", "sell", "long", "short", "hold", "true", "false"}


def code_columns(table: CellTable) -> list[str]:
    """Return the columns whose cells look like codes of assets."""
    found = []
    for column in table.header:
        cells = table.cells[column].head(_HEAD)
        filled = cells[cells != ""]
        if filled.empty or len(filled) < len(cells) or not _may_have_codes(column):
            continue
        if all(_CODE.fullmatch(cell) and not _PLAIN.fullmatch(cell) for cell in filled):
            is_word = set(filled.str.lower()) & _MOST_WORDS
            is_day = looks_like_day(filled.iloc[0], stamps=True)
            numbers, bad = parse_figures(filled)
            are_numbers = not bad.any() and numbers.notna().all() and len(filled.iloc[0]) != 6
            if not is_word and not is_day and not are_numbers:
                found.append(column)
    return found


def _may_have_codes(column: str) -> bool:
    """Return whether a column can have codes by its name."""
    return bool(column) and not describes_row(column) and "currency" not in words_in(column)


def day_columns(table: CellTable) -> list[str]:
    """Return the columns whose cells look like days or timestamps."""
    found = []
    for column in table.header:
        cells = table.cells[column].head(_HEAD)
        filled = cells[cells != ""]
        if len(filled) and all(looks_like_day(cell, stamps=True) for cell in filled.head(50)):
            found.append(column)
    return found


def without_codes(table: CellTable) -> str:
    """Return advice for a table without a known column of codes."""
    columns = code_columns(table)
    if len(columns) == 1:
        return f"its codes look like those in {columns[0]!r}: --map {quoted(f'code={columns[0]}')}"
    if columns:
        named = ", ".join(map(repr, columns[:5]))
        return f"choose its column of codes among {named}: --map code=COLUMN"
    return "write one row per day and code, or give the file's asset: --code CODE"


def without_days(table: CellTable, role: str, *, has_exit: bool) -> str:
    """Return advice for a table without a known column of days. `has_exit`: whether rows have the
    price of an exit.
    """
    months = [name for name in table.header if name[:3].lower() in _MONTHS]
    years = [name for name in table.header if table.cells[name].str.fullmatch(_YEAR).all()]
    if len(months) >= _MOST_MONTHS and years:
        return (
            f"a table of years and months ({years[0]!r}, {months[0]!r} …): write one row a month, "
            "as month,return: 2022-01,-1.2%"
        )
    columns = day_columns(table)
    if has_exit and len(columns) == 2:
        pair = f"entry_date={columns[0]},exit_date={columns[1]}"
        return f"if these are the days of entry and exit: --map {quoted(pair)}"
    if len(columns) == 1:
        return f"its days look like those in {columns[0]!r}: --map {quoted(f'{role}={columns[0]}')}"
    if columns:
        named = ", ".join(map(repr, columns[:5]))
        return f"choose among {named}: --map {role}=COLUMN"
    return "no column contains days: save the table with its index of days, or add them"


def without_form(table: CellTable, taken: Collection[str]) -> str:
    """Return advice for a table of days, without columns of codes, for the columns that have no
    known role. `taken`: the others.
    """
    options = []
    for column in table.header:
        if column in taken:
            continue
        numbers, bad = parse_figures(table.cells[column], table.decimal)
        if bad.any() or not numbers.notna().any():
            continue
        role = _role_of(numbers.dropna())
        if role:
            options.append(f"--map {quoted(f'{role}={column}')}")
    if not options:
        return ""
    return f"if one account has these values: {' or '.join(options[:4])}"


def without_sizes(table: CellTable, taken: Collection[str]) -> str:
    """Return advice for a table whose rows buy and sell, but have no known column of sizes. `taken`:
    columns that have a role.
    """
    options = []
    for column in table.header:
        numbers, bad = parse_figures(table.cells[column], table.decimal)
        # an empty cell is not above zero
        if column not in taken and not bad.any() and (numbers > 0).all():
            options.append(f"--map {quoted(f'shares={column}')}")
    if not options:
        return "rows buy and sell, but no column has their sizes: add a column shares"
    return f"rows buy and sell; name the column of their sizes: {' or '.join(options[:4])}"


def _role_of(numbers: pd.Series) -> str:
    """Return the role that a column of numbers can have, by their signs and sizes."""
    if (numbers > 1).all():
        return "nav"
    if (numbers.abs() < 1).all() and (numbers < 0).any():
        return "return"
    if (numbers < 0).any():
        return "profit"
    return ""
