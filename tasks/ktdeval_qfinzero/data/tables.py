"""The small tables: symbols, contracts, rates, dividends, splits and borrow, as rows, as Parquet, and as content to hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.api import JsonValue, content_hash, dumps_canonical
from ktdeval_qfinzero.data.layout import TableName
from ktdeval_qfinzero.data.row_records import event_record, news_record
from ktdeval_qfinzero.data.rows import (
    TENOR_YEARS,
    BorrowRow,
    ContractRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
)

Row = SymbolRow | ContractRow | RateRow | DividendRow | SplitRow | BorrowRow
_ARROW = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "date": pa.date32()}
_YIELD = "yield_"


@dataclass(frozen=True, slots=True)
class Table:
    """How a table is kept.

    Attributes:
        name: of the table.
        row: class of its rows.
        key: of a row: no two rows have the same, and rows are sorted by it.
        own: columns that are fields of the row, with their Arrow types.
    """

    name: TableName
    row: type[Any]
    key: Callable[[Any], Any]
    own: Mapping[str, pa.DataType]


def _table(name: TableName, row: type[Any], *key: str) -> Table:
    annotations = {field.name: str(field.type) for field in fields(row)}
    own = {column: _ARROW.get(kind, pa.string()) for column, kind in annotations.items() if not kind.startswith("Mapping")}
    return Table(name, row, attrgetter(*key), own)


TABLES: Mapping[TableName, Table] = {
    "symbols": _table("symbols", SymbolRow, "symbol", "asset_class"),
    "contracts": _table("contracts", ContractRow, "symbol"),
    "rates": _table("rates", RateRow, "day"),
    "dividends": _table("dividends", DividendRow, "symbol", "ex_day", "declared_ns"),
    "splits": _table("splits", SplitRow, "symbol", "ex_day"),
    "borrow": _table("borrow", BorrowRow, "symbol", "available_ns"),
}


def write_rows(path: Path, name: TableName, rows: Sequence[Row]) -> None:
    """Write a table, sorted.

    Raises:
        OSError: it can't be written.
    """
    table = TABLES[name]
    ordered = sorted(rows, key=table.key)
    columns = {column: pa.array([getattr(row, column) for row in ordered], kind) for column, kind in table.own.items()}
    if name == "rates":
        curves = [row.yields_pct for row in ordered if isinstance(row, RateRow)]
        columns |= {f"{_YIELD}{tenor}": pa.array([curve.get(tenor) for curve in curves], pa.float64()) for tenor in TENOR_YEARS}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def read_rows(path: Path, name: TableName) -> list[Any]:
    """Read a table, in the order that it has.

    Raises:
        OSError, pa.ArrowException: it can't be read, or lacks a column.
    """
    table = TABLES[name]
    stored = pq.read_table(path, use_threads=False)
    wanted = [*table.own, *(f"{_YIELD}{tenor}" for tenor in TENOR_YEARS if name == "rates")]
    if stored.column_names != wanted:
        raise pa.ArrowInvalid(f"other columns than those of {name}")
    values = {column: stored[column].to_pylist() for column in table.own}
    if name == "rates":
        values["yields_pct"] = _curves({tenor: stored[f"{_YIELD}{tenor}"].to_pylist() for tenor in TENOR_YEARS})
    order = [field.name for field in fields(table.row)]
    return [table.row(*row) for row in zip(*(values[column] for column in order))]


def rows_content(name: TableName, rows: Iterable[Row]) -> str:
    """SHA-256 over rows in the order of their keys, whatever order they come in."""
    columns = [field.name for field in fields(TABLES[name].row)]
    ordered = sorted(rows, key=TABLES[name].key)
    return content_hash([[_plain(getattr(row, column)) for column in columns] for row in ordered])


def events_content(rows: Iterable[EventRow]) -> str:
    """SHA-256 over events in the order of their ids."""
    return _lines_content(event_record(row) for row in sorted(rows, key=lambda row: row.event_id))


def news_content(rows: Iterable[NewsRow]) -> str:
    """SHA-256 over articles in the order of their ids."""
    return _lines_content(news_record(row) for row in sorted(rows, key=lambda row: row.id))


def _lines_content(lines: Iterable[JsonValue]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(dumps_canonical(line).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _curves(columns: Mapping[str, Sequence[float | None]]) -> list[dict[str, float]]:
    rows = zip(*columns.values())
    return [{tenor: value for tenor, value in zip(columns, row) if value is not None} for row in rows]


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {tenor: float(value[tenor]) for tenor in TENOR_YEARS if tenor in value}
    return value
