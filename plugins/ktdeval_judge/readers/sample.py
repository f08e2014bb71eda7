"""First look at a program's file: its kind, its columns or keys, its first lines.

Readers recognise their files by these alone, never by the name of a file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from ktdeval.errors import DataError, wrap_os_error
from ktdeval.values import (
    LARGEST_JSON,
    JsonValue,
    TableFault,
    TableFile,
    TableShape,
    bounded_lines,
    csv_reader,
    file_faults,
    first_bytes,
    loads_data,
    loads_untrusted,
    open_parquet,
    open_plain,
    open_strict,
    open_unpacked,
    table_kind,
)

MAX_BYTES = 256 << 20  #: of a file
HEAD_ROWS = 40  #: rows of a text that are looked at
PICKLE_ADVICE = (
    "is a pickle, which can run code when it is opened, and is never read; open it where it was"
    " written and save it by .to_csv(...) or .to_parquet(...)"
)
_PICKLE_STARTS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib")

Shape = Literal["table", "document"]
"""Rows with columns (CSV, Parquet), or one JSON value."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader is told besides the file."""

    program: str | None = None  #: name of the reader; None: by what the file holds
    zone: str = ""  #: IANA time zone, as the user says; empty: not said
    market_zone: str = ""  #: that of the market; empty: none is named, or it has several
    sessions: tuple[int, ...] = ()  #: trading days of the market (yyyymmdd), ascending

    @property
    def clock(self) -> str:
        """Time zone in which a moment has its day; empty: the program's usual one."""
        return self.zone or self.market_zone


@dataclass(frozen=True, kw_only=True)
class FileSample:
    """First look at a file."""

    path: Path
    shape: Shape
    columns: tuple[str, ...] = ()  #: of a table, as written
    head: tuple[tuple[str, ...], ...] = ()  #: cells of the first rows of a text
    keys: frozenset[str] = frozenset()  #: of a JSON object, or of the first object in a list
    inner_keys: frozenset[str] = frozenset()  #: of the first object among the values of `keys`

    @property
    def names(self) -> frozenset[str]:
        """Near names of the columns: lower case, letters and digits alone."""
        return frozenset(map(near_name, self.columns))

    def has_columns(self, *names: str) -> bool:
        """Whether a table has columns of these near names."""
        return self.shape == "table" and self.names.issuperset(map(near_name, names))

    def has_keys(self, *names: str) -> bool:
        """Whether a document has these keys."""
        return self.shape == "document" and self.keys.issuperset(names)


def near_name(column: str) -> str:
    """Return a column's name in lower case, without blanks and marks: `Order Id` is `orderid`."""
    return "".join(letter for letter in column.lower() if letter.isalnum())


def sample_of(path: Path) -> FileSample:
    """Return the first look at a file. Raises DataError: it is a pickle, or can't be read."""
    check_file(path)
    table = TableFile(path, TableShape(fields=()))
    with file_faults(table, table.refuse):
        kind = table_kind(path)
        if kind == "parquet":
            with open_parquet(path) as file:
                names = tuple(file.schema_arrow.names)
            return FileSample(path=path, shape="table", columns=names)

        if kind in ("json", "lines"):
            return _of_document(path)
        if kind == "workbook":
            # no program of these writes one: the reader of plain tables opens it
            return FileSample(path=path, shape="table")

        head = tuple(tuple(cells) for _, cells in islice(text_rows(path), HEAD_ROWS))

    columns = head[0] if head else ()
    return FileSample(path=path, shape="table", columns=columns, head=head)


def check_file(path: Path) -> None:
    """Raise DataError for a file that is not read whatever it holds: missing, a folder, empty, too
    large, or a pickle, which can run code.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name the file in it")

    refuse_pickle(path)
    with wrap_os_error(f"{path}: can't read", kind=DataError), open_plain(path) as stream:
        size = stream.seek(0, 2)

    if not size:
        raise DataError(f"{path}: is empty; write a header and one row a decision")
    if size > MAX_BYTES:
        raise DataError(
            f"{path}: {size:,} bytes; at most {MAX_BYTES:,} are read: write it as Parquet, or in"
            " parts"
        )


def refuse(path: Path, line: int, words: str) -> DataError:
    """Return the error of a file: its place, what is wrong, how to fix it."""
    place = f"{path}: line {line}" if line else str(path)
    return DataError(f"{place}: {words}")


def refuse_pickle(path: Path) -> None:
    """Raise DataError where a file is a pickle by its first bytes or its name."""
    with wrap_os_error(f"{path}: can't read", kind=DataError):
        start = first_bytes(path)

    if start.startswith(_PICKLE_STARTS) or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise DataError(f"{path}: {PICKLE_ADVICE}")


def text_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line of a CSV text whose rows may differ in length."""
    table = TableFile(path, TableShape(fields=()))
    with file_faults(table, table.refuse), open_strict(path) as stream:
        reader = csv_reader(bounded_lines(stream))
        try:
            for cells in reader:
                yield reader.line_num, cells
        except csv.Error as error:
            table.refuse(TableFault(reader.line_num, f"is not CSV: {error}"))


def load_document(path: Path) -> JsonValue:
    """Return the JSON value of a file. Raises DataError: it is none, or too large."""
    table = TableFile(path, TableShape(fields=()))
    with file_faults(table, table.refuse), open_unpacked(path) as stream:
        data = stream.read(LARGEST_JSON + 1)

    if len(data) > LARGEST_JSON:
        raise DataError(f"{path}: has more than {LARGEST_JSON} bytes; export a shorter period")

    try:
        return loads_data(data)
    except ValueError as error:
        words = " ".join(str(error).split())[:120]
        raise DataError(
            f"{path}: is not valid JSON: {words}; write the file again, to its end"
        ) from error


def _of_document(path: Path) -> FileSample:
    """Return the first look at JSON. What is none has no keys: its reader says where it ends."""
    table = TableFile(path, TableShape(fields=()))
    with file_faults(table, table.refuse), open_unpacked(path) as stream:
        data = stream.read(LARGEST_JSON + 1)

    try:
        value = loads_untrusted(data)
    except ValueError:
        value = _first_line(data)

    first = value
    if isinstance(value, list):
        first = value[0] if value else None
    if not isinstance(first, Mapping):
        return FileSample(path=path, shape="document")

    inner = next((item for item in first.values() if isinstance(item, Mapping)), {})
    return FileSample(
        path=path, shape="document", keys=frozenset(first), inner_keys=frozenset(inner)
    )


def _first_line(data: bytes) -> JsonValue:
    """Return the first of JSON lines; None if it is no JSON."""
    try:
        return loads_untrusted(data.partition(b"\n")[0])
    except ValueError:
        return None
