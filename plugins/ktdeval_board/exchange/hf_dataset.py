"""The frames as a dataset for Hugging Face's `datasets`: `load_dataset(FOLDER, "cards")`, offline or from the Hub.

One Parquet file for each configuration, and a README whose YAML header tells `datasets` and the Hub's viewer which file is which.
Facts of the header are from the Hub's dataset card specification (`configs`, `size_categories`, `license`, `tags`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from ktdeval.api import JsonValue, UsageError
from ktdeval_board.exchange.board_data import BoardData
from ktdeval_board.exchange.columns import FRAME_SUMMARIES, FRAMES, Column, Frame, columns_of
from ktdeval_board.exchange.output import Exported, write_text
from ktdeval_board.exchange.parquet import arrow_table
from ktdeval_board.rules import Rules

SPLIT = "train"
"""The split that `datasets` gives a file that is of none; there is only this one."""

_TAGS = ("leaderboard", "evaluation", "finance", "agents", "ktdeval")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"))
_LARGEST_SIZE = "10M<n<100M"


def write_hf_dataset(data: BoardData, folder: Path, licence: str) -> Exported:
    """Write the dataset.

    Args:
        data: the board.
        folder: an empty folder.
        licence: the Hub's identifier of the licence under which the board's owner shares the rows, such as `cc-by-4.0`.

    Raises:
        UsageError: there is no card yet; `datasets` can't read a file without rows.
    """
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


def _readme(data: BoardData, exported: Exported, licence: str) -> str:
    frames = {frame: rows for name, rows in exported.files.items() for frame in FRAMES if name.startswith(f"{frame}/")}
    header = yaml.safe_dump(_header(data.board.rules, frames, licence), sort_keys=False, allow_unicode=True, width=1000)
    lines = itertools.chain(_intro(data, frames), _tables(data, frames))
    return f"---\n{header}---\n\n" + "\n".join(lines) + "\n"


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


def _intro(data: BoardData, frames: Mapping[Frame, int]) -> Iterator[str]:
    rules = data.board.rules
    yield f"# {rules.title}"
    yield ""
    if rules.summary:
        yield rules.summary.strip()
        yield ""
    yield f"Rows of the ktdeval leaderboard `{rules.name}`" + (f", <{rules.url}>." if rules.url else ".")
    if rules.market == "synthetic":
        yield "Its market is made up: the figures say nothing about any real market."
    yield ""
    for frame, rows in frames.items():
        yield f"- `{frame}`: {FRAME_SUMMARIES[frame]} ({rows:,} rows)"
    yield ""
    yield "    from datasets import load_dataset"
    yield '    cards = load_dataset(PATH_OR_NAME, "cards", split="train").to_pandas()'
    yield ""
    yield "Only rows with `ranked` true may be ranked, and only within one `division`; `why` says why others may not. `tier` says"
    yield "how far figures have been confirmed. Fractions are fractions: 0.1 is 10 %. A missing figure has its reason beside it."


def _tables(data: BoardData, frames: Mapping[Frame, int]) -> Iterator[str]:
    """What the columns mean. Metrics come from cards, so their texts are shown as code, which no Markdown reader runs."""
    for frame in frames:
        yield from ("", f"## {frame}", "", "| column | type | unit | meaning |", "|---|---|---|---|")
        yield from (_table_row(column) for column in columns_of(frame))
    yield from ("", "## Metrics", "", "Each has six columns: `<metric>`, `_low`, `_high`, `_interval`, `_n`, `_reason`.", "")
    yield from ("| metric | unit |", "|---|---|")
    yield from (f"| {_code(name)} | {_code(unit)} |" for name, unit in data.units("cards").items())


def _table_row(column: Column) -> str:
    return f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} |"


def _code(text: str) -> str:
    return "`" + "".join(" " if letter in "`|\r\n" else letter for letter in text) + "`"
