"""Rows of a table as text columns, several thousand at a time, for tables with millions of rows."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from ktdeval.errors import KtdevalError
from ktdeval.values import open_unpacked
from ktdeval_tables.readers.rows import (
    BATCH,
    Report,
    TableFault,
    TableFile,
    TableRow,
    bounded_lines,
    csv_reader,
    file_faults,
    header_problems,
    open_strict,
    read_rows,
)
from ktdeval_tables.readers.text_encoding import (
    LONGEST_LINE,
    UTF8,
    LineGuard,
    cell_count,
    marked_encoding,
)

_BLOCK = 4 * LONGEST_LINE  # bytes; at least one row has to fit
_LONGEST_CELL = 100  # maximum characters shown of a value that is not text


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Rows of a table as text columns."""

    lines: npt.NDArray[np.int64]  #: [n] line numbers, as in `TableRow`
    #: by field: a `pyarrow.Array` of shape [n], with an empty string for a missing value
    texts: dict[str, Any]


def read_blocks(table: TableFile, report: Report | None = None) -> Iterator[TextBlock]:
    """Yield the rows of a table as columns. Faults are reported as in `read_rows`."""
    report = report or table.refuse
    is_csv = False
    with file_faults(table, report):
        is_csv = table.kind == "csv" and marked_encoding(table.path) in (None, UTF8)
        if is_csv:
            yield from _csv_blocks(table, report)
            return

        rows = read_rows(table, report)
        batch = list(islice(rows, BATCH))
        while batch:
            yield _as_block(table, batch)
            batch = list(islice(rows, BATCH))


def _as_block(table: TableFile, rows: Sequence[TableRow]) -> TextBlock:
    texts: dict[str, Any] = {}
    for field in table.shape.fields:
        texts[field] = pa.array([_cell_text(row.cells.get(field)) for row in rows], pa.string())

    return TextBlock(np.array([row.line for row in rows], np.int64), texts)


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value

    return json.dumps(value)[:_LONGEST_CELL]


def _csv_blocks(table: TableFile, report: Report) -> Iterator[TextBlock]:
    with open_strict(table.path) as stream:
        reader = csv_reader(bounded_lines(stream))
        try:
            header: list[str] = next(reader, [])
        except csv.Error as error:  # such as a quote that is never closed
            report(TableFault(reader.line_num, f"is not CSV: {error}"))
            return

    problems = header_problems(table.shape, header)
    for words in problems:
        report(TableFault(1, words, in_rows=False))

    if not problems:
        yield from _arrow_blocks(table, header, report)


class _PlainText:
    """Bytes of a stream, checked in passing to be UTF-8 text. Without this check, Arrow's reader
    prints a traceback when it reports a line that is not UTF-8.
    """

    closed = False

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._guard = LineGuard()

    def read(self, size: int = -1) -> bytes:
        """Read some bytes. Raises UnicodeDecodeError or UnreadableError."""
        data = self._stream.read(size)
        self._guard.check(self._decoder.decode(data, final=not data))
        return data

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._stream.close()


def _arrow_blocks(table: TableFile, header: Sequence[str], report: Report) -> Iterator[TextBlock]:
    """Read the rows with Arrow, which is several times faster than the standard library. A line
    that isn't a row is reported as a fault and skipped.
    """
    skipped: list[int] = []
    stopped: list[KtdevalError] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        skipped.append(row.number)
        words = cell_count(row.expected_columns, row.actual_columns)
        try:
            report(TableFault(row.number, words))
        except KtdevalError as error:  # Arrow would print the error and continue
            stopped.append(error)
            return "error"

        return "skip"

    column_of = {table.shape.field_of(column): column for column in header}
    column_of.pop("", None)
    open_reader = partial(
        pa_csv.open_csv,
        _PlainText(open_unpacked(table.path)),
        pa_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        pa_csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip),
        pa_csv.ConvertOptions(
            column_types={column: pa.string() for column in header},
            include_columns=list(column_of.values()),
            strings_can_be_null=False,
        ),
    )
    line = 2

    for batch in _batches(open_reader, stopped):
        lines = np.arange(line, line + len(batch) + len(skipped) + 1, dtype=np.int64)
        lines = lines[~np.isin(lines, skipped)][: len(batch)]
        if len(lines):
            line = int(lines[-1]) + 1

        filled = np.zeros(len(batch), bool)
        for column in batch.columns:
            filled |= np.asarray(pc.not_equal(column, "").to_numpy(zero_copy_only=False), bool)

        rows = pa.array(filled)
        texts = dict.fromkeys(table.shape.fields, pa.array([""] * int(filled.sum()), pa.string()))
        for field, column in zip(column_of, batch.columns, strict=True):
            texts[field] = column.filter(rows)

        yield TextBlock(lines[filled], texts)


def _batches(
    open_reader: Callable[[], Iterable[pa.RecordBatch]], stopped: Sequence[KtdevalError]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows. If an error stopped the reading, it is raised instead of Arrow's own
    error.
    """
    try:
        yield from open_reader()  # this already reads the first rows
    except pa.ArrowInvalid:
        if stopped:
            raise stopped[0] from None
        raise
