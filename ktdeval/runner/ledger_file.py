"""A ledger as one Parquet file: a row per step, orders and positions nested in it, every field exact."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.trading.ledger import STEP_FIELDS, Ledger, StepRecord


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list_of(name: str, item: pa.DataType) -> pa.Field:
    return _required(name, pa.list_(_required("item", item)))


_ORDER = pa.struct(
    [
        ("code", pa.string()), ("stock_id", pa.string()), _required("side", pa.string()), _required("confidence", pa.float64()),
        _required("reason", pa.string()), ("target_weight", pa.float64()), ("shares", pa.int64()), _required("status", pa.string()),
        ("rule", pa.string()), _required("message", pa.string()), _required("filled_shares", pa.int64()),
        _required("price_ticks", pa.int64()), _required("notional_fen", pa.int64()), _required("fee_fen", pa.int64()),
    ]
)  # fmt: skip
_POSITION = pa.struct(
    [
        _required("code", pa.string()), _required("shares", pa.int64()), _required("locked", pa.int64()),
        _required("price_ticks", pa.int64()), _required("value_fen", pa.int64()),
    ]
)  # fmt: skip
_CORPORATE_ACTION = pa.struct(
    [
        _required("code", pa.string()), _required("ratio", pa.float64()), _required("shares_before", pa.int64()),
        _required("shares_after", pa.int64()), _required("cash_fen", pa.int64()),
    ]
)  # fmt: skip
SCHEMA = pa.schema(
    [
        _required("step", pa.int64()), _required("decided_on", pa.string()), _required("filled_on", pa.string()),
        _required("provenance", pa.string()), _required("failures", pa.map_(pa.string(), _required("value", pa.int64()))),
        _required("tool_calls", pa.int64()), _required("tool_calls_valid", pa.int64()), _required("submissions", pa.int64()),
        _required("unmask_attempts", pa.int64()), _required("input_tokens", pa.int64()), _required("output_tokens", pa.int64()),
        _required("reasoning_tokens", pa.int64()), _required("cache_read_tokens", pa.int64()),
        _required("cache_write_tokens", pa.int64()), _required("overall_reason", pa.string()), _list_of("orders", _ORDER),
        _list_of("corporate_actions", _CORPORATE_ACTION), _list_of("positions", _POSITION),
        _required("cash_fen", pa.int64()), _required("holdings_fen", pa.int64()), _required("nav_fen", pa.int64()),
        _required("open_nav_fen", pa.int64()),
    ]
)  # fmt: skip
_SPEC_KEY, _CASH_KEY = b"ktdeval.spec", b"ktdeval.initial_cash_fen"


def encode_ledger(ledger: Ledger) -> bytes:
    """The Parquet bytes of a ledger; equal ledgers give equal bytes with the same pyarrow."""
    metadata = {_SPEC_KEY: dumps_canonical(ledger.spec).encode(), _CASH_KEY: str(ledger.initial_cash_fen).encode()}
    table = _table(ledger.steps).replace_schema_metadata(metadata)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _table(steps: Sequence[StepRecord]) -> pa.Table:
    return pa.Table.from_pylist([{**step, "failures": list(step["failures"].items())} for step in steps], schema=SCHEMA)


def is_step_record(value: JsonValue) -> bool:
    """Whether a value has the fields and types of a step record, as a ledger takes them."""
    if not isinstance(value, dict) or value.keys() != set(STEP_FIELDS) or not isinstance(value["failures"], dict):
        return False
    try:
        _table([value]).cast(SCHEMA)  # the cast is what refuses nulls
    except (pa.ArrowException, ValueError, TypeError):
        return False
    return True


def load_ledger(path: Path) -> Ledger:
    """Read a ledger file.

    Raises:
        StoreError: the file is missing, no Parquet, or not a ledger.
    """
    try:
        table = pq.read_table(path, memory_map=False, partitioning=None)
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        steps = [_from_row(row) for row in table.cast(SCHEMA).to_pylist()]
        return Ledger(loads_strict(metadata[_SPEC_KEY]), int(metadata[_CASH_KEY]), steps)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise StoreError(f"{path}: not a readable ledger: {str(error).splitlines()[0]}") from error


def _from_row(row: dict[str, Any]) -> StepRecord:
    failures: Sequence[tuple[str, int | None]] = row["failures"]
    if any(count is None for _, count in failures):  # the one null that a cast to the schema lets pass
        raise ValueError("a failure has no count")
    return {**row, "failures": dict(failures)}
