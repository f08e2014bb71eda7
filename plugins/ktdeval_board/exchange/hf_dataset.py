"""Frames as a dataset for Hugging Face's `datasets`: `load_dataset(FOLDER, "cards")`, offline or from the Hub.

One Parquet file for each configuration, and a README whose YAML header tells `datasets` and the Hub's viewer which file is which.
Facts of the header are from the Hub's dataset card specification (`configs`, `size_categories`, `license`, `tags`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import yaml

from ktdeval.errors import UsageError
from ktdeval.jsonio import JsonValue
from ktdeval_board.exchange.board_data import BoardData
from ktdeval_board.exchange.columns import FRAME_SUMMARIES, FRAMES, Frame, columns_of
from ktdeval_board.exchange.output import Exported, write_text
from ktdeval_board.exchange.parquet import arrow_table
from ktdeval_board.rules import Rules
from ktdeval_board.templates import render

SPLIT = "train"
"""The split that `datasets` gives a file that is of none; there is only this one."""

_TAGS = ("leaderboard", "evaluation", "finance", "agents", "ktdeval")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"))
_LARGEST_SIZE = "10M<n<100M"


def write_hf_dataset(data: BoardData, folder: Path, licence: str) -> Exported:
    """Write the dataset."""
    if not data.entries:
        raise UsageError(f"{data.board.folder.path}: has no card to export, and a dataset needs at least one row; submit one first")
    exported = Exported()
    for frame in FRAMES:
        table = arrow_table(data, frame)
        if table.num_rows == 0:
            exported.notes.append(f"no configuration {frame!r}, for it would have no rows")
            continue
        # The Hub's viewer wants a folder for each configuration whose files would otherwise be taken together.
        name = f"{frame}/{SPLIT}-00000-of-00001.parquet"
        (folder / frame).mkdir()
        pq.write_table(table, folder / name, compression="zstd")
        exported.files[name] = table.num_rows
    write_text(folder, "README.md", _readme(data, exported, licence))
    return exported


def load_published(name: str, frame: Frame = "cards") -> pd.DataFrame:
    """Return a frame of a board that was published as a dataset."""
    import datasets  # noqa: PLC0415 - takes seconds

    published: pd.DataFrame = datasets.load_dataset(name, frame, split=SPLIT).to_pandas()
    return published


def _readme(data: BoardData, exported: Exported, licence: str) -> str:
    frames = {frame: rows for name, rows in exported.files.items() for frame in FRAMES if name.startswith(f"{frame}/")}
    rules = data.board.rules
    return render(
        "dataset.md",
        rules=rules,
        header=yaml.safe_dump(_header(rules, frames, licence), sort_keys=False, allow_unicode=True, width=1000),
        frames=[
            {"name": frame, "rows": rows, "summary": FRAME_SUMMARIES[frame], "columns": columns_of(frame)}
            for frame, rows in frames.items()
        ],
        metrics=[(_code(name), _code(unit)) for name, unit in data.units("cards").items()],
    )


def _header(rules: Rules, frames: Mapping[Frame, int], licence: str) -> dict[str, JsonValue]:
    return {
        "pretty_name": rules.title,
        "license": licence,
        "language": ["en"],
        "tags": [*_TAGS, *(["synthetic"] if rules.market == "synthetic" else [])],
        "size_categories": [_size(max(frames.values()))],
        "configs": [
            {
                "config_name": frame,
                **({"default": True} if frame == "cards" else {}),
                "data_files": [{"split": SPLIT, "path": f"{frame}/*.parquet"}],
            }
            for frame in frames
        ],
    }


def _size(rows: int) -> str:
    return next((name for bound, name in _SIZES if rows < bound), _LARGEST_SIZE)


def _code(text: str) -> str:
    """Show a text of a card as code, which no Markdown reader runs."""
    return "`" + "".join(" " if letter in "`|\r\n" else letter for letter in text) + "`"
