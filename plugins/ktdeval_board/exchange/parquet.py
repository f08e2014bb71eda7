"""Frames as Parquet or CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval_board.exchange.board_data import BoardData
from ktdeval_board.exchange.columns import FRAMES, Column, Frame, Type, columns_of
from ktdeval_board.exchange.frame import MAKERS
from ktdeval_board.exchange.output import Exported

_ARROW: dict[Type, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "flag": pa.bool_(),
    "count": pa.int64(),
    "counts": pa.list_(pa.int64()),
    "number": pa.float64(),
    "day": pa.timestamp("ms"),  # as in the frames, so that pandas reads back what it wrote
}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_INT64 = 2**63 - 1


def write_parquet(data: BoardData, folder: Path) -> Exported:
    """Write each frame as `<frame>.parquet`; every column carries its unit and meaning as metadata."""
    exported = Exported()
    for frame in FRAMES:
        table = arrow_table(data, frame)
        name = f"{frame}.parquet"
        pq.write_table(table, folder / name, compression="zstd")
        exported.files[name] = table.num_rows
    _write_columns(data, folder, exported)
    return exported


def write_csv(data: BoardData, folder: Path) -> Exported:
    """Write each frame as `<frame>.csv`: UTF-8, missing cells empty, lists joined by `; `.

    A text that a spreadsheet would take for a formula gets an apostrophe before it: names on a board are chosen by submitters.
    """
    exported = Exported()
    for frame in FRAMES:
        made = MAKERS[frame](data)
        plain = pd.DataFrame({column.name: _plain(column, made[column.name]) for column in _columns(data, frame)})
        name = f"{frame}.csv"
        plain.to_csv(folder / name, index=False, lineterminator="\n", encoding="utf-8")
        exported.files[name] = len(plain)
    _write_columns(data, folder, exported)
    return exported


def arrow_table(data: BoardData, frame: Frame) -> pa.Table:
    """A frame as an Arrow table whose schema does not depend on what is on the board."""
    columns = _columns(data, frame)
    fields = [
        pa.field(column.name, _ARROW[column.type], metadata={"unit": column.unit, "description": column.meaning})
        for column in columns
    ]
    made = MAKERS[frame](data)
    for column in columns:
        if column.type == "counts":
            made[column.name] = made[column.name].map(_within_int64)
    return pa.Table.from_pandas(made, schema=pa.schema(fields), preserve_index=False)


def _columns(data: BoardData, frame: Frame) -> tuple[Column, ...]:
    return columns_of(frame, data.units(frame))


def _within_int64(numbers: list[int]) -> list[int]:
    return [number for number in numbers if abs(number) <= _INT64]


def _plain(column: Column, values: pd.Series[Any]) -> pd.Series[Any]:
    made = values
    match column.type:
        case "texts" | "counts":
            made = values.map(lambda parts: _no_formula("; ".join(map(str, parts))))
        case "text":
            made = values.map(_no_formula, na_action="ignore")
        case "day":
            made = values.dt.strftime("%Y-%m-%d")
    return made


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _write_columns(data: BoardData, folder: Path, exported: Exported) -> None:
    """Write `columns.csv`: what every column of every frame means."""
    rows = [
        {"frame": frame, "column": column.name, "type": column.type, "unit": column.unit, "meaning": column.meaning}
        for frame in FRAMES
        for column in _columns(data, frame)
    ]
    pd.DataFrame(rows).to_csv(folder / "columns.csv", index=False, lineterminator="\n", encoding="utf-8")
    exported.files["columns.csv"] = len(rows)
