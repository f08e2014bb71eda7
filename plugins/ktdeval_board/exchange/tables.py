"""Frames as Parquet or CSV files, and as a dataset for Hugging Face's `datasets`:
`load_dataset(FOLDER, "cards")`.

A dataset has one Parquet file for each configuration, and a README whose YAML header names the file
of each for `datasets` and the Hub's viewer. Facts of it are from the Hub's dataset card
specification (`configs`, `size_categories`, `license`, `tags`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from ktdeval.cards import count
from ktdeval.errors import UsageError
from ktdeval.values import JsonValue, file_sha256, without_formula
from ktdeval_board.document_types import TRUST, RecordFile, Records
from ktdeval_board.exchange.board_data import (
    FRAME_SUMMARIES,
    FRAMES,
    BoardData,
    Column,
    ExportReport,
    Frame,
    Type,
    columns_of,
    write_text,
)
from ktdeval_board.exchange.data_frames import INT64, MAKERS
from ktdeval_board.layout import path_segment
from ktdeval_board.read_documents import read_untrusted
from ktdeval_board.rules import Rules
from ktdeval_board.templates import render

_ARROW: dict[Type, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "flag": pa.bool_(),
    "count": pa.int64(),
    "counts": pa.list_(pa.int64()),
    "number": pa.float64(),
    "day": pa.timestamp("ms"),  # as in the frames, so that pandas reads back what it wrote
}


def write_parquet(data: BoardData, folder: Path) -> ExportReport:
    """Write each frame as `<frame>.parquet`, with unit and meaning of each column as metadata."""
    exported = ExportReport()
    for frame in FRAMES:
        _write_arrow(arrow_table(data, frame), folder, f"{frame}.parquet", exported)

    _write_columns(data, folder, exported)
    return exported


def _write_arrow(table: pa.Table, folder: Path, name: str, exported: ExportReport) -> None:
    pq.write_table(table, folder / name, compression="zstd")
    exported.files[name] = table.num_rows


def write_csv(data: BoardData, folder: Path) -> ExportReport:
    """Write each frame as `<frame>.csv`: UTF-8, missing cells empty, lists joined by `; `.

    A text that a spreadsheet would take for a formula gets an apostrophe before it, as submitters
    choose the names on a board.
    """
    exported = ExportReport()
    for frame in FRAMES:
        table = MAKERS[frame](data)
        columns = _frame_columns(data, frame)
        plain = pd.DataFrame({each.name: _csv_column(each, table[each.name]) for each in columns})
        name = f"{frame}.csv"
        plain.to_csv(folder / name, index=False, lineterminator="\n", encoding="utf-8")
        exported.files[name] = len(plain)

    _write_columns(data, folder, exported)
    return exported


def arrow_table(data: BoardData, frame: Frame) -> pa.Table:
    """Return a frame as an Arrow table, with the same schema on every board."""
    columns = _frame_columns(data, frame)
    table = MAKERS[frame](data)
    fields = []
    for column in columns:
        metadata = {"unit": column.unit, "description": column.meaning}
        fields.append(pa.field(column.name, _ARROW[column.type], metadata=metadata))
        if column.type == "counts":
            small = [_small(numbers) for numbers in table[column.name]]
            table[column.name] = pd.Series(small, dtype=object)

    return pa.Table.from_pandas(table, schema=pa.schema(fields), preserve_index=False)


def _small(numbers: Iterable[int]) -> list[int]:
    """Return the numbers that an Arrow integer can hold."""
    return [number for number in numbers if abs(number) <= INT64]


def _frame_columns(data: BoardData, frame: Frame) -> tuple[Column, ...]:
    return columns_of(frame, data.units(frame))


def _csv_column(column: Column, values: pd.Series[Any]) -> pd.Series[Any]:
    match column.type:
        case "texts" | "counts":
            values = values.map(lambda parts: without_formula("; ".join(map(str, parts))))
        case "text":
            values = values.map(without_formula, na_action="ignore")
        case "day":
            values = values.dt.strftime("%Y-%m-%d")

    return values


def _write_columns(data: BoardData, folder: Path, exported: ExportReport) -> None:
    """Write `columns.csv`: the meaning of every column of every frame."""
    rows = []
    for frame in FRAMES:
        for column in _frame_columns(data, frame):
            row = {
                "frame": frame,
                "column": column.name,
                "type": column.type,
                "unit": without_formula(column.unit),
                "meaning": column.meaning,
            }
            rows.append(row)

    pd.DataFrame(rows).to_csv(
        folder / "columns.csv", index=False, lineterminator="\n", encoding="utf-8"
    )
    exported.files["columns.csv"] = len(rows)


SPLIT = "train"  #: The split that `datasets` gives a file that is of none; there is only this one

_TAGS = ("leaderboard", "evaluation", "finance", "agents", "ktdeval")
_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
_LARGEST_SIZE = "10M<n<100M"


def write_hf_dataset(data: BoardData, folder: Path, licence: str) -> ExportReport:
    """Write the dataset."""
    if not data.entries:
        raise UsageError(
            f"{data.board.folder.path}: has no card to export, and a dataset needs at least one"
            " row; submit one first"
        )

    exported = ExportReport()
    for frame in FRAMES:
        table = arrow_table(data, frame)
        if table.num_rows == 0:
            exported.notes.append(f"no configuration {frame!r}, for it would have no rows")
            continue

        # The Hub's viewer wants a folder for each configuration whose files would otherwise be
        # taken together.
        (folder / frame).mkdir()
        _write_arrow(table, folder, f"{frame}/{SPLIT}-00000-of-00001.parquet", exported)

    copied = _copy_records(data, folder)
    if copied:
        runs = count(copied, "run folder")
        exported.notes.append(f"records/: {runs}, for `ktdeval card verify` and `replay/…`")

    write_text(folder, "README.md", _readme(data, exported, licence, copied))
    return exported


def _copy_records(data: BoardData, folder: Path) -> int:
    """Copy the records of each card that the board has executed, with the card, as a run folder
    `records/<card id>`; return their number. A file whose bytes are no longer those of the card's
    list is not copied, and its card is left out. Raises CardError: a list can't be read.
    """
    board = data.board.folder
    most = data.board.rules.limits.bytes_of("card_mb")
    copied = 0
    for entry in data.entries:
        listed = read_untrusted(entry.files.records, Records, most)
        if listed.stored != "repository" or TRUST.index(entry.tier) > TRUST.index("re-executed"):
            continue

        sources = {each.path: board.records(entry.card_id) / each.path for each in listed.files}
        if any(_is_changed(sources[each.path], each) for each in listed.files):
            continue

        run = folder / "records" / entry.card_id
        card = f"cards/{path_segment(entry.card.task.name)}.json"
        for path, source in (sources | {card: entry.files.card}).items():
            (run / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, run / path)

        copied += 1

    return copied


def _is_changed(path: Path, listed: RecordFile) -> bool:
    return path.is_symlink() or not path.is_file() or file_sha256(path) != listed.sha256


def load_published(name: str, frame: Frame = "cards") -> pd.DataFrame:
    """Return a frame of a board that was published as a dataset."""
    import datasets

    published: pd.DataFrame = datasets.load_dataset(name, frame, split=SPLIT).to_pandas()
    return published


def _readme(data: BoardData, exported: ExportReport, licence: str, runs: int) -> str:
    rows_of: dict[Frame, int] = {}
    frames = []
    for name, rows in exported.files.items():
        for frame in FRAMES:
            if name.startswith(f"{frame}/"):
                rows_of[frame] = rows
                facts = {
                    "name": frame,
                    "rows": rows,
                    "summary": FRAME_SUMMARIES[frame],
                    "columns": columns_of(frame),
                }
                frames.append(facts)

    rules = data.board.rules
    header = yaml.safe_dump(
        _header(rules, rows_of, licence), sort_keys=False, allow_unicode=True, width=1000
    )
    metrics = [(_code(name), _code(unit)) for name, unit in data.units("cards").items()]
    return render(
        "dataset.md", rules=rules, header=header, frames=frames, metrics=metrics, runs=runs
    )


def _header(rules: Rules, frames: Mapping[Frame, int], licence: str) -> dict[str, JsonValue]:
    tags = list(_TAGS)
    if rules.market == "synthetic":
        tags.append("synthetic")

    largest = max(frames.values())
    size = next((name for bound, name in _SIZES if largest < bound), _LARGEST_SIZE)
    configs: list[JsonValue] = []
    for frame in frames:
        config: dict[str, JsonValue] = {"config_name": frame}
        if frame == "cards":
            config["default"] = True

        config["data_files"] = [{"split": SPLIT, "path": f"{frame}/*.parquet"}]
        configs.append(config)

    return {
        "pretty_name": rules.title,
        "license": licence,
        "language": ["en"],
        "tags": tags,
        "size_categories": [size],
        "configs": configs,
    }


def _code(text: str) -> str:
    """Show a text of a card as code, which no Markdown reader runs."""
    return "`" + "".join(" " if letter in "`|\r\n" else letter for letter in text) + "`"
