"""Contents of a market file by part: the hashed rows, and their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb
import numpy as np

from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.data.manifest import Part, bars_key, contracts_key, table_key
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, AssetClass, Bars, IntArray, Resolution
from ktdeval_qfinzero.data.schema import TABLES, MarketTable


@dataclass(frozen=True, slots=True, eq=False)
class BarBlock:
    """Bars of a stock, of a crypto asset, or of all options with the same root, sorted by series
    and start.
    """

    asset_class: AssetClass
    resolution: Resolution
    owner: str  #: ticker; for options, their root
    symbols: Sequence[str]  #: [m] symbols of the series
    offsets: IntArray  #: [m + 1] index of each series' first bar; the last is the number of bars
    bars: Bars  #: [n]

    def symbol_at(self, row: int) -> str:
        """Return the symbol of a bar."""
        return self.symbols[int(np.searchsorted(self.offsets, row, side="right")) - 1]

    def years(self) -> IntArray:
        """[n] calendar years, in UTC, in which the bars start."""
        years: IntArray = (
            self.bars.start_ns.astype("datetime64[ns]").astype("datetime64[Y]").astype(np.int64)
        )
        return years + 1970


def bar_blocks(connection: duckdb.DuckDBPyConnection) -> Iterator[BarBlock]:
    """Yield all bars in a file, by class, resolution and owner."""
    groups = connection.execute(
        "SELECT asset_class, resolution, owner, list(series ORDER BY series), list(symbol ORDER BY series)"
        " FROM market.series GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for asset_class, resolution, owner, numbers, symbols in groups:
        found = connection.execute(
            f"SELECT series, {', '.join(BAR_COLUMNS)} FROM market.bars WHERE series BETWEEN ? AND ?",  # noqa: S608 - constants
            (numbers[0], numbers[-1]),
        ).fetchnumpy()
        series = np.asarray(found["series"])
        offsets = np.searchsorted(series, [*numbers, numbers[-1] + 1]).astype(np.int64)
        bars = Bars(*(np.asarray(found[name]) for name in BAR_COLUMNS))
        yield BarBlock(asset_class, resolution, owner, symbols, offsets, bars)


def bar_parts(block: BarBlock) -> Iterator[Part]:
    """Yield the parts of a block, one per year."""
    years = block.years()
    series = np.repeat(np.arange(len(block.symbols)), np.diff(block.offsets))
    for year in np.unique(years).tolist():
        rows = np.flatnonzero(years == year)
        bars = block.bars.take(rows)
        own, counts = np.unique(series[rows], return_counts=True)
        symbols = [block.symbols[number] for number in own.tolist()]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        key = bars_key(block.asset_class, block.resolution, block.owner, year)
        first_ns = int(bars.start_ns.min())
        last_ns = int(bars.start_ns.max())
        yield Part(
            key=key,
            rows=len(rows),
            content=_bars_content(symbols, offsets, bars),
            first_ns=first_ns,
            last_ns=last_ns,
        )


def _bars_content(symbols: Sequence[str], offsets: IntArray, bars: Bars) -> str:
    """Return the SHA-256 of bars, sorted by symbol and start."""
    head = dumps_canonical({"symbols": symbols, "columns": BAR_COLUMNS})
    digest = hashlib.sha256(head.encode())
    digest.update(np.ascontiguousarray(offsets, "<i8").data)
    for name, column in zip(BAR_COLUMNS, bars.columns(), strict=True):
        if name == "volume":
            # Adding 0.0 turns -0.0 into 0.0, an equal volume with other bytes.
            digest.update((column.astype("<f8") + 0.0).data)
        else:
            digest.update(np.ascontiguousarray(column, "<i8").data)

    return digest.hexdigest()


def table_rows(connection: duckdb.DuckDBPyConnection, table: MarketTable) -> list[Any]:
    """Return all rows of a table, sorted by its key."""
    return table.rows_of(connection.execute(table.select("market")).fetchall())


def table_parts(table: MarketTable, rows: Sequence[Any]) -> Iterator[Part]:
    """Yield the parts of a table's rows, which are sorted by its key. Contracts have one part for
    each underlying, deals have one part only if there are any, and every other table has one part.
    """
    if table.name == "contracts":
        by_underlying = sorted(rows, key=lambda row: row.underlying)
        for underlying, group in groupby(by_underlying, lambda row: str(row.underlying)):
            own = list(group)
            yield _table_part(contracts_key(underlying), table, own)
    elif rows or table.name != "deals":
        yield _table_part(table_key(table.name), table, rows)


def _table_part(key: str, table: MarketTable, rows: Sequence[Any]) -> Part:
    return Part(key=key, rows=len(rows), content=table.content(rows))


def all_parts(connection: duckdb.DuckDBPyConnection) -> dict[str, Part]:
    """Return the parts of a file, keyed by part key."""
    parts: list[Part] = []
    for block in bar_blocks(connection):
        parts += bar_parts(block)
    for table in TABLES.values():
        parts += table_parts(table, table_rows(connection, table))

    return {part.key: part for part in sorted(parts, key=lambda part: part.key)}
