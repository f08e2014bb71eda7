"""Exports of Alpaca's trading API: account activities, and orders, as JSON or as a table.

`transaction_time` and `filled_at` are moments in UTC; days are those of New York unless another time
zone is given.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import NEW_YORK, CellRow, object_row, read_table
from ktdeval_judge.readers.frames import FrameFill, trades_of
from ktdeval_judge.readers.sample import FileSample, ReadOptions, load_document, sample_of

name = "alpaca"
_ACTIVITIES = ("activity_type", "transaction_time", "price", "qty", "side", "symbol")
_ORDERS = ("filled_at", "filled_qty", "filled_avg_price", "side", "symbol")
_FEES = "Alpaca books fees apart from fills: none is read here."


def recognises(sample: FileSample) -> bool:
    """Whether a file holds activities or orders."""
    if sample.shape == "document":
        return sample.has_keys("activity_type", "id") or sample.has_keys(*_ORDERS)
    return sample.has_columns(*_ACTIVITIES) or sample.has_columns(*_ORDERS)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    sample = sample_of(path)
    has_orders = bool({"filled_at", "filled_qty"} & (sample.keys | set(sample.columns)))
    required = _ORDERS if has_orders else _ACTIVITIES
    rows = _rows(path, sample, required)
    zone = options.clock or NEW_YORK
    if has_orders:
        filled = [row for row in rows if row.has("filled_at")]
        fills = [
            _fill_of(row, zone, ("filled_at", "filled_qty", "filled_avg_price")) for row in filled
        ]
        others = "orders without a fill"
    else:
        filled = [row for row in rows if row.text("activity_type").upper() == "FILL"]
        fills = [_fill_of(row, zone, ("transaction_time", "qty", "price")) for row in filled]
        others = "activities other than fills"

    notes = [_FEES]
    if len(filled) < len(rows):
        notes.append(f"Left out: {len(rows) - len(filled)} {others}.")

    return Declared(
        program=name, source=path.name, trades=trades_of(fills, path), notes=tuple(notes)
    )


def _rows(path: Path, sample: FileSample, required: tuple[str, ...]) -> list[CellRow]:
    if sample.shape == "table":
        return read_table(path, required)

    document = load_document(path)
    if not isinstance(document, list):
        raise DataError(f"{path}: expected a list of activities or orders; save the whole answer")

    return [object_row(f"{path}: [{number}]", item) for number, item in enumerate(document)]


def _fill_of(row: CellRow, zone: str, names: tuple[str, str, str]) -> FrameFill:
    stamp, quantity, price = names
    return FrameFill(
        moment=row.moment(stamp, zone, is_label=False),
        code=row.text("symbol"),
        side=row.side("side"),
        shares=row.positive(quantity),
        price=row.positive(price),
    )
