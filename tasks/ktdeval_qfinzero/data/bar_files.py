"""Bars as Parquet files: one of a symbol (options: of all on an underlying) and a year, sorted by symbol and start.

Columns are `symbol` and those of `Bars`. Starts, prices and counts are delta-encoded and volumes split by bytes before Zstandard:
that is half the size of dictionary pages, and faster to write and to read. Row groups are small, and their statistics say which
symbols and moments they hold, so that one day or one contract is read without the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.jsonio import dumps_canonical
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars, IntArray, Span, empty_bars
from ktdeval_qfinzero.moments import day_of, day_start

ROWS_OF_GROUP = 16_384
_INT64 = np.iinfo(np.int64)
_VOLUME = "volume"
_SCHEMA = pa.schema({"symbol": pa.string()} | {name: pa.float64() if name == _VOLUME else pa.int64() for name in BAR_COLUMNS})
_ENCODINGS = {name: "BYTE_STREAM_SPLIT" if name == _VOLUME else "DELTA_BINARY_PACKED" for name in BAR_COLUMNS}


@dataclass(frozen=True, eq=False)
class Block:
    """Bars of several instruments, one after the other by symbol, each ascending."""

    symbols: tuple[str, ...]  #: [m] ascending
    offsets: IntArray  #: [m + 1] where each symbol's bars begin; the last is how many bars there are
    bars: Bars  #: [n] all bars

    def __len__(self) -> int:
        return len(self.bars)


@dataclass(frozen=True, slots=True)
class Group:
    """Row group by its statistics: symbols and moments, both ends included."""

    first_symbol: str
    last_symbol: str
    first_ns: int
    last_ns: int

    def overlaps(self, span: Span) -> bool:
        """Return whether it may hold bars that start in the span."""
        return self.first_ns < span.end_ns and self.last_ns >= span.start_ns


@dataclass(frozen=True, slots=True)
class FileIndex:
    """A file's row groups, and the metadata with which they are read."""

    metadata: pq.FileMetaData
    groups: tuple[Group, ...]


def block_of(series: Mapping[str, Bars]) -> Block:
    """Bars by symbol as one block; symbols without bars are left out."""
    held = [(symbol, series[symbol]) for symbol in sorted(series) if len(series[symbol])]
    offsets = np.concatenate(([0], np.cumsum([len(bars) for _, bars in held], dtype=np.int64)))
    return Block(tuple(symbol for symbol, _ in held), offsets.astype(np.int64), join([bars for _, bars in held]))


def by_year(bars: Bars) -> Iterator[tuple[int, Bars]]:
    """Bars cut at the new years of UTC."""
    if not len(bars):
        return
    first, last = (day_of(int(bars.start_ns[row])).year for row in (0, -1))
    for year in range(first, last + 1):
        piece = bars if first == last else cut(bars, Span(day_start(date(year, 1, 1)), day_start(date(year + 1, 1, 1))))
        if len(piece):
            yield year, piece


def join(pieces: Sequence[Bars]) -> Bars:
    """Bars one after the other; immutable."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return empty_bars()
    columns = [np.concatenate([getattr(piece, name) for piece in pieces]) for name in BAR_COLUMNS]
    for column in columns:
        column.flags.writeable = False
    return Bars(*columns)


def cut(bars: Bars, span: Span) -> Bars:
    """Return the bars that start in the span."""
    first, stop = np.searchsorted(bars.start_ns, within_int64(span))
    return bars.take(slice(int(first), int(stop)))


def within_int64(span: Span) -> IntArray:
    """[2] the ends of a span, as near as numpy's integers come to them."""
    return np.array([min(max(moment, _INT64.min), _INT64.max) for moment in (span.start_ns, span.end_ns)], np.int64)


def content_of(block: Block) -> str:
    """SHA-256 over the bars of a block, whatever file they are in."""
    digest = hashlib.sha256(dumps_canonical({"symbols": block.symbols, "columns": BAR_COLUMNS}).encode())
    digest.update(np.ascontiguousarray(block.offsets, "<i8").data)
    for name in BAR_COLUMNS:
        column = getattr(block.bars, name)
        # A negative zero is a zero.
        digest.update((column.astype("<f8") + 0.0).data if name == _VOLUME else np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest()


def write_block(path: Path, block: Block) -> None:
    """Write a file of bars. Raises OSError: it can't be written."""
    codes = np.repeat(np.arange(len(block.symbols), dtype=np.int32), np.diff(block.offsets))
    columns = {"symbol": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(block.symbols, pa.string()))}
    columns |= {name: pa.array(np.ascontiguousarray(getattr(block.bars, name))) for name in BAR_COLUMNS}
    how = {"compression": "zstd", "compression_level": 3, "row_group_size": ROWS_OF_GROUP, "store_schema": False}
    pq.write_table(pa.table(columns), path, use_dictionary=["symbol"], column_encoding=_ENCODINGS, **how)


def read_index(path: Path) -> FileIndex:
    """Return a file's row groups. Raises OSError, pa.ArrowException: unreadable, or not a file of bars."""
    metadata = pq.read_metadata(path)
    _check_columns(metadata)
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        symbols, starts = group.column(0).statistics, group.column(1).statistics
        if symbols is None or starts is None or not symbols.has_min_max or not starts.has_min_max:
            raise pa.ArrowInvalid("no statistics")
        with decoding():
            groups.append(Group(symbols.min, symbols.max, starts.min, starts.max))
    return FileIndex(metadata, tuple(groups))


def read_group(path: Path, index: FileIndex, number: int) -> Block:
    """Decode a row group; immutable. Raises OSError, pa.ArrowException: unreadable."""
    with pq.ParquetFile(path, metadata=index.metadata, read_dictionary=["symbol"]) as file:
        table = file.read_row_group(number, use_threads=False)
    return _decoded(table)


def read_block(path: Path) -> Block:
    """Decode a whole file, in its order. Raises OSError, pa.ArrowException: unreadable, or not a file of bars."""
    metadata = pq.read_metadata(path)
    _check_columns(metadata)
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=["symbol"]) as file:
        return _decoded(file.read(use_threads=False))


def _check_columns(metadata: pq.FileMetaData) -> None:
    if not metadata.schema.to_arrow_schema().equals(_SCHEMA):
        raise pa.ArrowInvalid("other columns than those of bars, or of another type")


@contextmanager
def decoding() -> Iterator[None]:
    """Raise pa.ArrowInvalid, as for other damage of a file, for texts that are not UTF-8 and days that Python does not have."""
    try:
        yield
    except (UnicodeDecodeError, OverflowError) as error:
        raise pa.ArrowInvalid(f"a cell that can't be read: {error}") from error


def _decoded(table: pa.Table) -> Block:
    if any(column.null_count for column in table.columns):
        raise pa.ArrowInvalid("a cell that is empty")
    symbols = table["symbol"].combine_chunks()
    # Versions of pyarrow differ in whether this is the array itself or one chunk of it.
    symbols = symbols.chunk(0) if isinstance(symbols, pa.ChunkedArray) else symbols
    codes = symbols.indices.to_numpy()
    begins = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1)) if len(codes) else np.empty(0, np.int64)
    with decoding():
        names = symbols.dictionary.to_pylist()
    columns: list[Any] = [table[name].to_numpy() for name in BAR_COLUMNS]
    for column in columns:
        column.flags.writeable = False
    offsets = np.concatenate((begins, [len(codes)])).astype(np.int64)
    return Block(tuple(names[code] for code in codes[begins].tolist()), offsets, Bars(*columns))
