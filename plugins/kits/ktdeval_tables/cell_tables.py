"""Tables of a file of any kind, as cells of text: what a person has, before anything says what its
columns mean.

A file is opened once. It gives one table or several: a text one, or one for each section of a
broker's statement; JSON and XML one for each list of objects in them.
"""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ktdeval.errors import DataError
from ktdeval.values import (
    GB18030,
    LARGEST_JSON,
    PARQUET,
    SIGNATURE_BYTES,
    UTF8,
    JsonValue,
    LineGuard,
    UnreadableError,
    cell_count,
    csv_reader,
    is_workbook,
    open_parquet,
    open_unpacked,
    other_kind,
    read_exact_json,
    refuse_half_pairs,
    sheet_as_text,
)
from ktdeval_tables.json_tables import FoundTable, tables_in
from ktdeval_tables.numbers import POINT
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.sections import closed_by_rule, is_sectioned, split_sections, stacked_tables
from ktdeval_tables.text_layout import BLANKS, each_once, find_layout
from ktdeval_tables.text_table import TableBody
from ktdeval_tables.xml_tables import xml_tables

Kind = Literal["text", "json", "parquet", "workbook", "xml"]
Lines = npt.NDArray[np.int64]

MAX_BYTES = 256 << 20  #: of a file
MAX_ROWS = 2_000_000
PICKLE_ADVICE = (
    "is a pickle, which can run code when it is opened, and is never read; open it where it was"
    " written and save it by .to_csv(...) or .to_parquet(...)"
)
_PICKLE_STARTS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib")
_LEAST_SHARE = 0.1  # of the zeros, at the other places
_BATCH = 10_000  # rows that become columns together
_INDEX = "__index_level_0__"  # of a frame whose index has no name
_XML_STARTS = (b"<?xml", b"<Flex")
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, OverflowError)


@dataclass(frozen=True, eq=False)
class CellTable:
    """A table as texts."""

    cells: pd.DataFrame  #: [n] texts by column, without blanks around them; empty: nothing
    lines: Lines  #: [n] of the file, from 1; numbers of rows where it has no lines
    unit: str = "row"  #: what `lines` counts: line or row
    name: str = ""  #: of the part of the file, such as `results.trades`; empty: the whole file
    title: str = ""  #: text above the header
    facts: Mapping[str, str] = field(default_factory=dict)  #: single values beside the table
    decimal: str = POINT  #: mark between the whole and the parts of its numbers
    is_ended: bool = True  #: whether the last line of a text has an end

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns, each once; an index without a name has an empty one."""
        return tuple(map(str, self.cells.columns))


@dataclass(frozen=True, eq=False)
class TableSource:
    """A file that was read."""

    path: Path
    kind: Kind
    data: bytes  #: unpacked; nothing of Parquet and of workbooks, which have readers of their own

    @cached_property
    def text(self) -> str:
        """The file as text, with ends of lines of one kind. Raises DataError: it is none."""
        text = _decode(self.path, self.data)
        try:
            LineGuard().check(text)
        except UnreadableError as error:
            raise _unreadable(self.path, error) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def documents(self) -> Sequence[tuple[int, JsonValue]]:
        """JSON values with their lines: one, or that of each line; numbers as they are written.
        Raises DataError: the file is not JSON.
        """
        if len(self.text) > LARGEST_JSON:
            raise DataError(f"{self.path}: has more than {LARGEST_JSON} bytes of JSON; write parts")
        try:
            return ((1, _exact_json(self.text)),)
        except ValueError as error:
            lines = [pair for pair in enumerate(self.text.split("\n"), 1) if pair[1].strip()]
            first_error = error

        if len(lines) < 2 or _is_broken(lines[0][1]):
            words = " ".join(str(first_error).split())[:120]
            raise DataError(
                f"{self.path}: is not valid JSON: {words}; write the file again, to its end"
            )
        return [(number, _json_of_line(self.path, number, line)) for number, line in lines]


def open_source(path: Path) -> TableSource:
    """Read a file. Raises DataError: it is missing, a folder, empty, too large, a pickle, or of a
    kind that holds no table.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name the file in it")

    try:
        with open_unpacked(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise DataError(f"{path}: can't read: {error.strerror}") from error
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error

    if data.startswith(_PICKLE_STARTS) or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise DataError(f"{path}: {PICKLE_ADVICE}")
    if not data:
        raise DataError(f"{path}: is empty; write a header and one row a decision")
    if len(data) > MAX_BYTES:
        raise DataError(
            f"{path}: at most {MAX_BYTES:,} bytes are read: write it as Parquet, or in parts"
        )

    kind = _kind_of(path, data)
    has_reader = kind in ("parquet", "workbook")
    return TableSource(path, kind, b"" if has_reader else data)


def read_cells(
    source: TableSource, known: Collection[str], reading: ReadingOptions
) -> list[CellTable]:
    """Return the tables of a file. `known`: names of columns, squeezed, by which a header is found.
    Raises DataError: a row or the file can't be read, with its line.
    """
    try:
        if source.kind == "parquet":
            return [_parquet_table(source.path)]
        if source.kind == "json":
            return [_as_cells(found) for found in tables_in(source.documents)]
        if source.kind == "xml":
            return [_as_cells(found) for found in xml_tables(source.data)]
        if source.kind == "workbook":
            return [_text_table(sheet_as_text(source.path, reading.note), source, known, reading)]
        return _text_tables(source, known, reading)
    except _UNREADABLE as error:
        raise _unreadable(source.path, error) from error


# ---- kinds of files


def _kind_of(path: Path, data: bytes) -> Kind:
    head = data[:SIGNATURE_BYTES]
    if head.startswith(PARQUET) or (path.suffix.lower() == ".parquet" and b"\0" in head):
        return "parquet"
    if is_workbook(path, head):
        return "workbook"
    if head.lstrip(codecs.BOM_UTF8).lstrip().startswith(_XML_STARTS):
        return "xml"

    other = other_kind(head)
    if other.startswith("JSON") or _looks_like_json(head):
        return "json"
    if other:
        raise DataError(f"{path}: can't read: by its first bytes it is {other}")
    return "text"


def _looks_like_json(head: bytes) -> bool:
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def _decode(path: Path, data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding)

    start = data[:400]
    zeros = start.count(0)
    if zeros > len(start) // 4:
        # without a mark, UTF-16 of plain letters has a zero in every other byte
        share = start[::2].count(0) / zeros
        if not _LEAST_SHARE < share < 1.0 - _LEAST_SHARE:
            return data.decode("utf-16-be" if share > _LEAST_SHARE else "utf-16-le", "replace")

    for encoding in (UTF8, GB18030):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise DataError(f"{path}: not text in any of UTF-8, UTF-16, GB 18030; save it as UTF-8")


def _exact_json(text: str) -> JsonValue:
    value = read_exact_json(text)
    refuse_half_pairs(value)
    return value


def _is_broken(line: str) -> bool:
    """Whether the first line of a text is no JSON value of its own."""
    try:
        _exact_json(line)
    except ValueError:
        return True
    return False


def _json_of_line(path: Path, number: int, line: str) -> JsonValue:
    try:
        return _exact_json(line)
    except ValueError as error:
        words = f"not valid JSON: {str(error)[:80]}; write one object a line"
        raise DataError(f"{path}: line {number}: {words}") from error


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, UnreadableError) and error.line:
        return DataError(f"{path}: {error}")
    return DataError(f"{path}: can't read: {' '.join(str(error).split())[:300]}")


# ---- text


def _text_tables(
    source: TableSource, known: Collection[str], reading: ReadingOptions
) -> list[CellTable]:
    text = closed_by_rule(source.text)
    rows = _csv_rows(text, ",")
    if not is_sectioned(text):
        parts = stacked_tables(text, known)
        if len(parts) == 1:
            return [_text_table(text, source, known, reading)]
        found = [_text_table(part, source, known, reading) for part in parts]
        return [replace(each, name=f"table {number}") for number, each in enumerate(found, 1)]

    tables = []
    facts: dict[str, str] = {}
    for section in split_sections(rows, facts):
        cells = _frame(section.header, section.rows)
        lines = np.array(section.lines, dtype=np.int64)
        tables.append(CellTable(cells, lines, "line", name=section.name, facts=facts))
    return tables


def _text_table(
    text: str, source: TableSource, known: Collection[str], reading: ReadingOptions
) -> CellTable:
    head = text[: 1 << 17].split("\n")
    # A reader that knows closes takes a table of codes for their prices.
    names = set(known) - {"close"}
    layout = find_layout(head, names, reading.columns, str(source.path))
    body = TableBody(io.StringIO(text), layout)
    rows = _csv_rows(body.read(), layout.delimiter)
    if layout.header_line:
        next(rows, None)

    if layout.title:
        reading.note(
            f"line {layout.header_line} is the header; above it stands: {layout.title[:80]}"
        )
    if body.footer:
        reading.note(f"words at the end are not a row of data: {' '.join(body.footer)[:80]}")

    header = ["" if name.startswith("Unnamed: ") else name for name in layout.header]
    lines: list[int] = []
    cells = _frame(header, _whole_rows(rows, len(header), lines))
    decimal = layout.decimal if reading.decimal == "auto" else reading.decimal
    return CellTable(
        cells=cells,
        lines=np.array(lines, dtype=np.int64),
        unit="line",
        title=layout.title,
        decimal=decimal,
        is_ended=source.kind != "text" or source.text.endswith("\n"),
    )


def _csv_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of the rows that are not empty."""
    lines = io.StringIO(text, newline="")
    if delimiter == BLANKS:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line.split()
        return

    csv_reader(iter(()))  # which raises the limit of a cell to that of a line
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise UnreadableError(f"is not CSV: {error}", reader.line_num) from error


def _whole_rows(
    rows: Iterable[tuple[int, list[str]]], width: int, lines: list[int]
) -> Iterator[list[str]]:
    """Yield the cells of rows, each as many as there are columns; `lines` gets their lines."""
    for line, cells in rows:
        if len(cells) > width and not any(cells[width:]):
            cells = cells[:width]
        if len(cells) != width:
            raise UnreadableError(cell_count(width, len(cells)), line)
        if len(lines) >= MAX_ROWS:
            raise UnreadableError(f"more than {MAX_ROWS:,} rows; write it in parts", line)

        lines.append(line)
        yield cells


def _frame(header: Sequence[str], rows: Iterable[list[str]]) -> pd.DataFrame:
    """Return rows as columns of text, without columns that have neither a name nor a cell."""
    places = range(len(header))
    parts = [pd.DataFrame(columns=places, dtype="str")]
    batch: list[list[str]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            parts.append(pd.DataFrame(batch, columns=places, dtype="str"))
            batch = []

    if batch:
        parts.append(pd.DataFrame(batch, columns=places, dtype="str"))
    frame = pd.concat(parts, ignore_index=True)
    columns = {}
    for place, name in zip(places, each_once(header), strict=True):
        cells = frame[place].str.strip()
        if name.strip() or (cells != "").any():
            columns[name.strip()] = cells
    return pd.DataFrame(columns, index=frame.index)


# ---- other kinds


def _as_cells(found: FoundTable) -> CellTable:
    names = list(dict.fromkeys(name for row in found.rows for name in row))
    if len(found.rows) > MAX_ROWS:
        raise UnreadableError(f"more than {MAX_ROWS:,} rows; write it in parts", MAX_ROWS)

    rows = ([row.get(name, "") for name in names] for row in found.rows)
    return CellTable(
        cells=_frame(names, rows),
        lines=np.array(found.lines, dtype=np.int64),
        unit=found.unit,
        name=found.name,
        facts=found.facts,
    )


def _parquet_table(path: Path) -> CellTable:
    """Return the columns of a Parquet file as texts, numbers with all their digits; those of lists
    are left out.
    """
    with open_parquet(path) as file:
        if file.metadata.num_rows > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS:,} rows; write it in parts")
        table = file.read(use_threads=False)

    table.validate(full=True)  # texts are UTF-8
    columns = {}
    for name, column in zip(table.flatten().column_names, table.flatten().columns, strict=True):
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            raise ValueError(f"column {name!r} holds bytes ({column.type}); write texts")
        if pa.types.is_nested(column.type):
            continue

        texts = pc.fill_null(pc.cast(column, pa.large_string()), "")
        cells = pd.Series(texts.to_pandas(), dtype="str").str.strip()
        columns["" if name == _INDEX else name] = cells.mask(cells == "nan", "")

    frame = pd.DataFrame(columns, index=range(table.num_rows))
    return CellTable(frame, np.arange(1, table.num_rows + 1))
