"""A check reads all of a dataset and names what is wrong in it, and a manifest that was changed is
refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.bar_files import BarBlock
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.dataset_storage import PartWriter, open_dataset
from ktdeval_qfinzero.data.layout import BarFile, load_manifest, make_manifest, manifest_text
from ktdeval_qfinzero.data.rows import Bars, ContractRow, DividendRow, EventRelease, SplitRow
from ktdeval_qfinzero.timestamps import DAY, day_start
from qfinzero_store_play import tiny_prices
from qfinzero_world import at, bars_of, events


def forged(folder: Path, key: str, write: Callable[[PartWriter], Any]) -> None:
    """Replace a part by another, with a manifest that agrees: what only a reading of all content
    can find.
    """
    manifest = load_manifest(folder)
    (folder / manifest.parts[key].file).unlink()
    part = write(PartWriter(folder, 1))

    assert part.key == key

    parts = {**manifest.parts, key: part}
    (folder / "manifest.json").write_text(
        manifest_text(make_manifest(manifest.info, 1, parts.values()))
    )


def day_bars(change: Callable[[Bars], Bars]) -> Callable[[Path], None]:
    bar_file = BarFile("stock", "day", "AVLN", 2025)
    bars = change(tiny_prices().bar_table["stock", "AVLN", "day"])
    block = BarBlock(("AVLN",), np.array([0, len(bars)]), bars)
    return lambda folder: forged(folder, bar_file.key, lambda writer: writer.bars(bar_file, block))


def rows(name: Any, *values: Any, key: str = "") -> Callable[[Path], None]:
    return lambda folder: forged(
        folder, key or f"tables/{name}", lambda writer: writer.rows(key or f"tables/{name}", values)
    )


def clipped(folder: Path) -> None:
    path = folder / "prices/stock/minute/AVLN/2025.parquet"
    path.write_bytes(path.read_bytes()[:-1])


def flipped(folder: Path) -> None:
    path = folder / "prices/stock/minute/AVLN/2025.parquet"
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp", b"parquet-CPP"))


def column(
    file: str, name: str, change: Callable[[pa.ChunkedArray], pa.Array]
) -> Callable[[Path], None]:
    """Other cells in a column of a file, whose size the manifest has."""

    def damage(folder: Path) -> None:
        table = pq.read_table(folder / file)
        path = folder / file
        pq.write_table(
            table.set_column(table.column_names.index(name), name, change(table[name])), path
        )
        manifest = load_manifest(folder)
        parts = [
            structs.replace(part, bytes=path.stat().st_size) if part.file == file else part
            for part in manifest.parts.values()
        ]
        (folder / "manifest.json").write_text(manifest_text(make_manifest(manifest.info, 1, parts)))

    return damage


def emptied(cells: pa.ChunkedArray) -> pa.Array:
    return pa.array([None, *cells.to_pylist()[1:]], cells.type)


def numbered(cells: pa.ChunkedArray) -> pa.Array:
    return pa.array(range(len(cells)))


def mangled(cells: pa.ChunkedArray) -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), len(cells), pa.array([b"\xff\xfe"] * len(cells)).buffers()
    )


def beyond(cells: pa.ChunkedArray) -> pa.Array:
    return pa.array([10**8] * len(cells), pa.int32()).cast(pa.date32())


def not_a_number(cells: pa.ChunkedArray) -> pa.Array:
    return pa.array([float("nan")] * len(cells))


def record(name: str, table: str, content: dict[str, Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection, connection:
            connection.execute(f"UPDATE {table} SET record = ?", (json.dumps(content),))

    return damage


CONTRACT = tiny_prices().contract_rows[0]
LISTED = replace(CONTRACT, listed_ns=at("2025-01-08T00:00:00Z"))
OTHER = ContractRow("O:BRKT250117C00050000", "BRKT", date(2025, 1, 17), 500_000, "C", 0)
EARLY = EventRelease(at("2024-11-30T00:00:00Z"), {"actual": 2.9})
DIVIDEND = DividendRow(
    "AVLN", date(2025, 1, 13), date(2025, 1, 31), 2_500, at("2025-01-14T00:00:00Z")
)

FINDINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "something else": (lambda folder: (folder / "manifest.json").unlink(), "not a dataset"),
    "missing": (
        lambda folder: (folder / "tables/rates.parquet").unlink(),
        "tables/rates.parquet: is missing",
    ),
    "size": (clipped, "prices/stock/minute/AVLN/2025.parquet: has"),
    "hash": (
        flipped,
        "prices/stock/minute/AVLN/2025.parquet: its SHA-256 is not that of the manifest",
    ),
    "order": (
        day_bars(lambda bars: bars.take(np.array([1, 0, 2]))),
        "bars in the order of their starts",
    ),
    "twice": (
        day_bars(lambda bars: bars.take(np.array([0, 0, 1]))),
        "each bar once: 1 bar of another kind",
    ),
    "high": (
        day_bars(lambda bars: replace(bars, high_e4=bars.open_e4 - 1)),
        "high: expected the highest price",
    ),
    "low": (
        day_bars(lambda bars: replace(bars, low_e4=bars.open_e4 * 0)),
        "low: expected the lowest price of the bar, above 0",
    ),
    "volume": (
        day_bars(lambda bars: replace(bars, volume=bars.volume * np.nan)),
        "volume: expected a number from 0",
    ),
    "year": (
        day_bars(lambda bars: replace(bars, start_ns=bars.start_ns + 365 * DAY)),
        "bars that start in 2025",
    ),
    "calendar": (
        day_bars(lambda bars: replace(bars, start_ns=bars.start_ns - 11 * 365 * DAY)),
        "has days outside of its calendar, 2015-01-02 to 2035-12-31",
    ),
    "midnight": (
        day_bars(lambda bars: replace(bars, start_ns=bars.start_ns + 1)),
        "midnight in UTC of its date",
    ),
    "listing": (
        rows("contracts", LISTED, key="tables/contracts/AVLN"),
        "was listed at 2025-01-08T00:00:00Z, after its first bar",
    ),
    "unlisted": (rows("symbols"), "stock AVLN: has bars, but is not in symbols"),
    "no contract": (
        rows("contracts", key="tables/contracts/AVLN"),
        "has bars, but is not in contracts",
    ),
    "foreign": (
        rows("contracts", CONTRACT, OTHER, key="tables/contracts/AVLN"),
        "holds other contracts than those on AVLN",
    ),
    "release": (
        rows("", replace(events()[0], releases=(EARLY,)), key="events"),
        "releases: expected values that are available from",
    ),
    "dividend": (
        rows("dividends", DIVIDEND),
        "declared: expected a moment before the end of ex_day",
    ),
    "same key": (
        rows("splits", *[SplitRow("AVLN", date(2025, 1, 13), 2, 1, 0)] * 2),
        "appears more than once",
    ),
    "empty cell": (
        column("tables/symbols.parquet", "symbol", emptied),
        "other columns than those of symbols, or an empty cell",
    ),
    "text": (
        column("tables/symbols.parquet", "listed_ns", lambda cells: cells.cast(pa.string())),
        "other columns than those of",
    ),
    "empty bar": (
        column("prices/stock/day/AVLN/2025.parquet", "open_e4", emptied),
        "can't be read: a cell that is empty",
    ),
    "symbols of another kind": (
        column("prices/stock/day/AVLN/2025.parquet", "symbol", numbered),
        "other columns than those of bars",
    ),
    "symbols that are not text": (
        column("prices/stock/day/AVLN/2025.parquet", "symbol", mangled),
        "a cell that can't be read",
    ),
    "no day": (
        column("tables/rates.parquet", "day", beyond),
        "tables/rates.parquet: can't be read: a cell that can't be read",
    ),
    "no yield": (
        column("tables/rates.parquet", "yield_1M", not_a_number),
        "yields: expected percents a year",
    ),
    "record": (
        record("events", "events", {"title": 5}),
        "the calendar store can't be read (a record: title: expected `str`",
    ),
    "record without fields": (
        record("events", "events", {}),
        "the calendar store can't be read (a record: field 'event_id' is missing",
    ),
    "article": (
        record("news", "articles", {"id": "news_1", "tickers": 5}),
        "the news store can't be read (a record: tickers",
    ),
    "holiday": (
        day_bars(
            lambda bars: bars_of(np.array([day_start(date(2025, 1, 9))]), bars.close_e4[:1], 1.0)
        ),
        "1 bars start outside the exchange's sessions",
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_check_finds(tiny: Path, name: str) -> None:
    damage, expected = FINDINGS[name]
    damage(tiny)
    lines = [str(finding) for finding in check_dataset(tiny)]

    assert any(expected in line for line in lines), lines
    assert all("\n" not in line for line in lines)


BAD_MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "format version 2, expected 1": lambda stored: stored.update(version=2),
    "content_id is not that of its parts": lambda stored: stored["parts"][0].update(
        content="0" * 64
    ),
    "malformed.*a part is named twice": lambda stored: stored["parts"].append(stored["parts"][0]),
    "malformed.*generation": lambda stored: stored.update(generation=0),
    "malformed.*sha256": lambda stored: stored["parts"][0].update(sha256="x"),
    "malformed.*rows": lambda stored: stored["parts"][0].update(rows=True),
    "malformed.*first_day": lambda stored: stored["info"].update(first_day="soon"),
    "malformed.*default_as_of": lambda stored: stored["info"].update(default_as_of="soon"),
}


ELSEWHERE = (
    "../../outside.parquet",
    "/etc/passwd",
    "prices/../../x.parquet",
    "prices/stock/day/AVLN/2025.sqlite",
    "tables/x.parquet",
)


@pytest.mark.parametrize(("message", "change"), BAD_MANIFESTS.items(), ids=BAD_MANIFESTS)
def test_a_manifest_that_was_changed_is_refused(
    tiny: Path, message: str, change: Callable[[dict[str, Any]], object]
) -> None:
    stored = json.loads((tiny / "manifest.json").read_text())
    change(stored)
    (tiny / "manifest.json").write_text(json.dumps(stored))

    with pytest.raises(DataError, match=message) as caught:
        open_dataset(tiny)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ELSEWHERE)
def test_a_manifest_that_points_elsewhere_is_refused(tiny: Path, file: str) -> None:
    stored = json.loads((tiny / "manifest.json").read_text())
    stored["parts"][0]["file"] = file
    (tiny / "manifest.json").write_text(json.dumps(stored))

    with pytest.raises(DataError, match="malformed"):
        open_dataset(tiny)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "x"}',
        pytest.param("[" * 100_000, id="100,000 levels"),
        '{"format": NaN}',
    ],
)
def test_a_text_that_is_no_manifest_is_refused(tiny: Path, text: str) -> None:
    (tiny / "manifest.json").write_text(text)
    with pytest.raises(DataError):
        open_dataset(tiny)
