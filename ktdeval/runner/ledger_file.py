"""A ledger as one Parquet file: a row per step, orders and positions nested in it, every field exact.

Version 2 is that of any market: money in minor units of the currency in its metadata, quantities in steps and prices in ticks with
their scales there, and a column of charges. Version 1 is that of A-shares, without these, and with names of money that end in
`_fen` instead of `_minor`: only this file knows them, so that such a ledger keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec.inspect
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical, read_plain
from ktdeval.market.venue import FillRule
from ktdeval.trading.ledger import CountsRecord, Ledger, StepRecord
from ktdeval.trading.types import Scale
from ktdeval.typed import Value, decode_json, encode_canonical, from_plain, to_plain

_SPEC_KEY, _CASH_KEY, _MARKET_KEY = b"ktdeval.spec", b"ktdeval.initial_cash_fen", b"ktdeval.ledger"
_CHARGES = "charges"
_SCALARS = {
    msgspec.inspect.StrType: pa.string(),
    msgspec.inspect.LiteralType: pa.string(),
    msgspec.inspect.IntType: pa.int64(),
    msgspec.inspect.FloatType: pa.float64(),
}


class _Market(Value):
    """Metadata of version 2."""

    version: Literal[2]
    currency: str
    minor_per_unit: int
    days_a_year: int
    initial_cash_minor: int
    scales: dict[str, tuple[int, int, FillRule]]  #: ticks of a unit of currency, steps of a share, price of fills, by code


def _schema() -> pa.Schema:
    """Columns of a step record. Its counts stand after its first four fields, as in every ledger written so far."""
    columns = {field.name: _column(field) for field in msgspec.inspect.type_info(StepRecord).fields}  # type: ignore[attr-defined]
    counts = CountsRecord.__struct_fields__
    own = [name for name in columns if name not in counts]
    return pa.schema([columns[name] for name in (*own[:4], *counts, *own[4:])])


def _column(field: msgspec.inspect.Field) -> pa.Field:
    kind, nullable = field.type, isinstance(field.type, msgspec.inspect.UnionType)
    if isinstance(kind, msgspec.inspect.UnionType):
        (kind,) = (member for member in kind.types if not isinstance(member, msgspec.inspect.NoneType))
    return pa.field(field.encode_name, _arrow_type(kind), nullable=nullable)


def _arrow_type(kind: msgspec.inspect.Type) -> pa.DataType:
    if isinstance(kind, msgspec.inspect.DictType):
        return pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    if isinstance(kind, msgspec.inspect.VarTupleType):
        return pa.list_(pa.field("item", _arrow_type(kind.item_type), nullable=False))
    if isinstance(kind, msgspec.inspect.StructType):
        return pa.struct([_column(field) for field in kind.fields])
    return _SCALARS[type(kind)]


def _in_fen(field: pa.Field) -> pa.Field:
    """Return a column as version 1 names it, with what is nested in it."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_in_fen(member) for member in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_in_fen(kind.value_field))
    return pa.field(_ending(field.name, "_minor", "_fen"), kind, nullable=field.nullable)


def _ending(name: str, old: str, new: str) -> str:
    return name.removesuffix(old) + new if name.endswith(old) else name


def in_minor(value: Any) -> Any:
    """Return a step record as version 1 names its money, or what is nested in one, under the names of today."""
    if isinstance(value, list):
        return [in_minor(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {_ending(key, "_fen", "_minor"): item if key == "failures" else in_minor(item) for key, item in value.items()}


def _under(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Return a table under the names of a schema that differs in nothing else, without touching its values."""
    columns = [
        pa.chunked_array([chunk.view(field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


SCHEMAS = {2: _schema()}
_UNCHARGED = pa.schema([column for column in SCHEMAS[2] if column.name != _CHARGES])  # version 1 under the names of today
SCHEMAS[1] = pa.schema([_in_fen(column) for column in _UNCHARGED])
"""Columns of a ledger file by version."""


def encode_ledger(ledger: Ledger) -> bytes:
    """Return the Parquet bytes of a ledger; equal ledgers give equal bytes with the same pyarrow."""
    metadata = {_SPEC_KEY: dumps_canonical(ledger.spec).encode()}
    rows = [{**to_plain(step), "failures": list(step.failures.items())} for step in ledger.steps]
    if ledger.version == 1:
        metadata[_CASH_KEY] = str(ledger.initial_cash_minor).encode()
        table = _under(SCHEMAS[1], pa.Table.from_pylist(rows, schema=_UNCHARGED))
    else:
        own = {name: getattr(ledger, name) for name in _Market.__struct_fields__ if name != "scales"}
        metadata[_MARKET_KEY] = encode_canonical(_Market(**own, scales=dict(sorted(ledger.scales.items())))).encode()
        table = pa.Table.from_pylist([{_CHARGES: [], **row} for row in rows], schema=SCHEMAS[2])
    sink = pa.BufferOutputStream()  # to a file of Python's, Arrow would wait for the interpreter at each column
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def load_table(path: Path) -> pa.Table:
    """Read a ledger file as a table, from memory of Arrow's own: a thread of it that frees Python's while Python ends aborts it."""
    buffer = pa.BufferOutputStream()
    buffer.write(read_plain(path))
    return pq.ParquetFile(pa.BufferReader(buffer.getvalue())).read(use_threads=False)


def load_ledger(path: Path) -> Ledger:
    """Read a ledger file of either version. Raises StoreError: the file is missing, no Parquet, or not a ledger."""
    try:
        table = load_table(path)
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        market = decode_json(metadata[_MARKET_KEY], _Market, f"{path}: ledger") if _MARKET_KEY in metadata else None
        table = table.cast(SCHEMAS[2]) if market else _under(_UNCHARGED, table.cast(SCHEMAS[1]))
        for day in ("decided_on", "filled_on"):
            table[day].cast(pa.date32())  # raises ArrowInvalid on a text that is no day
        rows: list[dict[str, Any]] = table.to_pylist()
        spec = decode_json(metadata[_SPEC_KEY], dict[str, JsonValue], f"{path}: spec")
        cash = market.initial_cash_minor if market else int(metadata[_CASH_KEY])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise StoreError(f"{path}: not a readable ledger: {str(error).splitlines()[0]}") from error
    records = from_plain(
        [{**row, "failures": dict(row["failures"])} for row in rows], list[StepRecord], f"{path}: not a readable ledger"
    )
    if market is None:
        return Ledger(spec, cash, records)
    scales = {code: Scale(*scale) for code, scale in market.scales.items()}
    return Ledger(spec, cash, records, market.currency, market.minor_per_unit, market.days_a_year, scales)
