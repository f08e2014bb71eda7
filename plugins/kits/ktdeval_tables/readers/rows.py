"""Rows of a table by field name, each with its line number, from CSV, JSON and Parquet.

The same rules apply to every table that is read strictly. Text is UTF-8 (or UTF-16 with a byte
order mark), each column is known and occurs once, each row has all its cells, no cell is longer
than `LONGEST_LINE`, and nothing is executed. Any violation is a `TableFault` with its location.
"""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from ktdeval.errors import DataError
from ktdeval.values import (
    MAX_LEVELS,
    JsonValue,
    is_nested_within,
    loads_data,
    near_matches,
    open_parquet,
    open_unpacked,
    refuse_half_pairs,
    reject_constant,
    unique_fields,
)
from ktdeval_tables.readers.file_kinds import Kind, table_kind
from ktdeval_tables.readers.text_encoding import (
    HAS_NUL,
    LONGEST_LINE,
    UTF8,
    UnreadableError,
    cell_count,
    marked_encoding,
    too_long,
)

LARGEST_JSON = 256 << 20  #: maximum number of characters in a JSON list, which is read as a whole
MAX_FIELDS_SHOWN = 12
NO_HEADER = "is empty; write the names of its columns into the first line"
BATCH = 10_000  #: number of rows decoded at a time
_MAX_SHAPES = 1_000
_KIND_WORDS: Mapping[Kind, str] = {
    "csv": "text",
    "lines": "JSON objects in lines",
    "json": "a JSON list",
    "parquet": "a Parquet file",
    "workbook": "a workbook: save it as .csv",
}


_SUFFIX_OF: Mapping[Kind, str] = {
    "csv": ".csv",
    "lines": ".jsonl",
    "json": ".json",
    "parquet": ".parquet",
    "workbook": ".xlsx",
}


class WrittenNumber(str):
    """A number in JSON or Parquet, exactly as written in the file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table."""

    line: int  #: line number in the file, from 1; the row number if the file format has no lines
    #: cells by field: strings for CSV, otherwise JSON or Parquet values without nulls
    cells: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableFault:
    """A fault in a table."""

    line: int  #: line number as in `TableRow`; 0: the whole file
    words: str  #: the problem, and how to fix it
    in_rows: bool = True  #: whether the fault is in a row, and not in the header


Report = Callable[[TableFault], None]
"""Called with each fault; an exception ends the reading."""


@dataclass(frozen=True)
class TableShape:
    """Columns that a table must and may have."""

    fields: tuple[str, ...]  #: all fields of the table
    required: tuple[str, ...] = ()  #: fields that each row must have
    renamed: Mapping[str, str] = field(
        default_factory=dict
    )  #: column -> field, as given by the user
    aliases: Mapping[str, str] = field(default_factory=dict)  #: lower-case column -> field
    ignored: Collection[str] = ()  #: columns to ignore; `*` for all unknown columns
    advice: str = "leave it out"  #: advice for an unknown column
    kinds: tuple[Kind, ...] = ("csv", "lines", "json", "parquet")  #: file formats that can be read
    #: whether numbers in JSON and Parquet are kept as written (`WrittenNumber`)
    exact: bool = False
    #: whether a last line without a newline means that the file is truncated
    must_end: bool = False

    def field_of(self, column: str) -> str:
        """Return the field for a column; empty if the column is ignored or unknown."""
        if column in self.renamed:
            return self.renamed[column]

        plain = column.strip().lower()
        for name in (column, plain, self.aliases.get(plain, "")):
            if name in self.fields:
                return "" if name in self.renamed.values() else name

        return ""

    def column_problems(self, columns: Sequence[str], *, all_there: bool = True) -> list[str]:
        """Return the problem with the columns of a file. `all_there` means that `columns` is the
        full list, so that a missing required column is a problem.
        """
        fields = [self.field_of(column) for column in columns]
        problems: list[str] = []
        for name in self.required:
            if all_there and name not in fields:
                problems.append(f"lacks the column {name}; {_columns_in_words(columns)}")

        for column, name in zip(columns, fields, strict=True):
            is_ignored = column in self.ignored or "*" in self.ignored
            if not name and not is_ignored:
                problems.append(self._unknown(column))

        for name in dict.fromkeys(filter(None, fields)):
            own = [column for column, other in zip(columns, fields, strict=True) if other == name]
            if len(set(own)) > 1:
                problems.append(f"columns {_quote_names(own)} are all {name}; keep one")
            elif len(own) > 1:
                problems.append(f"column {own[0]!r} appears twice; keep one")

        return problems

    def _unknown(self, column: str) -> str:
        known = near_matches(column, self.fields)
        if not known and len(self.fields) <= MAX_FIELDS_SHOWN:
            known = f"; fields: {', '.join(self.fields)}"
        return f"column {column[:40]!r} is not a field: {self.advice}{known}"


@dataclass(frozen=True)
class TableFile:
    """A file, with the columns that it must and may have."""

    path: Path
    shape: TableShape
    name: str = ""  #: name of the file in messages; empty: the path

    def refuse(self, fault: TableFault) -> None:
        """Raise DataError for a fault, with file and line."""
        place = self.name or str(self.path)
        if fault.line:
            place = self.place(fault.line)
        raise DataError(f"{place}: {fault.words}")

    @cached_property
    def kind(self) -> Kind:
        """Format of the file. Raises UnreadableError if the table does not allow this format.
        Otherwise raises as `table_kind` does.
        """
        kind = table_kind(self.path)
        if kind not in self.shape.kinds:
            expected = ", ".join(_SUFFIX_OF[each] for each in self.shape.kinds)
            raise UnreadableError(
                f"by its first bytes it is {_KIND_WORDS[kind]}; expected {expected}"
            )
        return kind

    def place(self, line: int) -> str:
        """Return a description of a row's location."""
        unit = "line" if self.kind in ("csv", "lines") else "row"
        return f"{self.name or self.path}: {unit} {line}"


def read_rows(table: TableFile, report: Report | None = None) -> Iterator[TableRow]:
    """Yield the rows of a table. Faults are passed to `report`; without `report`, the first fault
    raises DataError.
    """
    report = report or table.refuse
    with file_faults(table, report):
        yield from _READERS[table.kind](table, report)


@contextmanager
def file_faults(table: TableFile, report: Report) -> Iterator[None]:
    """Report a file that can't be read to the end."""
    import pyarrow as pa  # noqa: PLC0415 - takes a moment to import

    try:
        yield
    except UnicodeDecodeError:
        line = first_undecodable_line(table.path)
        report(TableFault(line, "is not UTF-8 text; save the file as UTF-8", in_rows=False))
    except (OSError, EOFError, zlib.error, pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, UnreadableError) and error.line:
            report(TableFault(error.line, error.args[0], in_rows=False))
        else:
            report(TableFault(0, f"can't read: {' '.join(str(error).split())[:300]}"))


def first_undecodable_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8; 0 if the line can't be determined."""
    with open_unpacked(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number

    return 0


# ---- text


def open_strict(path: Path) -> TextIO:
    """Open a text file, compressed or not: UTF-8, or UTF-16 with a byte order mark."""
    encoding = marked_encoding(path) or UTF8
    return TextIOWrapper(open_unpacked(path), encoding=encoding, newline="")


def bounded_lines(stream: TextIO, *, must_end: bool = False) -> Iterator[str]:
    """Yield the lines of a text. Raises UnreadableError if a line is too long, contains a NUL, or
    lacks a required newline.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise too_long(number)
        if "\0" in line:
            raise UnreadableError(HAS_NUL, number)
        if must_end and not line.endswith(("\n", "\r")):
            words = (
                "its last line has no line break, so the file may be cut off; write the whole file"
            )
            raise UnreadableError(words, number)

        yield line


def csv_reader(lines: Iterable[str], delimiter: str = ",") -> Any:
    """Return a strict CSV reader whose cells may be as long as a line."""
    csv.field_size_limit(LONGEST_LINE)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _csv_rows(table: TableFile, report: Report) -> Iterator[TableRow]:
    shape = table.shape
    with open_strict(table.path) as stream:
        reader = csv_reader(bounded_lines(stream, must_end=shape.must_end))
        try:
            fields = _header(table, next(reader, []), report)
            if fields is None:
                return

            for cells in reader:
                if cells and len(cells) != len(fields):
                    report(TableFault(reader.line_num, cell_count(len(fields), len(cells))))
                elif any(cells):
                    pairs = zip(fields, cells, strict=True)
                    yield TableRow(reader.line_num, {name: cell for name, cell in pairs if name})
        except csv.Error as error:
            report(TableFault(reader.line_num, f"is not CSV: {error}"))


def header_problems(shape: TableShape, columns: Sequence[str]) -> list[str]:
    """Return the problem with a file's column names."""
    return shape.column_problems(columns) if columns else [NO_HEADER]


def _header(table: TableFile, columns: Sequence[str], report: Report) -> list[str] | None:
    """Return the field of each column, or None if the header has faults."""
    problems = header_problems(table.shape, columns)
    for words in problems:
        report(TableFault(1, words, in_rows=False))

    return None if problems else [table.shape.field_of(column) for column in columns]


# ---- JSON


def read_exact_json(text: str) -> JsonValue:
    """Parse strict JSON, with numbers kept as written. Raises ValueError for malformed text, a
    duplicate key, NaN or Infinity.
    """
    try:
        value: JsonValue = _EXACT.decode(text)
        if not is_nested_within(text, MAX_LEVELS):
            raise RecursionError
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

    return value


_EXACT = json.JSONDecoder(
    parse_float=WrittenNumber,
    parse_int=WrittenNumber,
    parse_constant=reject_constant,
    object_pairs_hook=unique_fields,
)


def _parsed_json(table: TableFile, text: str) -> JsonValue:
    if not table.shape.exact:
        return loads_data(text)

    value = read_exact_json(text)
    refuse_half_pairs(value)
    return value


def _line_rows(table: TableFile, report: Report) -> Iterator[TableRow]:
    with open_strict(table.path) as stream:
        yield from _object_rows(table, report, _line_values(table, report, stream))


def _line_values(
    table: TableFile, report: Report, stream: TextIO
) -> Iterator[tuple[int, JsonValue]]:
    lines = bounded_lines(stream, must_end=table.shape.must_end)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue

        try:
            value = _parsed_json(table, line)
        except ValueError as error:
            words = f"not valid JSON: {str(error)[:80]}; write one object a line"
            report(TableFault(number, words))
        else:
            yield number, value


def _list_rows(table: TableFile, report: Report) -> Iterator[TableRow]:
    with open_strict(table.path) as stream:
        text = stream.read(LARGEST_JSON + 1)

    if len(text) > LARGEST_JSON:
        raise UnreadableError(f"more than {LARGEST_JSON} characters; write JSON lines")

    try:
        value = _parsed_json(table, text)
    except ValueError as error:
        raise UnreadableError(f"not valid JSON: {str(error)[:80]}") from error

    if not isinstance(value, list):
        raise UnreadableError("expected a list of objects")

    yield from _object_rows(table, report, enumerate(value, start=1))


def _object_rows(
    table: TableFile, report: Report, values: Iterator[tuple[int, JsonValue]]
) -> Iterator[TableRow]:
    shapes: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    reported: set[str] = set()
    for line, value in values:
        if not isinstance(value, dict):
            report(TableFault(line, "expected an object"))
            continue

        keys = tuple(value)
        if keys not in shapes:
            # A missing field is left to the code that reads the row; an unknown field is reported
            # once per file.
            problems = table.shape.column_problems(keys, all_there=False)
            for words in problems:
                if words not in reported:
                    report(TableFault(line, words, in_rows=False))

            reported.update(problems)
            if len(shapes) >= _MAX_SHAPES:
                shapes.clear()

            named = [(key, table.shape.field_of(key)) for key in keys]
            shapes[keys] = [(key, name) for key, name in named if name]

        yield TableRow(
            line, {name: value[key] for key, name in shapes[keys] if value[key] is not None}
        )


# ---- Parquet


def _parquet_rows(table: TableFile, report: Report) -> Iterator[TableRow]:
    with open_parquet(table.path) as file:
        columns = file.schema_arrow.names
        fields = _header(table, columns, report)
        if fields is None:
            return

        number = 0
        for batch in file.iter_batches(batch_size=BATCH, use_threads=False):
            batch.validate(full=True)  # text must be UTF-8
            read = [
                (name, column.to_pylist())
                for name, column in zip(fields, batch.columns, strict=True)
                if name
            ]
            for index in range(batch.num_rows):
                number += 1
                cells = {name: values[index] for name, values in read if values[index] is not None}
                if table.shape.exact:
                    cells = {name: _as_written(value) for name, value in cells.items()}
                yield TableRow(number, cells)


def _as_written(value: Any) -> Any:
    """Return a Parquet value in its JSON form, with numbers as strings."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return WrittenNumber(f"{value:.17g}" if value != value else repr(value))
    if isinstance(value, int | Decimal):
        return WrittenNumber(value)
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _as_written(item) for key, item in value.items()}

    raise UnreadableError(
        f"a cell of type {type(value).__name__}; write texts, numbers, days or moments"
    )


_READERS: Mapping[Kind, Callable[[TableFile, Report], Iterator[TableRow]]] = {
    "csv": _csv_rows,
    "lines": _line_rows,
    "json": _list_rows,
    "parquet": _parquet_rows,
}


def _columns_in_words(columns: Sequence[str]) -> str:
    """Return a description of a file's columns. If they are a single string, the description
    includes advice.
    """
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
        return f"its only column is {columns[0][:300]!r}: write commas between the cells"
    return f"its columns: {', '.join(column[:40] for column in columns)[:300]}"


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:40]) for name in names)
