"""Tables of rows: how each is kept in files (Parquet; SQLite for events and news), checked, and hashed as content."""

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

from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical
from ktdeval_qfinzero.data.layout import SINGLE_TABLES, TableName, contracts_key, table_key
from ktdeval_qfinzero.data.row_rules import fault_of, key_text
from ktdeval_qfinzero.data.rows import (
    TENOR_YEARS,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
    row_key,
)
from ktdeval_qfinzero.data.sqlite_files import record_of
from ktdeval_qfinzero.data.sqlite_stores import EVERYTHING, open_calendars, open_news, write_calendars, write_news

_ARROW = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "date": pa.date32()}
_YIELD = "yield_"


@dataclass(frozen=True, slots=True)
class Table:
    """Table: how its rows are kept, checked and hashed."""

    name: TableName  #: of the table
    row: type[Any]  #: class of its rows
    key: Callable[[Any], Any]  #: of a row: no two rows have the same, and the rows of a Parquet file are sorted by it
    #: columns of its Parquet file that are fields of the row, with their Arrow types; none of events and articles
    own: Mapping[str, pa.DataType]

    def write(self, path: Path, rows: Sequence[Any]) -> None:
        """Write a file, sorted. Raises OSError, DataError: it can't be written."""
        if self.name == "events":
            write_calendars(path, sorted(rows, key=row_key))
        elif self.name == "news":
            write_news(path, sorted(rows, key=row_key))
        else:
            _write_parquet(self, path, sorted(rows, key=self.key))

    def read(self, path: Path) -> list[Any]:
        """Read a file, in its order. Raises OSError, pa.ArrowException, DataError, ServiceError: unreadable or of another kind."""
        if self.name == "events":
            return list(open_calendars(path).events(*EVERYTHING))
        return list(open_news(path).news(*EVERYTHING)) if self.name == "news" else _read_parquet(self, path)

    def content(self, rows: Iterable[Any]) -> str:
        """Return the SHA-256 over rows in the order of their keys, whatever order they come in."""
        ordered = sorted(rows, key=self.key)
        if self.own:
            names = [field.name for field in fields(self.row)]
            return content_hash([[_plain(getattr(row, name)) for name in names] for row in ordered])
        digest = hashlib.sha256()
        for row in ordered:
            digest.update(f"{dumps_canonical(record_of(row))}\n".encode())
        return digest.hexdigest()

    def problems(self, rows: Sequence[Any]) -> list[str]:
        """Return what is wrong with rows: one line a row, and one for each key that stands twice."""
        lines = []
        seen = set()
        for row in rows:
            key = self.key(row)
            if (fault := fault_of(self.name, row)) is not None:
                lines.append(f"{key_text(key)}: {fault[0]}: expected {fault[1]}")
            if key in seen:
                lines.append(f"{key_text(key)}: stands more than once")
            seen.add(key)
        return lines


def _table(name: TableName, row: type[Any], *key: str) -> Table:
    annotations = {field.name: str(field.type) for field in fields(row)} if row not in (EventRow, NewsRow) else {}
    own = {column: _ARROW.get(kind, pa.string()) for column, kind in annotations.items() if not kind.startswith("Mapping")}
    return Table(name, row, attrgetter(*key), own)


TABLES: Mapping[TableName, Table] = {
    "symbols": _table("symbols", SymbolRow, "symbol", "asset_class"),
    "contracts": _table("contracts", ContractRow, "symbol"),
    "rates": _table("rates", RateRow, "day"),
    "dividends": _table("dividends", DividendRow, "symbol", "ex_day", "declared_ns"),
    "splits": _table("splits", SplitRow, "symbol", "ex_day"),
    "borrow": _table("borrow", BorrowRow, "symbol", "available_ns"),
    "deals": _table("deals", DealRow, "symbol", "day"),
    "events": _table("events", EventRow, "event_id"),
    "news": _table("news", NewsRow, "id"),
}


def parts_of(name: TableName, rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the rows of a table by the key of the part that they belong to."""
    if name != "contracts":
        return {table_key(name): rows} if rows or name in SINGLE_TABLES else {}
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(contracts_key(row.underlying), []).append(row)
    return dict(found)


def _write_parquet(table: Table, path: Path, ordered: Sequence[Any]) -> None:
    columns = {column: pa.array([getattr(row, column) for row in ordered], kind) for column, kind in table.own.items()}
    if table.name == "rates":
        curves = [row.yields_pct for row in ordered]
        columns |= {f"{_YIELD}{tenor}": pa.array([curve.get(tenor) for curve in curves], pa.float64()) for tenor in TENOR_YEARS}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def _read_parquet(table: Table, path: Path) -> list[Any]:
    stored = pq.read_table(path, use_threads=False)
    curves = [f"{_YIELD}{tenor}" for tenor in TENOR_YEARS if table.name == "rates"]
    if stored.column_names != [*table.own, *curves]:
        raise pa.ArrowInvalid(f"other columns than those of {table.name}")
    values = {column: stored[column].to_pylist() for column in table.own}
    if curves:
        rows = zip(*(stored[column].to_pylist() for column in curves))
        values["yields_pct"] = [{tenor: pct for tenor, pct in zip(TENOR_YEARS, row) if pct is not None} for row in rows]
    return [table.row(*row) for row in zip(*(values[field.name] for field in fields(table.row)))]


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {tenor: float(value[tenor]) for tenor in TENOR_YEARS if tenor in value}
    return value
