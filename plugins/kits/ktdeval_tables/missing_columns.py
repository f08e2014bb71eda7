"""Messages about fields without a column. All advice is tested on the first rows of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import EntityKind, parse_code
from ktdeval_tables.codes import listed_in
from ktdeval_tables.days import looks_like_day
from ktdeval_tables.headerless_bars import is_count
from ktdeval_tables.names import NOT_READ, columns_beside, squeeze_name
from ktdeval_tables.numbers import NUMBER, decimal_mark, to_numbers
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.split_ratios import ratio_of

_MELT_MEMBERS = "frame.melt('date', var_name='code', value_name='in').query('`in` > 0')"
_SYMBOL = re.compile(r"[A-Z0-9][A-Z0-9._/-]{0,23}")
_DAYS = ("date", "in_date", "out_date", "time", "list_date")
_TEXTS = ("name", "industry", "venue", "kind", "currency", "code_then", "index_code", "text")
_ENTITY_KINDS = frozenset(get_args(EntityKind))
_CODES = ("code", "code_then", "index_code")


@dataclass(frozen=True)
class FileHeader:
    """Columns of a file, and what is known about them."""

    file: Path
    names: Sequence[str]
    cells: Mapping[str, Sequence[str]]  #: first cells by column; empty if unknown
    taken: Mapping[str, str]  #: field -> column, for fields that have a column
    line: int = 0  #: line of the column names if it is not the first line; otherwise 0


def no_columns(
    header: FileHeader,
    fields: Sequence[str],
    tried: Mapping[str, Sequence[str]],
    reading: ReadingOptions,
) -> str:
    """Return one message about all fields without a column. `date|in_date` means either field.
    `tried`: field -> its other names.
    """
    shape = _other_shape(header, reading)
    if shape:
        return f"{header.file}: {shape}"

    where = f" in its header, line {header.line}" if header.line > 1 else ""
    words = "no column for" if len(fields) == 1 else "no columns for"
    named = [" or ".join(map(repr, field.split("|"))) for field in fields]
    names = [", ".join(_field_names(field, tried)) for field in fields]
    found = f"{header.file}: {words} {' and '.join(named)}{where} (tried {'; '.join(names)})"
    return f"{found}; {_advice(header, fields, reading)}"


def _field_names(field: str, tried: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a field or, for alternatives such as `date|in_date`, of each of them."""
    names = []
    for each in field.split("|"):
        names += [each, *tried.get(each, ())]
    return names


def _other_shape(header: FileHeader, reading: ReadingOptions) -> str:
    """Return what a membership file with one column per asset looks like, and how to convert it to
    one row per asset; empty for files in other formats.
    """
    if reading.file != "members":
        return ""

    day = header.taken.get("date", "date")
    others = [name for name in header.names if name != day]
    if sum(parse_code(name) is not None for name in others) <= len(others) // 2:
        return ""

    found = f"its columns are codes ({', '.join(others[:3])} …): a table of one field"
    melt = _MELT_MEMBERS.replace("'date'", repr(day))
    return f"{found}; make it one with a row for each day and code, in pandas: {melt}"


def _advice(header: FileHeader, fields: Sequence[str], reading: ReadingOptions) -> str:
    """Return the columns whose cells fit the fields, and the option that maps them."""
    mapped: dict[str, str] = {}
    unclear: dict[str, None] = {}
    lacking = []
    for field in fields:
        first = field.split("|")[0]
        fitting = [
            name for name in _free(header) if _is_possible_column(first, header, name, reading)
        ]
        fitting = [name for name in fitting if name not in mapped.values()]
        if not fitting:
            lacking.append(first)
            continue

        is_clear = len(fitting) == 1 and bool(header.cells)
        mapped[first] = fitting[0] if is_clear else "COLUMN"
        if not is_clear:
            unclear.update(dict.fromkeys(fitting))

    parts = []
    if mapped:
        choice = f"map one of {', '.join(unclear)}" if unclear else "name it"
        parts.append(f"{choice}: {reading.name_mapping_option(mapped)}")
    if lacking:
        parts.append(_of_lacking(header, lacking, reading))

    return "; ".join(parts)


def _of_lacking(header: FileHeader, fields: Sequence[str], reading: ReadingOptions) -> str:
    """Return advice on fields that no column fits."""
    shown = ", ".join(header.names)
    advice = f"none of its columns ({shown}) holds {' or '.join(map(_what, fields))}"
    if "code" in fields and not reading.file and _is_of_one_asset(header):
        return f"{advice}; if the file is of one asset, name it: --code CODE"
    return f"{advice}; add {'it' if len(fields) == 1 else 'them'} to the file"


def _what(field: str) -> str:
    if field in _CODES:
        return "codes"
    if field in _DAYS:
        return "days"
    return f"{field}s"


def _is_of_one_asset(header: FileHeader) -> bool:
    """Return whether no day appears twice in the first rows, so that they can all belong to one
    asset.
    """
    days = header.cells.get(header.taken.get("date", ""), ())
    return len(set(days)) == len(days)


def _free(header: FileHeader) -> list[str]:
    """Return the columns that belong to no field yet and may be a price, a volume or an amount."""
    free = [name for name in header.names if name not in header.taken.values()]
    return [name for name in free if not _is_another_figure(name)]


def _is_another_figure(name: str) -> bool:
    """Return whether a column name, such as that of a rate, is known to mean neither price, volume
    nor amount.
    """
    row = columns_beside().get(squeeze_name(name), {"role": "", "meaning": ""})
    return row["role"] == NOT_READ and not re.search("price|close|volume|amount", row["meaning"])


def _is_possible_column(field: str, header: FileHeader, name: str, reading: ReadingOptions) -> bool:
    """Return whether a column may belong to a field, judging by its first cells. True if they are
    unknown.
    """
    if not header.cells:
        return True

    cells = header.cells.get(name, ())
    if field in _DAYS:
        return bool(cells) and all(looks_like_day(cell, stamps=True) for cell in cells)
    if field in _CODES:
        return bool(cells) and all(map(_is_code, cells))
    if field == "kind" and reading.file == "entities":
        return bool(cells) and {cell.strip().lower() for cell in cells} <= _ENTITY_KINDS
    if field in _TEXTS:
        return bool(cells) and not any(map(NUMBER.fullmatch, cells))
    if field in ("ratio", "split_to"):
        return bool(cells) and all(ratio_of(cell) >= 0 for cell in cells)

    are_numbers = bool(cells) and all(map(NUMBER.fullmatch, cells)) and not _are_days(cells)
    if field in ("volume", "amount"):
        return are_numbers and may_be_count(cells)
    return are_numbers


def may_be_count(cells: Sequence[str]) -> bool:
    """Return whether a column's cells may be volumes or amounts."""
    if not all(map(NUMBER.fullmatch, cells)):
        return False
    try:
        numbers = to_numbers(pd.Series(cells, dtype=str), "", decimal_mark(cells))
    except DataError:  # such as 0,10%
        return False
    return is_count(numbers.tolist())


def _are_days(cells: Sequence[str]) -> bool:
    return all(looks_like_day(cell) for cell in cells)


def _is_code(cell: str) -> bool:
    """Return whether a cell is a code, or a list of codes."""
    for text in listed_in(cell):
        has_letter = any(letter.isalpha() for letter in text)
        is_symbol = has_letter and bool(_SYMBOL.fullmatch(text)) and not looks_like_day(text)
        if parse_code(text) is None and not is_symbol:
            return False

    return True
