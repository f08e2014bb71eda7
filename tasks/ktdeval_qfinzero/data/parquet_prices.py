"""Prices from a dataset folder, in Parquet.

A caller's symbol never becomes part of a path: it is looked up among the parts that the manifest names.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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

from ktdeval_qfinzero.data.bar_files import Block, FileIndex, Group, cut, join, read_group, read_index, within_int64
from ktdeval_qfinzero.data.blocks import owner_of
from ktdeval_qfinzero.data.layout import Manifest, Part, TableName, load_manifest, table_key, table_of
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    IntArray,
    RateRow,
    Resolution,
    Span,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.tables import TABLES
from ktdeval_qfinzero.errors import ServiceError

CACHE_BYTES = 256 << 20
_BYTES_OF_BAR = 56
_BYTES_OF_CONTRACT = 400
_BYTES_OF_GROUP = 2_000
_ALL = ""
_LOCK = attrgetter("_lock")


@dataclass(frozen=True, eq=False)
class _Contracts:
    """Contracts on an underlying, by symbol, and when each was listed."""

    rows: tuple[ContractRow, ...]
    listed_ns: IntArray
    roots: frozenset[str]


class ParquetPrices:
    """Prices of a dataset folder and what belongs to them, for any number of threads. Files are read when first needed, a row group
    at a time; at most `cache_bytes` stay decoded. All arrays are read-only. Raises DataError: no dataset is there.
    """

    def __init__(self, folder: Path, manifest: Manifest | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._folder = folder
        manifest = manifest or load_manifest(folder)
        self._parts = manifest.parts
        self._years: dict[tuple[AssetClass, str, Resolution], list[Part]] = {}
        for bar_file, part in sorted(manifest.bar_files().items(), key=lambda item: item[0]):
            self._years.setdefault((bar_file.asset_class, bar_file.symbol, bar_file.resolution), []).append(part)
        self._contract_parts = {table_of(key)[1]: part for key, part in self._parts.items() if table_of(key)[1]}
        # Threads that miss at once all read, and one of the equal values is kept: no thread waits for another's reading.
        self._lock = threading.Lock()
        self._indices: LRUCache[Any, FileIndex] = LRUCache(cache_bytes // 8, lambda index: _BYTES_OF_GROUP * len(index.groups))
        self._blocks: LRUCache[Any, Block] = LRUCache(cache_bytes, lambda block: _BYTES_OF_BAR * len(block))
        self._contracts: LRUCache[Any, _Contracts] = LRUCache(cache_bytes // 4, lambda held: _BYTES_OF_CONTRACT * len(held.rows))
        self._tables: dict[Any, Mapping[str, Sequence[Any]]] = {}

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        """Stocks and coins listed by then, by symbol."""
        return [row for row in self._of("symbols", _ALL) if row.listed_ns <= as_of_ns]

    def bars(self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: Span) -> Bars:
        """Bars that start in the span; empty for an unknown symbol. NOT cut: only `View` and the broker's engine call this. Raises
        ServiceError: `unavailable`.
        """
        pieces = []
        for part in self._years.get((asset_class, owner_of(asset_class, symbol) or "", resolution), ()):
            for block in self._blocks_of(part, span, symbol):
                index = bisect_left(block.symbols, symbol)
                if index < len(block.symbols) and block.symbols[index] == symbol:
                    rows = slice(int(block.offsets[index]), int(block.offsets[index + 1]))
                    pieces.append(cut(block.bars.take(rows), span))
        return join([bars for bars in pieces if len(bars)])

    def chain_bars(self, underlying: str, resolution: Resolution, span: Span) -> Mapping[str, Bars]:
        """Bars of all options on an underlying in the span, by OPRA symbol in order; NOT cut, as `bars`, whose error it raises."""
        pieces: dict[str, list[Bars]] = {}
        contracts = self._contract_parts.get(underlying)
        roots = {underlying} if contracts is None else self._contracts_of(contracts.file).roots
        for part in (part for root in sorted(roots) for part in self._years.get(("option", root, resolution), ())):
            for block in self._blocks_of(part, span):
                for symbol, bars in _in_span(block, span):
                    pieces.setdefault(symbol, []).append(bars)
        return {symbol: join(pieces[symbol]) for symbol in sorted(pieces)}

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        """Options on an underlying that were listed by then, by symbol; expired ones too."""
        part = self._contract_parts.get(underlying)
        if part is None:
            return ()
        held = self._contracts_of(part.file)
        listed = held.listed_ns <= as_of_ns
        return held.rows if listed.all() else tuple(compress(held.rows, listed.tolist()))

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        """Curves of the days [first, last] that were published by then, by day."""
        return [row for row in self._of("rates", _ALL) if first <= row.day <= last and row.available_ns <= as_of_ns]

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        """Dividends declared by then, by ex-day."""
        return [row for row in self._of("dividends", symbol) if row.declared_ns <= as_of_ns]

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        """Splits announced by then, by ex-day."""
        return [row for row in self._of("splits", symbol) if row.announced_ns <= as_of_ns]

    def deals(self, symbol: str, as_of_ns: int) -> Sequence[DealRow]:
        """Return what was announced by then about the end of a stock's trading, by day."""
        return [row for row in self._of("deals", symbol) if row.announced_ns <= as_of_ns]

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        """Return what can be borrowed then; None where nothing is known."""
        rows: list[BorrowRow] = [row for row in self._of("borrow", symbol) if row.available_ns <= as_of_ns]
        return rows[-1] if rows else None

    def _blocks_of(self, part: Part, span: Span, symbol: str = "") -> Iterator[Block]:
        """Yield the row groups of a file that may hold bars that start in the span, of all symbols or of one."""
        if not Group("", "", part.first_ns, part.last_ns).overlaps(span):
            return
        index = self._index(part.file)
        for number, group in enumerate(index.groups):
            if group.overlaps(span) and (not symbol or group.first_symbol <= symbol <= group.last_symbol):
                yield self._block(part.file, number)

    @cachedmethod(attrgetter("_indices"), lock=_LOCK)
    def _index(self, file: str) -> FileIndex:
        with _reading(file):
            return read_index(self._folder / file)

    @cachedmethod(attrgetter("_blocks"), lock=_LOCK)
    def _block(self, file: str, number: int) -> Block:
        index = self._index(file)
        with _reading(file):
            return read_group(self._folder / file, index, number)

    @cachedmethod(attrgetter("_contracts"), lock=_LOCK)
    def _contracts_of(self, file: str) -> _Contracts:
        rows = self._rows(file, "contracts")
        return _Contracts(tuple(rows), np.array([row.listed_ns for row in rows], np.int64), frozenset(row.root for row in rows))

    @cachedmethod(attrgetter("_tables"), lock=_LOCK)
    def _table(self, name: TableName) -> Mapping[str, Sequence[Any]]:
        part = self._parts.get(table_key(name))
        rows = [] if part is None else self._rows(part.file, name)
        if name in ("symbols", "rates"):
            return {_ALL: tuple(rows)}
        by_symbol: dict[str, list[Any]] = {}
        for row in rows:
            by_symbol.setdefault(row.symbol, []).append(row)
        return by_symbol

    def _of(self, name: TableName, symbol: str) -> Sequence[Any]:
        """Rows of a small table that are about a symbol; of symbols and rates, all."""
        return self._table(name).get(symbol, ())

    def _rows(self, file: str, name: TableName) -> list[Any]:
        with _reading(file):
            return TABLES[name].read(self._folder / file)


def _in_span(block: Block, span: Span) -> Iterator[tuple[str, Bars]]:
    """Yield each symbol that has bars in the span, with these."""
    start_ns = block.bars.start_ns
    first, end = within_int64(span)
    rows = np.flatnonzero((start_ns >= first) & (start_ns < end))
    if not len(rows):
        return
    taken = block.bars.take(rows)
    for name in BAR_COLUMNS:
        getattr(taken, name).flags.writeable = False
    owners = np.searchsorted(block.offsets, rows, side="right") - 1
    begins = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(rows)]))
    for owner, (begin, stop) in zip(owners[begins[:-1]].tolist(), pairwise(begins.tolist())):
        yield block.symbols[owner], taken.take(slice(begin, stop))


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Make a file that can't be read the data's unavailability, not the service's fault."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        message = f"{file.rpartition('/')[2]} can't be read: the dataset was updated or damaged; open it again, or check it"
        raise ServiceError("unavailable", message) from error
