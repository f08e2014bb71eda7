"""A ledger as one Parquet file: a row per step, orders and positions nested in it, every field exact."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec.inspect
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical, read_plain
from ktdeval.trading.ledger import CountsRecord, Ledger, StepRecord
from ktdeval.typed import decode_json, from_plain, to_plain

_SPEC_KEY, _CASH_KEY = b"ktdeval.spec", b"ktdeval.initial_cash_fen"
_SCALARS = {
    msgspec.inspect.StrType: pa.string(),
    msgspec.inspect.LiteralType: pa.string(),
    msgspec.inspect.IntType: pa.int64(),
    msgspec.inspect.FloatType: pa.float64(),
}


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


SCHEMA = _schema()


def encode_ledger(ledger: Ledger) -> bytes:
    """Return the Parquet bytes of a ledger; equal ledgers give equal bytes with the same pyarrow."""
    metadata = {_SPEC_KEY: dumps_canonical(ledger.spec).encode(), _CASH_KEY: str(ledger.initial_cash_minor).encode()}
    rows = [{**to_plain(step), "failures": list(step.failures.items())} for step in ledger.steps]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata(metadata)), sink, compression="zstd")
    return sink.getvalue()


def load_table(path: Path) -> pa.Table:
    """Read a ledger file as a table, from memory of Arrow's own: a thread of it that frees Python's while Python ends aborts it."""
    held = pa.BufferOutputStream()
    held.write(read_plain(path))
    return pq.ParquetFile(pa.BufferReader(held.getvalue())).read(use_threads=False)


def load_ledger(path: Path) -> Ledger:
    """Read a ledger file. Raises StoreError: the file is missing, no Parquet, or not a ledger."""
    try:
        table = load_table(path)
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        rows: Sequence[dict[str, Any]] = table.cast(SCHEMA).to_pylist()
        spec, cash = decode_json(metadata[_SPEC_KEY], dict[str, JsonValue], f"{path}: spec"), int(metadata[_CASH_KEY])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise StoreError(f"{path}: not a readable ledger: {str(error).splitlines()[0]}") from error
    steps = [{**row, "failures": dict(row["failures"])} for row in rows]
    return Ledger(spec, cash, from_plain(steps, list[StepRecord], f"{path}: not a readable ledger"))
