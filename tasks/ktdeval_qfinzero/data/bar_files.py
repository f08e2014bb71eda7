"""Bars as Parquet files: one for each symbol and year (for options, one for all on an underlying),
sorted by symbol and start.

Columns are `symbol` and those of `Bars`. Starts, prices and counts are delta-encoded, and volumes
are split by bytes before they are compressed: half the size of dictionary pages, and faster to
write and read. Row groups are small and have statistics of symbols and moments, so that one day or
one contract is read without the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.values import check_parquet, dumps_canonical, open_parquet
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars, IntArray, MomentSpan, empty_bars
from ktdeval_qfinzero.timestamps import day_of, day_start

ROWS_OF_GROUP = 16_384
_INT64 = np.iinfo(np.int64)
_VOLUME = "volume"
_TYPES = {**dict.fromkeys(BAR_COLUMNS, pa.int64()), _VOLUME: pa.float64()}
_SCHEMA = pa.schema({"symbol": pa.string(), **_TYPES})
_ENCODINGS = {**dict.fromkeys(BAR_COLUMNS, "DELTA_BINARY_PACKED"), _VOLUME: "BYTE_STREAM_SPLIT"}


@dataclass(frozen=True, eq=False)
class BarBlock:
    """Bars of several instruments, sorted by symbol and start."""

    symbols: tuple[str, ...]  #: [m] ascending
    offsets: IntArray  #: [m + 1] index of each symbol's first bar; the last is the number of bars
    bars: Bars  #: [n] all bars

    def __len__(self) -> int:
        return len(self.bars)


@dataclass(frozen=True, slots=True)
class RowGroupRange:
    """Range of symbols and starts in a row group, both ends included."""

    first_symbol: str
    last_symbol: str
    first_ns: int
    last_ns: int

    def overlaps(self, span: MomentSpan) -> bool:
        """Whether the group may have bars that start in the span."""
        return self.first_ns < span.end_ns and self.last_ns >= span.start_ns


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Row groups of a file, and its metadata, which reading a group needs."""

    metadata: pq.FileMetaData
    groups: tuple[RowGroupRange, ...]


def block_of(series: Mapping[str, Bars]) -> BarBlock:
    """Return bars by symbol as one block, without symbols that have no bars."""
    symbols = [symbol for symbol in sorted(series) if len(series[symbol])]
    pieces = [series[symbol] for symbol in symbols]
    offsets = np.zeros(len(pieces) + 1, np.int64)
    offsets[1:] = np.cumsum([len(bars) for bars in pieces], dtype=np.int64)
    return BarBlock(tuple(symbols), offsets, join(pieces))


def by_year(bars: Bars) -> Iterator[tuple[int, Bars]]:
    """Yield the bars of each calendar year in UTC."""
    if not len(bars):
        return

    first = day_of(int(bars.start_ns[0])).year
    last = day_of(int(bars.start_ns[-1])).year
    if first == last:
        yield first, bars
        return

    for year in range(first, last + 1):
        piece = cut(bars, MomentSpan(day_start(date(year, 1, 1)), day_start(date(year + 1, 1, 1))))
        if len(piece):
            yield year, piece


def join(pieces: Sequence[Bars]) -> Bars:
    """Concatenate bars; the arrays are immutable."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return empty_bars()

    joined = Bars(
        np.concatenate([piece.start_ns for piece in pieces]),
        np.concatenate([piece.open_e4 for piece in pieces]),
        np.concatenate([piece.high_e4 for piece in pieces]),
        np.concatenate([piece.low_e4 for piece in pieces]),
        np.concatenate([piece.close_e4 for piece in pieces]),
        np.concatenate([piece.volume for piece in pieces]),
        np.concatenate([piece.transactions for piece in pieces]),
    )
    return _immutable(joined)


def _immutable(bars: Bars) -> Bars:
    for column in bars.columns():
        column.flags.writeable = False
    return bars


def cut(bars: Bars, span: MomentSpan) -> Bars:
    """Return the bars that start in the span."""
    first, stop = np.searchsorted(bars.start_ns, within_int64(span))
    return bars.take(slice(int(first), int(stop)))


def within_int64(span: MomentSpan) -> IntArray:
    """Return [2] the ends of a span, limited to 64-bit integers."""
    ends = [_within_int64(span.start_ns), _within_int64(span.end_ns)]
    return np.array(ends, np.int64)


def _within_int64(moment: int) -> int:
    return min(max(moment, int(_INT64.min)), int(_INT64.max))


def content_of(block: BarBlock) -> str:
    """Return the SHA-256 over the bars of a block, which does not depend on their file."""
    head = dumps_canonical({"symbols": block.symbols, "columns": BAR_COLUMNS})
    digest = hashlib.sha256(head.encode())
    digest.update(np.ascontiguousarray(block.offsets, "<i8").data)
    for name, column in zip(BAR_COLUMNS, block.bars.columns(), strict=True):
        if name == _VOLUME:
            # Adding 0.0 turns -0.0 into 0.0, which is an equal volume but has other bytes.
            digest.update((column.astype("<f8") + 0.0).data)
        else:
            digest.update(np.ascontiguousarray(column, "<i8").data)

    return digest.hexdigest()


def write_block(path: Path, block: BarBlock) -> None:
    """Write a file of bars. Raises OSError if it can't be written."""
    codes = np.repeat(np.arange(len(block.symbols), dtype=np.int32), np.diff(block.offsets))
    symbols = pa.array(block.symbols, pa.string())
    columns = {"symbol": pa.DictionaryArray.from_arrays(pa.array(codes), symbols)}
    for name, column in zip(BAR_COLUMNS, block.bars.columns(), strict=True):
        columns[name] = pa.array(np.ascontiguousarray(column))

    pq.write_table(
        pa.table(columns),
        path,
        use_dictionary=["symbol"],
        column_encoding=_ENCODINGS,
        compression="zstd",
        compression_level=3,
        row_group_size=ROWS_OF_GROUP,
        store_schema=False,
    )


def read_index(path: Path) -> FileIndex:
    """Return a file's row groups. Raises OSError or pa.ArrowException if the file is unreadable or
    not one of bars.
    """
    with decoding(), pq.ParquetFile(path) as file:
        _check_columns(file.metadata)
        check_parquet(file.metadata, path.stat().st_size, None)
        groups = [_range_of(file, number) for number in range(file.num_row_groups)]

    return FileIndex(file.metadata, tuple(groups))


def _range_of(file: pq.ParquetFile, number: int) -> RowGroupRange:
    """Return symbols and starts of a row group, by its statistics. A row is read first: there Arrow
    refuses a damaged description, which ends the process where it is only looked at.
    """
    next(file.iter_batches(1, row_groups=[number], columns=_SCHEMA.names[:2]), None)
    group = file.metadata.row_group(number)
    symbols = group.column(0).statistics
    starts = group.column(1).statistics
    if symbols is None or starts is None or not symbols.has_min_max or not starts.has_min_max:
        raise pa.ArrowInvalid("no statistics")

    return RowGroupRange(symbols.min, symbols.max, starts.min, starts.max)


def read_group(path: Path, index: FileIndex, number: int) -> BarBlock:
    """Decode a row group; the arrays are immutable. Raises OSError or pa.ArrowException if it is
    unreadable.
    """
    options = {"metadata": index.metadata, "read_dictionary": ["symbol"]}
    with decoding(), pq.ParquetFile(path, **options) as file:
        table = file.read_row_group(number, use_threads=False)
    return _decode_table(table)


def read_block(path: Path) -> BarBlock:
    """Decode a whole file, in its order. Raises OSError or pa.ArrowException if the file is
    unreadable or not one of bars.
    """
    metadata = pq.read_metadata(path)
    _check_columns(metadata)
    with open_parquet(path, metadata=metadata, read_dictionary=["symbol"]) as file:
        return _decode_table(file.read(use_threads=False))


def _check_columns(metadata: pq.FileMetaData) -> None:
    with decoding():
        schema = metadata.schema.to_arrow_schema()

    if not schema.equals(_SCHEMA):
        raise pa.ArrowInvalid("other columns than those of bars, or of another type")


@contextmanager
def decoding() -> Iterator[None]:
    """Turn errors by texts that are not UTF-8, and by days outside Python's range, into
    pa.ArrowInvalid, the error for all other damage of a file.
    """
    try:
        yield
    except (UnicodeDecodeError, OverflowError) as error:
        raise pa.ArrowInvalid(f"a cell that can't be read: {error}") from error


def _decode_table(table: pa.Table) -> BarBlock:
    if any(column.null_count for column in table.columns):
        raise pa.ArrowInvalid("a cell that is empty")

    symbols = table["symbol"].combine_chunks()
    # Versions of pyarrow differ in whether this is the array itself or one chunk of it.
    if isinstance(symbols, pa.ChunkedArray):
        symbols = symbols.chunk(0)

    codes: npt.NDArray[np.int32] = symbols.indices.to_numpy()
    with decoding():
        names: list[str] = symbols.dictionary.to_pylist()

    # A symbol's bars begin where the code differs from the one before.
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    symbols_in_order = tuple(names[code] for code in codes[begins].tolist())
    offsets = np.append(begins, len(codes)).astype(np.int64)
    columns = [table[name].to_numpy() for name in BAR_COLUMNS]

    return BarBlock(symbols_in_order, offsets, _immutable(Bars(*columns)))
