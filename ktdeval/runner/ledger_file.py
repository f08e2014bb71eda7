"""A ledger as one Parquet file: a row per step, orders and positions nested in it, every field exact."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import StoreError
from ktdeval.jsonio import dumps_canonical, loads_strict
from ktdeval.trading.ledger import Ledger, StepRecord

_ORDER = pa.struct(
    [
        ("code", pa.string()), ("stock_id", pa.string()), ("side", pa.string()), ("confidence", pa.float64()),
        ("reason", pa.string()), ("target_weight", pa.float64()), ("shares", pa.int64()), ("status", pa.string()),
        ("rule", pa.string()), ("message", pa.string()), ("filled_shares", pa.int64()), ("price_ticks", pa.int64()),
        ("notional_fen", pa.int64()), ("fee_fen", pa.int64()),
    ]
)  # fmt: skip
_POSITION = pa.struct(
    [
        ("code", pa.string()), ("shares", pa.int64()), ("locked", pa.int64()), ("price_ticks", pa.int64()),
        ("value_fen", pa.int64()),
    ]
)  # fmt: skip
_CORPORATE_ACTION = pa.struct(
    [
        ("code", pa.string()), ("ratio", pa.float64()), ("shares_before", pa.int64()), ("shares_after", pa.int64()),
        ("cash_fen", pa.int64()),
    ]
)  # fmt: skip
SCHEMA = pa.schema(
    [
        ("step", pa.int64()), ("decided_on", pa.string()), ("filled_on", pa.string()), ("provenance", pa.string()),
        ("failures", pa.map_(pa.string(), pa.int64())), ("tool_calls", pa.int64()), ("tool_calls_valid", pa.int64()),
        ("submissions", pa.int64()), ("unmask_attempts", pa.int64()), ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()), ("overall_reason", pa.string()), ("orders", pa.list_(_ORDER)),
        ("corporate_actions", pa.list_(_CORPORATE_ACTION)), ("positions", pa.list_(_POSITION)), ("cash_fen", pa.int64()),
        ("holdings_fen", pa.int64()), ("nav_fen", pa.int64()), ("open_nav_fen", pa.int64()),
    ]
)  # fmt: skip
_SPEC_KEY, _CASH_KEY = b"ktdeval.spec", b"ktdeval.initial_cash_fen"


def encode_ledger(ledger: Ledger) -> bytes:
    """The Parquet bytes of a ledger; equal ledgers give equal bytes with the same pyarrow."""
    metadata = {_SPEC_KEY: dumps_canonical(ledger.spec).encode(), _CASH_KEY: str(ledger.initial_cash_fen).encode()}
    rows = [{**step, "failures": list(step["failures"].items())} for step in ledger.steps]
    table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata(metadata))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


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
    failures: Sequence[tuple[str, int]] = row["failures"]
    return {**row, "failures": dict(failures)}
