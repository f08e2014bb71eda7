"""Read prices from the Parquet files of a dataset folder.

Symbols come from users: they are looked up among the files of the manifest, and never become part
of a path.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import compress, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache, cachedmethod

from ktdeval_qfinzero.data.bar_files import (
    BarBlock,
    FileIndex,
    RowGroupRange,
    cut,
    join,
    read_group,
    read_index,
    within_int64,
)
from ktdeval_qfinzero.data.layout import (
    DatasetManifest,
    Part,
    TableName,
    load_manifest,
    table_key,
    table_of,
)
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    IntArray,
    MomentSpan,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.tables import TABLES
from ktdeval_qfinzero.data.validation_rules import owner_of
from ktdeval_qfinzero.errors import ServiceError

CACHE_BYTES = 256 << 20
_BYTES_OF_BAR = 56  #: Seven columns of eight bytes
_BYTES_OF_CONTRACT = 400  #: About
_BYTES_OF_GROUP = 2_000  #: About
_ALL = ""  #: Key of tables that are not kept by symbol
_LOCK = attrgetter("_lock")


@dataclass(frozen=True, eq=False)
class _ContractIndex:
    """Contracts on an underlying, by symbol."""

    rows: tuple[ContractRow, ...]
    listed_ns: IntArray  #: [n]
    roots: frozenset[str]  #: tickers in the contracts' symbols; after a split, several


class ParquetPrices:
    """Prices and small tables of a dataset folder, safe for threads. Files are read when first
    needed, a row group at a time; at most `cache_bytes` of them stay decoded. All arrays are
    read-only. Raises DataError if the folder has no dataset.
    """

    def __init__(
        self, folder: Path, manifest: DatasetManifest | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._folder = folder
        manifest = manifest or load_manifest(folder)
        self._parts = manifest.parts
        self._years: dict[tuple[AssetClass, str, Resolution], list[Part]] = {}

        for bar_file, part in sorted(manifest.bar_files().items(), key=lambda item: item[0]):
            series = (bar_file.asset_class, bar_file.symbol, bar_file.resolution)
            self._years.setdefault(series, []).append(part)

        self._contract_parts: dict[str, Part] = {}
        for key, part in self._parts.items():
            _, underlying = table_of(key)
            if underlying:
                self._contract_parts[underlying] = part

        # The lock protects the caches only, not the reading: threads that miss at the same time all
        # read, and the cache keeps one of the equal values.
        self._lock = threading.Lock()
        self._indices: LRUCache[Any, FileIndex] = LRUCache(
            cache_bytes // 8, lambda index: _BYTES_OF_GROUP * len(index.groups)
        )
        self._blocks: LRUCache[Any, BarBlock] = LRUCache(
            cache_bytes, lambda block: _BYTES_OF_BAR * len(block)
        )
        self._contracts: LRUCache[Any, _ContractIndex] = LRUCache(
            cache_bytes // 4, lambda held: _BYTES_OF_CONTRACT * len(held.rows)
        )
        self._tables: dict[Any, Mapping[str, Sequence[Any]]] = {}

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        """Stocks and coins listed by then, by symbol."""
        return [row for row in self._of("symbols", _ALL) if row.listed_ns <= as_of_ns]

    def bars(
        self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: MomentSpan
    ) -> Bars:
        """Return the bars that start in the span; none for an unknown symbol. They may lie after
        the caller's moment: only `View` and the broker's engine may call this. Raises ServiceError
        (`unavailable`) if a file can't be read.
        """
        owner = owner_of(asset_class, symbol) or ""
        pieces: list[Bars] = []
        for part in self._years.get((asset_class, owner, resolution), ()):
            for block in self._blocks_of(part, span, symbol):
                bars = _bars_of(block, symbol, span)
                if len(bars):
                    pieces.append(bars)

        return join(pieces)

    def chain_bars(
        self, underlying: str, resolution: Resolution, span: MomentSpan
    ) -> Mapping[str, Bars]:
        """Return the bars of all options on an underlying that start in the span, by OPRA symbol in
        order. As with `bars`, they may lie after the caller's moment.
        """
        pieces: dict[str, list[Bars]] = {}
        for root in sorted(self._roots(underlying)):
            for part in self._years.get(("option", root, resolution), ()):
                for block in self._blocks_of(part, span):
                    for symbol, bars in _in_span(block, span):
                        pieces.setdefault(symbol, []).append(bars)

        return {symbol: join(pieces[symbol]) for symbol in sorted(pieces)}

    def _roots(self, underlying: str) -> Set[str]:
        """Return the tickers that name the files of an underlying's options."""
        part = self._contract_parts.get(underlying)
        if part is None:
            return {underlying}
        return self._contracts_of(part.file).roots

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        """Options on an underlying listed by then, by symbol; expired ones too."""
        part = self._contract_parts.get(underlying)
        if part is None:
            return ()

        contracts = self._contracts_of(part.file)
        is_listed = contracts.listed_ns <= as_of_ns
        if is_listed.all():
            return contracts.rows
        return tuple(compress(contracts.rows, is_listed.tolist()))

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        """Yield curves of the days [first, last] published by then, by day."""
        curves: list[RateRow] = []
        for row in self._of("rates", _ALL):
            if first <= row.day <= last and row.available_ns <= as_of_ns:
                curves.append(row)

        return curves

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        """Dividends declared by then, by ex-day."""
        return [row for row in self._of("dividends", symbol) if row.declared_ns <= as_of_ns]

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        """Splits announced by then, by ex-day."""
        return [row for row in self._of("splits", symbol) if row.announced_ns <= as_of_ns]

    def deals(self, symbol: str, as_of_ns: int) -> Sequence[DealRow]:
        """Deals announced by then that end a stock's trading, by day."""
        return [row for row in self._of("deals", symbol) if row.announced_ns <= as_of_ns]

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        """Last published supply of shares to borrow; None if there is none by then."""
        last: BorrowRow | None = None
        for row in self._of("borrow", symbol):
            if row.available_ns <= as_of_ns:
                last = row

        return last

    def _blocks_of(self, part: Part, span: MomentSpan, symbol: str = "") -> Iterator[BarBlock]:
        """Yield the row groups of a file that may have bars in the span, of one symbol or of
        all.
        """
        if not RowGroupRange("", "", part.first_ns, part.last_ns).overlaps(span):
            return

        index = self._index(part.file)
        for number, group in enumerate(index.groups):
            if not group.overlaps(span):
                continue
            if not symbol or group.first_symbol <= symbol <= group.last_symbol:
                yield self._block(part.file, number)

    @cachedmethod(attrgetter("_indices"), lock=_LOCK)
    def _index(self, file: str) -> FileIndex:
        with _reading(file):
            return read_index(self._folder / file)

    @cachedmethod(attrgetter("_blocks"), lock=_LOCK)
    def _block(self, file: str, number: int) -> BarBlock:
        index = self._index(file)
        with _reading(file):
            return read_group(self._folder / file, index, number)

    @cachedmethod(attrgetter("_contracts"), lock=_LOCK)
    def _contracts_of(self, file: str) -> _ContractIndex:
        rows = self._rows(file, "contracts")
        listed_ns = np.array([row.listed_ns for row in rows], np.int64)
        roots = frozenset(row.root for row in rows)
        return _ContractIndex(tuple(rows), listed_ns, roots)

    @cachedmethod(attrgetter("_tables"), lock=_LOCK)
    def _table(self, name: TableName) -> Mapping[str, Sequence[Any]]:
        part = self._parts.get(table_key(name))
        rows: list[Any] = []
        if part is not None:
            rows = self._rows(part.file, name)

        if name in ("symbols", "rates"):
            return {_ALL: tuple(rows)}

        by_symbol: dict[str, list[Any]] = {}
        for row in rows:
            by_symbol.setdefault(row.symbol, []).append(row)

        return by_symbol

    def _of(self, name: TableName, symbol: str) -> Sequence[Any]:
        """Rows of a symbol in a small table; symbols and rates are under `_ALL`."""
        return self._table(name).get(symbol, ())

    def _rows(self, file: str, name: TableName) -> list[Any]:
        with _reading(file):
            return TABLES[name].read(self._folder / file)


def _bars_of(block: BarBlock, symbol: str, span: MomentSpan) -> Bars:
    """Return the bars of a symbol that start in the span."""
    index = bisect_left(block.symbols, symbol)
    rows = slice(0, 0)
    if index < len(block.symbols) and block.symbols[index] == symbol:
        rows = slice(int(block.offsets[index]), int(block.offsets[index + 1]))

    return cut(block.bars.take(rows), span)


def _in_span(block: BarBlock, span: MomentSpan) -> Iterator[tuple[str, Bars]]:
    """Yield each symbol with bars in the span, and these bars."""
    start_ns = block.bars.start_ns
    first, end = within_int64(span)
    rows = np.flatnonzero((start_ns >= first) & (start_ns < end))
    if not len(rows):
        return

    # All symbols at once: chains have thousands of them, with few bars each.
    taken = block.bars.take(rows)
    for name in BAR_COLUMNS:
        getattr(taken, name).flags.writeable = False

    owners = np.searchsorted(block.offsets, rows, side="right") - 1
    changes = np.flatnonzero(np.diff(owners)) + 1
    bounds = [0, *changes.tolist(), len(rows)]
    for begin, stop in pairwise(bounds):
        symbol = block.symbols[int(owners[begin])]
        yield symbol, taken.take(slice(begin, stop))


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Turn an unreadable file into the service's error `unavailable`."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        message = (
            f"{file.rpartition('/')[2]} can't be read: the dataset was updated or damaged; open it"
            " again, or check it"
        )
        raise ServiceError("unavailable", message) from error
