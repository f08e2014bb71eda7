"""First look at a file: its kind and its names, by which a reader recognises it."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.values.decompression_limits import open_parquet, open_unpacked
from ktdeval.values.file_signatures import READ
from ktdeval.values.files import open_plain
from ktdeval.values.tables.file_kinds import Kind
from ktdeval.values.tables.rows import (
    TableFault,
    TableFile,
    TableShape,
    bounded_lines,
    csv_reader,
    file_faults,
    open_strict,
)

MOST_BYTES = 256 << 20  #: of a file of decisions
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""First bytes of Python's pickles by protocol (`pickletools`); older ones are text."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    program: str | None = None  #: name of the reader; None: by what the file holds


@dataclass(frozen=True)
class Sample:
    """What a reader recognises a file by."""

    path: Path
    kind: Kind
    columns: tuple[str, ...]  #: of a table, or the keys of its first bytes, in lower case
    names: tuple[str, ...] = ()  #: the same as they are written


def check_file(path: Path) -> None:
    """Raise DataError for a file that is not read whatever its columns: missing, a folder, empty,
    too large, or a pickle, which can run code.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name the file of decisions in it")

    try:
        with open_plain(path) as stream:
            head = stream.read(READ)
            size = stream.seek(0, 2)
    except OSError as error:
        raise DataError(f"{path}: can't read: {error.strerror or error}") from error

    if not size:
        raise DataError(f"{path}: is empty; write a header and one row a decision")
    if size > MOST_BYTES:
        raise DataError(
            f"{path}: {size:,} bytes; at most {MOST_BYTES:,} are read: write it as Parquet, or in"
            " parts"
        )
    if head.startswith(PICKLES):
        raise DataError(
            f"{path}: is a pickle, which can run code and is never opened; write"
            " df.to_parquet('decisions.parquet') or df.to_csv('decisions.csv') instead"
        )


def refuse(path: Path, line: int, words: str) -> DataError:
    """Return the error of a file: its place, what is wrong, how to fix it."""
    place = f"{path}: line {line}" if line else str(path)
    return DataError(f"{place}: {words}")


def sample_of(path: Path) -> Sample:
    """Return the sample of a file. Raises DataError: it is no table."""
    check_file(path)
    table = TableFile(path, TableShape(fields=(), ignored=("*",)))

    def fail(fault: TableFault) -> None:
        raise refuse(path, fault.line, fault.words)

    columns: tuple[str, ...] = ()
    with file_faults(table, fail):
        columns = _names(table)

    lower = tuple(name.strip().lower() for name in columns)
    return Sample(path, table.kind, lower, columns)


def _names(table: TableFile) -> tuple[str, ...]:
    path = table.path
    if table.kind == "parquet":
        with open_parquet(path) as file:
            return tuple(file.schema_arrow.names)

    if table.kind == "csv":
        with open_strict(path) as stream:
            try:
                return tuple(next(csv_reader(bounded_lines(stream)), []))
            except csv.Error as error:
                raise refuse(path, 1, f"is not CSV: {error}") from error

    with open_unpacked(path) as packed:
        head = packed.read(READ).decode("utf-8-sig", "replace")
    return tuple(itertools.islice(_keys_in(head), 50))


def _keys_in(text: str) -> list[str]:
    """Return the texts before a colon: keys, whatever is cut off behind them."""
    keys = []
    for piece in text.split('":')[:-1]:
        keys.append(piece.rpartition('"')[2])

    return list(dict.fromkeys(keys))
