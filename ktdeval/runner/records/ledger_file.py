"""Ledger as a Parquet file: one row per step, with nested orders and positions. Every field is
exact.

Money is in minor units of a currency, quantities are in steps and prices in ticks. The currency and
the scales are in the file's metadata. Some columns exist only if they are needed: duties if a fill
incurred any, carried orders if an order was carried, and limits if an order had one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec.inspect
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import StoreError, os_advice
from ktdeval.market.venues.venue import FillRule
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.types import Scale
from ktdeval.values.disk.decompression_limits import open_parquet
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical
from ktdeval.values.documents.typed_json import (
    Value,
    decode_json,
    encode_canonical,
    from_plain,
    to_builtins,
)

_SPEC_KEY = b"ktdeval.spec"
_FACTS_KEY = b"ktdeval.ledger"
_DUTIES = "duties"
_CARRY = ("carried", "working")  #: columns for orders that stay open for several days
_LIMIT = "limit_ticks"
_FILLS = ("orders", "charges", "carried")  #: columns whose items may have duties
_SCALARS = {
    msgspec.inspect.StrType: pa.string(),
    msgspec.inspect.LiteralType: pa.string(),
    msgspec.inspect.IntType: pa.int64(),
    msgspec.inspect.FloatType: pa.float64(),
}


class _Facts(Value):
    """Units of a ledger, and its initial cash."""

    version: Literal[1]
    currency: str
    minor_per_unit: int
    days_a_year: int
    initial_cash_minor: int
    #: ticks per unit of currency, steps per share and fill rule, by code
    scales: dict[str, tuple[int, int, FillRule]]


@cache
def _schema(absent: frozenset[str]) -> pa.Schema:
    """Return the schema of step records, without the optional columns in `absent`."""
    fields = msgspec.inspect.type_info(StepRecord).fields  # type: ignore[attr-defined]
    written = [field for field in fields if field.name not in absent]
    return pa.schema([_column(field, absent) for field in written])


def _column(field: msgspec.inspect.Field, absent: frozenset[str]) -> pa.Field:
    kind = field.type
    nullable = isinstance(field.type, msgspec.inspect.UnionType)
    if isinstance(kind, msgspec.inspect.UnionType):
        (kind,) = (
            member for member in kind.types if not isinstance(member, msgspec.inspect.NoneType)
        )
    return pa.field(field.encode_name, _arrow_type(kind, absent), nullable=nullable)


def _arrow_type(kind: msgspec.inspect.Type, absent: frozenset[str]) -> pa.DataType:
    if isinstance(kind, msgspec.inspect.DictType):
        return pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    if isinstance(kind, msgspec.inspect.VarTupleType):
        item = _arrow_type(kind.item_type, absent)
        return pa.list_(pa.field("item", item, nullable=False))
    if isinstance(kind, msgspec.inspect.StructType):
        fields = [field for field in kind.fields if field.name not in absent]
        return pa.struct([_column(field, absent) for field in fields])

    return _SCALARS[type(kind)]


SCHEMA = _schema(frozenset())
"""Columns of a ledger file."""


def encode_ledger(ledger: Ledger) -> bytes:
    """Return a ledger as Parquet bytes. With the same pyarrow version, equal ledgers give equal
    bytes.
    """
    metadata = {
        _SPEC_KEY: dumps_canonical(ledger.spec).encode(),
        _FACTS_KEY: encode_canonical(_facts_of(ledger)).encode(),
    }

    rows = [_step_row(step) for step in ledger.steps]
    absent: set[str] = set()
    if not any(map(_pays_duties, ledger.steps)):
        absent.add(_DUTIES)
    if not any(step.carried or step.working for step in ledger.steps):
        absent.update(_CARRY)
    if not any(order.limit_ticks is not None for step in ledger.steps for order in step.fills):
        absent.add(_LIMIT)

    table = pa.Table.from_pylist(rows, schema=_schema(frozenset(absent)))

    # writing to a Python file object would make Arrow wait for the GIL at each column
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _step_row(step: StepRecord) -> dict[str, Any]:
    """Return a step as a row. Arrow represents maps as lists of pairs; these are sorted, so that
    equal maps give equal rows.
    """
    fields = to_builtins(step)
    assert isinstance(fields, dict), "a struct is an object"
    row: dict[str, Any] = {**fields, "failures": sorted(step.failures.items())}
    row.setdefault("working", [])
    for column in _FILLS:
        row[column] = [
            {**item, _DUTIES: sorted(item.get(_DUTIES, {}).items())} for item in row.get(column, ())
        ]

    return row


def _pays_duties(step: StepRecord) -> bool:
    return any(order.duties for order in step.fills) or any(
        charge.duties for charge in step.charges
    )


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a step, given its row."""
    fields = {**row, "failures": dict(row["failures"])}
    for column in _FILLS:
        if column in fields:
            items = fields[column]
            fields[column] = [{**item, _DUTIES: dict(item.get(_DUTIES, ()))} for item in items]

    return fields


def _absent(schema: pa.Schema) -> frozenset[str]:
    """Return the names of the optional columns that a file lacks."""
    order = schema.field("orders").type.value_type
    absent = {name for name in (_DUTIES, _LIMIT) if order.get_field_index(name) < 0}
    if _CARRY[0] not in schema.names:
        absent.update(_CARRY)

    return frozenset(absent)


def _facts_of(ledger: Ledger) -> _Facts:
    return _Facts(
        version=1,
        currency=ledger.currency,
        minor_per_unit=ledger.minor_per_unit,
        days_a_year=ledger.days_a_year,
        initial_cash_minor=ledger.initial_cash_minor,
        scales=dict(sorted(ledger.scales.items())),
    )


def load_table(path: Path) -> pa.Table:
    """Read a ledger file as an Arrow table.

    The file is copied into memory owned by Arrow. If an Arrow thread freed Python memory during
    interpreter shutdown, the process would abort.
    """
    buffer = pa.BufferOutputStream()
    buffer.write(read_plain(path))
    return open_parquet(buffer.getvalue()).read(use_threads=False)


def load_ledger(path: Path) -> Ledger:
    """Read a ledger file. Raises StoreError if the file is missing, is not Parquet, or is not a
    ledger.
    """
    try:
        table = load_table(path)
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        facts = decode_json(metadata[_FACTS_KEY], _Facts, f"{path}: ledger")
        table = table.cast(_schema(_absent(table.schema)))

        for day in ("decided_on", "filled_on"):
            table[day].cast(pa.date32())  # raises ArrowInvalid if a string is not a date

        rows: list[dict[str, Any]] = table.to_pylist()
        spec = decode_json(metadata[_SPEC_KEY], dict[str, JsonValue], f"{path}: spec")
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        problem = f"{path}: not a readable ledger: {str(error).splitlines()[0]}"
        advice = os_advice(error, "")
        if advice:
            problem += f"; {advice}"
        raise StoreError(problem) from error

    records = from_plain(
        [_fields(row) for row in rows],
        list[StepRecord],
        f"{path}: not a readable ledger",
    )
    scales = {code: Scale(*scale) for code, scale in facts.scales.items()}
    return Ledger(
        spec,
        facts.initial_cash_minor,
        records,
        facts.currency,
        facts.minor_per_unit,
        facts.days_a_year,
        scales,
    )
