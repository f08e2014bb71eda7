"""Tables in text files. Text around the rows is detected and omitted, and the rows are read in
blocks.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from ktdeval_tables.document_bars import bars_as_text
from ktdeval_tables.numbers import MISSING, POINT, to_numbers
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.text_encoding import (
    GB18030,
    LineGuard,
    UnreadableError,
    cell_count,
    encodings,
    first_lines,
    open_text,
)
from ktdeval_tables.table_sources import open_source, source_kind
from ktdeval_tables.text_layout import BLANKS, Layout, find_layout, split
from ktdeval_tables.workbook import sheet_as_text

BEYOND = "rows have more cells than the header"
_OPEN_QUOTE = re.compile(r"EOF inside string starting at row (\d+)")
_BLOCK = 2**18  # characters
_HEAD = 2**17  # number of characters from which a layout is detected
_TAIL = 2**11  # number of characters at the end of a file that may contain a footer
TICKER = "Ticker"


@dataclass(frozen=True)
class WantedColumns:
    """Columns to read from a table."""

    columns: tuple[str, ...]
    categories: frozenset[str]  #: text columns whose values often repeat
    #: text columns, including those with repeated values; all other columns are numbers
    texts: frozenset[str]
    codes: frozenset[str]  #: columns in which `NA` is a code
    rows: int  #: number of rows read at a time


@dataclass(frozen=True)
class TextTable:
    """A text file whose layout is known."""

    file: Path
    layout: Layout
    encoding: str
    open: Callable[[str], TextIO]
    reading: ReadingOptions

    @property
    def header(self) -> tuple[str, ...]:
        """Column names, without repeats."""
        if not self.layout.tickers:
            return self.layout.header
        return (*dict.fromkeys(self.layout.header), TICKER)

    def cells_of(self, column: str) -> list[str]:
        """Return the cells of a column in the first rows."""
        if self.layout.tickers:
            return []
        return [cell for cell in self.layout.cells_of(column) if cell]

    def read(self, wanted: WantedColumns) -> pd.DataFrame:
        """Read columns in blocks of rows, as text for the columns in `wanted.texts` and as numbers
        otherwise.

        Raises ValueError if the file is not text, or if a row has more cells than the header;
        DataError if a cell is not a number.
        """
        try:
            return self._read(wanted)
        except UnicodeDecodeError as error:
            if self.encoding not in encodings(self.file)[:-1]:
                raise ValueError(
                    "not text in any of UTF-8, UTF-16, GB 18030; save it as UTF-8",
                ) from error
            return replace(self, encoding=GB18030).read(wanted)

    def body_text(self) -> str:
        """Return the text without anything around its rows. Lines keep their numbers.

        Raises UnreadableError if a line is too long, or if the last row is truncated.
        """
        with self.open(self.encoding) as text:
            body = TableBody(text, self.layout)
            rows = body.read()

        self._note_what_is_left_out(body)
        return rows

    def _read(self, wanted: WantedColumns) -> pd.DataFrame:
        with self.open(self.encoding) as text:
            body = TableBody(text, self.layout)
            if self.layout.tickers:
                table = self._of_pairs(body, wanted)
            else:
                table = self._in_parts(body, wanted)

        self._note_what_is_left_out(body)
        return table

    def _in_parts(self, body: TableBody, wanted: WantedColumns) -> pd.DataFrame:
        names = list(self.layout.header)
        try:
            return self._parse_body(body, names, wanted)
        except pd.errors.ParserWarning:
            # pandas ignores cells beyond the header, and would read `1,000` without quotes as 1. A
            # delimiter at the end of every row does not add a cell.
            pass

        with self.open(self.encoding) as text:
            again = TableBody(text, self.layout)
            try:
                return self._parse_body(again, [*names, BEYOND], wanted)
            except pd.errors.ParserWarning as error:
                raise self._too_wide() from error

    def _too_wide(self) -> ValueError:
        """Return the error for a row with more cells than the header."""
        layout = self.layout
        with self.open(self.encoding) as text:
            lines = TableBody(text, layout).read().split("\n")

        for number, line in enumerate(lines, start=1):
            cells = split(line, layout.delimiter)
            if number >= layout.first_line and len([*filter(None, cells)]) > len(layout.header):
                return UnreadableError(cell_count(len(layout.header), len(cells)), number)

        return ValueError(BEYOND)

    def _parse_body(self, body: TableBody, names: list[str], wanted: WantedColumns) -> pd.DataFrame:
        missing = {name: [""] if name in wanted.codes else list(MISSING) for name in wanted.columns}
        options: dict[str, Any] = {
            "names": names,
            "header": 0 if self.layout.header_line else None,
            "sep": self.layout.delimiter,
            "index_col": False,
            "dtype": dict.fromkeys(wanted.texts, str),
            "na_values": missing,
            "keep_default_na": False,
            "low_memory": False,
            "skipinitialspace": self.layout.delimiter != BLANKS,
            "chunksize": wanted.rows,
        }
        if self.layout.decimal != POINT:
            options["dtype"] = str  # 1.234 is, or may be, 1234 in this table

        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            try:
                parts = pd.read_csv(body, **options)
                return as_one([self._within(part, wanted) for part in parts])
            except pd.errors.ParserError as error:
                raise self._fault(str(error)) from error

    def _fault(self, words: str) -> ValueError:
        """Return the error for a table that pandas can't split into cells."""
        quote = _OPEN_QUOTE.search(words)
        if quote is not None:
            return UnreadableError("a quote is never closed", int(quote[1]) + 1)
        if "Expected" in words:
            return self._too_wide()
        return ValueError(words)

    def _within(self, part: pd.DataFrame, wanted: WantedColumns) -> pd.DataFrame:
        """Return the columns of a part. All but `texts` become numbers, since text takes several
        times as much memory. Categories are created here, since pandas 3.1 reads `000001` as the
        category 1.
        """
        if BEYOND in part and not part[BEYOND].isin(["", np.nan]).all():
            raise self._too_wide()

        kept = {}
        for name in wanted.columns:
            cells = part[name]
            if name not in wanted.texts:
                cells = to_numbers(cells, self.file, self.layout.decimal, self.reading.signs)
            elif name in wanted.categories:
                cells = cells.astype("category")

            kept[name] = cells

        return pd.DataFrame(kept, copy=False)

    def _of_pairs(self, body: TableBody, wanted: WantedColumns) -> pd.DataFrame:
        """Read a table with a column for each field of each asset, and return a table with a row
        for each day and asset.
        """
        lines = body.read().splitlines()[self.layout.first_line - 1 :]
        cells = pd.DataFrame(list(csv.reader(lines, delimiter=self.layout.delimiter)), dtype=str)
        parts = []

        for ticker in dict.fromkeys(self.layout.tickers):
            owners = enumerate(self.layout.tickers, start=1)
            places = [place for place, owner in owners if owner == ticker]
            part = cells[places].set_axis([self.layout.header[place] for place in places], axis=1)
            part = part.mask(part.isin(MISSING))
            has_values = part.notna().any(axis=1)
            part.insert(0, self.layout.header[0], cells[0])
            part.insert(1, TICKER, ticker)
            parts.append(part[has_values])

        # An asset may lack a field that other assets have. Its rows have no value for this field.
        table = pd.concat(parts, ignore_index=True)
        return self._within(table, wanted)

    def _note_what_is_left_out(self, body: TableBody) -> None:
        layout = self.layout
        name = self.file.name
        if layout.title:
            above = f"above it stands a title: {layout.title[:80]}"
            self.reading.note(f"{name}: line {layout.header_line} is the header; {above}")

        if layout.below:
            self.reading.note(
                f"{name}: names below the header are not a row of data: {layout.below[:80]}"
            )

        if body.footer:
            self.reading.note(
                f"{name}: words at the end are not a row of data: {' '.join(body.footer)[:80]}"
            )


class TableBody(io.TextIOBase):
    """The text of a table without its footer. The title and any names below the header become empty
    lines, so that lines keep their numbers.
    """

    def __init__(self, text: TextIO, layout: Layout) -> None:
        super().__init__()
        self.text = text
        self.layout = layout
        self.footer: list[str] = []
        self._guard = LineGuard()
        self._held = ""
        self._ended = False
        self._started = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1, /) -> str:
        """Return at most `size` characters, or all if it is None or negative."""
        if not self._started:
            self._held = "".join(self._first_lines())
            self._started = True

        wanted = size if size is not None and size >= 0 else 0
        while not self._ended and (not wanted or len(self._held) < wanted + _TAIL):
            block = self.text.read(_BLOCK)
            self._guard.check(block)
            self._held += block
            if not block:
                self._ended = True
                self._held = self._without_footer(self._held)

        given = self._held[:wanted] if wanted else self._held
        self._held = self._held[len(given) :]
        return given

    def _first_lines(self) -> Iterator[str]:
        """Return the lines before the first row, all of them empty except the header."""
        for number in range(1, self.layout.first_line):
            line = self.text.readline()
            if not line:
                return

            self._guard.check(line)
            yield line if number == self.layout.header_line and not self.layout.tickers else "\n"

    def _without_footer(self, text: str) -> str:
        """Return the end of a table, without text that follows its rows."""
        lines = text.split("\n")
        kept = len(lines)
        while kept > 1 and self._is_no_row(lines[kept - 2], lines[kept - 1]):
            kept -= 1

        self._check_last_row(lines[kept - 1])
        left_out = [line.strip() for line in lines[kept:] if line.strip()]
        if not left_out:
            return text

        self.footer.extend(left_out)
        return "\n".join(lines[:kept]) + "\n"

    def _is_no_row(self, before: str, line: str) -> bool:
        """Return whether the last line is empty or a footer. `before`: the line above it."""
        if not line.strip() or self.layout.is_footer(line):
            return True
        return not before.strip() and self.layout.is_apart(line)

    def _check_last_row(self, line: str) -> None:
        """Raise UnreadableError if the last row lacks cells, since the file may be truncated."""
        layout = self.layout
        if layout.delimiter == BLANKS or layout.tickers or '"' in line:
            return

        found = len(split(line, layout.delimiter))
        expected = len(layout.header)
        if 1 < found < expected:
            raise UnreadableError(
                f"its last row has {found} of {expected} cells, so that the file may be cut off;"
                " write it whole"
            )


def open_table(file: Path, known: Collection[str], reading: ReadingOptions) -> TextTable:
    """Open a text file, workbook or document as a table. `known`: squeezed column names.

    Raises DataError, UsageError, OSError or ValueError if the table can't be read, or if
    `find_layout` fails.
    """
    kind = source_kind(file)
    if kind == "workbook":
        return table_in_text(sheet_as_text(file, reading.note), file, known, reading)
    if kind in ("json", "xml"):
        return table_in_text(bars_as_text(open_source(file)), file, known, reading)

    for encoding in encodings(file):
        try:
            lines = first_lines(file, encoding)
        except UnicodeDecodeError:
            continue

        layout = _find_layout(lines, file, known, reading)
        return TextTable(file, layout, encoding, partial(open_text, file), reading)

    raise ValueError("not text in any of UTF-8, UTF-16, GB 18030; save it as UTF-8")


def table_in_text(
    text: str, file: Path, known: Collection[str], reading: ReadingOptions
) -> TextTable:
    """Return the table in a file's text; otherwise like `open_table`."""
    lines = text[:_HEAD].split("\n")
    layout = _find_layout(lines, file, known, reading)
    return TextTable(file, layout, "utf-8", lambda _: io.StringIO(text), reading)


def _find_layout(
    lines: Sequence[str], file: Path, known: Collection[str], reading: ReadingOptions
) -> Layout:
    """Return the layout of a table, with the decimal mark that the user specifies."""
    layout = find_layout(lines, known, reading.columns, str(file))
    return layout if reading.decimal == "auto" else replace(layout, decimal=reading.decimal)


def as_one(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables column by column, so that no large table is in memory twice."""
    if len(frames) == 1:
        return frames[0]

    joined: dict[str, pd.Series] = {}
    for name in dict.fromkeys(str(name) for frame in frames for name in frame):
        parts = [_pop_column(frame, name) for frame in frames]
        texts = all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts)
        if texts:
            joined[name] = pd.Series(union_categoricals(parts))
        else:
            joined[name] = pd.concat(parts, ignore_index=True)

    return pd.DataFrame(joined, copy=False)


def _pop_column(frame: pd.DataFrame, name: str) -> pd.Series:
    """Remove a column from a table and return it. A column that the table lacks is missing in all
    rows.
    """
    if name in frame:
        return frame.pop(name)
    return pd.Series(np.nan, frame.index)
