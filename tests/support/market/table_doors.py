"""Four doors through which tables of strangers come in, each with a faultless table of its own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.values import build
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_live.days.day_sources import DropFolder
from ktdeval_qfinzero.data.ingest import read_files
from ktdeval_qfinzero.data.ingest_spec import IngestSpec
from ktdeval_raw_markets.sources.document_files import read_documents

DAY = "2024-01-03"
Cells = list[list[str]]


@dataclass(frozen=True)
class Door:
    """A door: how it reads a file, and the cells of a faultless one."""

    file: str  #: name of the file, as `{}.csv`
    text: str  #: column of texts
    number: str  #: column of numbers
    cells: Cells  #: header and two rows
    read: Callable[[Path], object]  #: returns what it read, in a form that can be compared

    def table(self, changes: Mapping[tuple[int, str], str] | None = None) -> Cells:
        """Return the faultless cells with some changed, by row from 0 (the header) and column."""
        cells = [list(row) for row in self.cells]
        for (row, column), cell in (changes or {}).items():
            cells[row][cells[0].index(column)] = cell

        return cells


def _bars(path: Path) -> object:
    raw = read_long(build(LongParams, {"bars": str(path)}, "long"))
    columns = ["date", "code", "open", "high", "low", "close", "volume"]
    frame = raw.bars[columns].astype({"date": str, "code": str})
    return frame.to_dict("records")


def _splits(path: Path) -> object:
    bars = path.with_name("bars-of-splits.csv")
    bars.write_text(as_csv(BARS_CELLS))
    raw = read_long(
        build(LongParams, {"bars": str(bars), "splits": str(path), "venue": "us_equity"}, "long")
    )

    return raw.bars["factor"].tolist()


def _documents(path: Path) -> object:
    documents = read_documents(path)
    return [documents[row] for row in range(len(documents))]


def _ingested(path: Path) -> object:
    spec = {
        "name": "mine",
        "default_as_of": "2024-01-08",
        "bars": [{"file": path.name, "asset_class": "stock", "resolution": "day"}],
    }
    addition, _ = read_files(build(IngestSpec, spec, "ingest.yaml"), path.parent)
    bars = next(iter(addition.prices.bar_table.values()), None)

    if bars is None:
        return None

    return [column.tolist() for column in bars.columns()]


def _dropped(path: Path) -> object:
    now = datetime(2024, 1, 3, 22, tzinfo=UTC)
    found = DropFolder(path.parent).day("m", DAY, now)
    return None if found is None else found.bars


BARS_CELLS = [
    ["date", "code", "open", "high", "low", "close", "volume"],
    ["2024-01-02", "AAPL", "10", "11", "9.5", "10.5", "1000"],
    ["2024-01-03", "AAPL", "10.5", "12", "10.25", "11.75", "2000"],
]
DOORS = {
    "bars": Door("bars{}", "code", "close", BARS_CELLS, _bars),
    "side file": Door(
        "splits{}",
        "code",
        "ratio",
        [["date", "code", "ratio"], ["2024-01-02", "AAPL", "2"], ["2024-01-03", "AAPL", "4"]],
        _splits,
    ),
    "documents": Door(
        "news{}",
        "title",
        "sentiment_score",
        [
            ["published_at", "title", "text", "sentiment_score"],
            ["2024-01-02T10:00:00+08:00", "One", "Text", "0.5"],
            ["2024-01-03T10:00:00+08:00", "Two", "Text", "0.25"],
        ],
        _documents,
    ),
    "ingest": Door(
        "day{}",
        "symbol",
        "close",
        [
            ["symbol", "time", "open", "high", "low", "close", "volume"],
            ["AAPL", "2024-01-02", "10", "11", "9.5", "10.5", "1000"],
            ["AAPL", "2024-01-03", "10.5", "12", "10.25", "11.75", "2000"],
        ],
        _ingested,
    ),
    "drop folder": Door(
        f"bars-{DAY}.csv",
        "code",
        "close",
        [
            ["code", "open", "high", "low", "close", "volume"],
            ["AA", "10", "11", "9.5", "10.5", "1000"],
            ["BB", "10.5", "12", "10.25", "11.75", "2000"],
        ],
        _dropped,
    ),
}


def as_csv(cells: Cells) -> str:
    """Return cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def as_parquet(cells: Cells, changed: Mapping[str, Any]) -> bytes:
    """Return cells as Parquet, numbers as numbers, with some columns as given."""
    header, *rows = cells
    columns: dict[str, Any] = {}

    for place, name in enumerate(header):
        values: list[Any] = [row[place] for row in rows]
        if name not in ("date", "time", "code", "symbol", "published_at", "title", "text"):
            values = [float(value) for value in values]

        columns[name] = changed.get(name, values)

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)

    return bytes(sink.getvalue())
