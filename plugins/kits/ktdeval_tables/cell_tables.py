"""Tables in a file of any kind, as text cells: the user's data before their columns are
interpreted.

A file is opened once. It contains one or several tables: a text file has one table, or one for each
section of a broker's statement; JSON and XML have one for each list of objects.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ktdeval.values import open_parquet
from ktdeval_tables.json_tables import FoundTable, tables_in
from ktdeval_tables.numbers import POINT
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.rows import csv_reader
from ktdeval_tables.readers.text_encoding import LineGuard, UnreadableError, cell_count
from ktdeval_tables.sections import closed_by_rule, is_sectioned, split_sections, stacked_tables
from ktdeval_tables.table_sources import INDEX, UNREADABLE, TableSource, refuse_bytes, unreadable
from ktdeval_tables.text_layout import BLANKS, each_once
from ktdeval_tables.text_table import table_in_text
from ktdeval_tables.workbook import sheet_as_text
from ktdeval_tables.xml_tables import xml_tables

Lines = npt.NDArray[np.int64]

MAX_ROWS = 2_000_000
_BATCH = 10_000  # number of rows converted to columns at a time


@dataclass(frozen=True, eq=False)
class CellTable:
    """A table as text cells."""

    cells: pd.DataFrame  #: [n] cells as text by column, stripped; empty if a cell has no value
    lines: Lines  #: [n] lines of the file, from 1; row numbers if it has no lines
    unit: str = "row"  #: unit of `lines`: line or row
    name: str = ""  #: name of the part of the file, such as `results.trades`; empty: the whole file
    title: str = ""  #: text above the header
    facts: Mapping[str, str] = field(default_factory=dict)  #: single values outside the table
    decimal: str = POINT  #: decimal mark of the table's numbers
    is_ended: bool = True  #: whether the last line of a text file ends with a line break

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns, without repeats. An unnamed index has an empty name."""
        return tuple(map(str, self.cells.columns))


def read_cells(
    source: TableSource, known: Collection[str], reading: ReadingOptions
) -> list[CellTable]:
    """Return the tables in a file. `known`: squeezed column names that identify a header.

    Raises DataError, with the line, if a row or the file can't be read.
    """
    try:
        if source.kind == "parquet":
            return [_parquet_table(source.path)]
        if source.kind == "json":
            return _json_tables(source)
        if source.kind == "xml":
            return [_as_cells(found) for found in xml_tables(source.data)]
        if source.kind == "workbook":
            return [_text_table(sheet_as_text(source.path, reading.note), source, known, reading)]
        return _text_tables(source, known, reading)
    except UNREADABLE as error:
        raise unreadable(source.path, error) from error


# ---- text


def _text_tables(
    source: TableSource, known: Collection[str], reading: ReadingOptions
) -> list[CellTable]:
    LineGuard().check(source.text)
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
    # If `close` were known, a table whose columns are codes would be read as a table of closes.
    names = set(known) - {"close"}
    table = table_in_text(text, source.path, names, reading)
    rows = _csv_rows(table.body_text(), table.layout.delimiter)
    if table.layout.header_line:
        next(rows, None)

    header = ["" if name.startswith("Unnamed: ") else name for name in table.layout.header]
    lines: list[int] = []
    cells = _frame(header, _whole_rows(rows, len(header), lines))
    return CellTable(
        cells=cells,
        lines=np.array(lines, dtype=np.int64),
        unit="line",
        title=table.layout.title,
        decimal=table.layout.decimal,
        is_ended=source.kind != "text" or source.text.endswith("\n"),
    )


def _csv_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that is not empty."""
    lines = io.StringIO(text, newline="")
    if delimiter == BLANKS:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line.split()
        return

    reader = csv_reader(lines, delimiter)
    try:
        for cells in reader:
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise UnreadableError(f"is not CSV: {error}", reader.line_num) from error


def _whole_rows(
    rows: Iterable[tuple[int, list[str]]], width: int, lines: list[int]
) -> Iterator[list[str]]:
    """Yield the cells of rows, one for each column. The rows' line numbers are appended to
    `lines`.
    """
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
    """Return rows as text columns, without columns that have neither a name nor a value."""
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


def _json_tables(source: TableSource) -> list[CellTable]:
    found = tables_in(source.documents)
    if not found:
        raise UnreadableError("holds no list of objects, and no columns of one length")
    return [_as_cells(table) for table in found]


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
    """Return the columns of a Parquet file as text, with all digits of numbers. Columns of lists
    are omitted.
    """
    with open_parquet(path) as file:
        if file.metadata.num_rows > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS:,} rows; write it in parts")
        table = file.read(use_threads=False)

    table.validate(full=True)  # checks, among other things, that strings are UTF-8
    columns = {}
    for name, column in zip(table.flatten().column_names, table.flatten().columns, strict=True):
        refuse_bytes(name, column.type)
        if pa.types.is_nested(column.type):
            continue

        texts = pc.fill_null(pc.cast(column, pa.large_string()), "")
        cells = pd.Series(texts.to_pandas(), dtype="str").str.strip()
        columns["" if name == INDEX else name] = cells.mask(cells == "nan", "")

    frame = pd.DataFrame(columns, index=range(table.num_rows))
    return CellTable(frame, np.arange(1, table.num_rows + 1))
