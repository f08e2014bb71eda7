"""Check a whole dataset: every file, table and rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ktdeval.errors import DataError
from ktdeval.values import file_sha256
from ktdeval_qfinzero.data.append_rows import strays_of
from ktdeval_qfinzero.data.bar_files import BarBlock, content_of, read_block
from ktdeval_qfinzero.data.dataset_storage import file_problem, table_problems
from ktdeval_qfinzero.data.layout import (
    MANIFEST,
    SINGLE_TABLES,
    BarFile,
    DatasetManifest,
    Part,
    TableName,
    bar_file_of,
    generation_of,
    load_manifest,
    make_manifest,
    table_key,
    table_of,
)
from ktdeval_qfinzero.data.tables import TABLES
from ktdeval_qfinzero.data.validation_rules import SHOWN, Reaches, add_reach, block_problems
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import DAY, day_of, day_start
from ktdeval_qfinzero.trading_hours import FIRST, LAST, TradingHours

#: Trading days without bars at the end of a dataset from which a stock counts as delisted
_SILENT = 20


@dataclass(frozen=True, slots=True)
class DatasetFinding:
    """Error or warning about a dataset."""

    severity: Literal["error", "warning"]  #: errors make answers wrong; warnings may be intended
    where: str  #: file or table
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class _LoadedTables:
    hours: TradingHours
    tables: dict[TableName, list[Any]] = field(
        default_factory=lambda: {name: [] for name in TABLES}
    )
    reaches: Reaches = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)


def check_dataset(folder: Path) -> tuple[DatasetFinding, ...]:
    """Read all files of a dataset and return its findings, errors first; of each file and table, at
    most the first hundred.
    """
    try:
        manifest = load_manifest(folder)
    except DataError as error:
        return (DatasetFinding("error", MANIFEST, str(error)),)
    return tuple(sorted(_findings(folder, manifest), key=lambda finding: finding.severity))


def _findings(folder: Path, manifest: DatasetManifest) -> Iterator[DatasetFinding]:
    read = _LoadedTables(manifest.info.hours)
    broken = 0
    for part in manifest.parts.values():
        for line in _part_problems(folder, part, read):
            broken += 1
            yield DatasetFinding("error", part.file, line)

    for key in map(table_key, SINGLE_TABLES):
        if key not in manifest.parts:
            yield DatasetFinding("error", MANIFEST, f"names no {key}")

    yield from _manifest_findings(manifest)
    if not broken:
        for line in list(table_problems(read.tables, read.reaches))[:SHOWN]:
            yield DatasetFinding("error", "tables", line)

    yield from _symbol_warnings(read)
    for name in strays_of(folder, manifest):
        if (generation_of(name) or manifest.generation + 1) > manifest.generation:
            yield DatasetFinding(
                "warning",
                name,
                "is left over from an update that did not end; the next one removes it",
            )

    for file, count in read.outside.items():
        words = (
            "no tick shows them in time (of minutes whose times are their ends, say `stamped: end`)"
        )
        yield DatasetFinding(
            "warning", file, f"{count} bars start outside the exchange's sessions: {words}"
        )


def _part_problems(folder: Path, part: Part, read: _LoadedTables) -> list[str]:
    """Return the problems of one file, and add its rows to `read`, for the checks of all tables."""
    problem = file_problem(folder, part)
    if problem:
        return [problem]

    path = folder / part.file
    try:
        lines: list[str] = []
        if file_sha256(path) != part.sha256:
            lines.append("its SHA-256 is not that of the manifest")

        bar_file = bar_file_of(part.key)
        if bar_file is None:
            return lines + _rows_problems(path, part, read)
        return lines + _bars_problems(path, part, bar_file, read)
    except (OSError, pa.ArrowException, DataError, ServiceError) as error:
        return [f"can't be read: {str(error)[:200]}"]


def _bars_problems(path: Path, part: Part, bar_file: BarFile, read: _LoadedTables) -> list[str]:
    block = read_block(path)
    if not len(block):
        return ["holds no bars"]

    lines = block_problems(bar_file, block)[:SHOWN]
    if bar_file.asset_class != "option" and block.symbols != (bar_file.symbol,):
        lines.append(f"holds other bars than those of {bar_file.symbol}")

    reach = (int(block.bars.start_ns.min()), int(block.bars.start_ns.max()))
    lines += _compare_recorded(part, len(block), content_of(block), reach)
    add_reach(read.reaches, bar_file, block)
    # Coins trade around the clock.
    if bar_file.asset_class != "crypto":
        outside = _outside_sessions(block, bar_file, read.hours)
        if outside:
            read.outside[part.file] = outside

    return lines


def _rows_problems(path: Path, part: Part, read: _LoadedTables) -> list[str]:
    name, underlying = table_of(part.key)
    table = TABLES[name]
    rows = table.read(path)
    lines = table.problems(rows)[:SHOWN]
    read.tables[table.name] += rows

    if table.own and rows != sorted(rows, key=table.key):
        lines.append("rows are not in the order of their keys")

    if underlying and {row.underlying for row in rows} - {underlying}:
        lines.append(f"holds other contracts than those on {underlying}")

    return lines or _compare_recorded(part, len(rows), table.content(rows), (0, 0))


def _compare_recorded(part: Part, rows: int, content: str, reach: tuple[int, int]) -> list[str]:
    """Compare a part of the manifest with its file."""
    pairs = (
        ("rows", part.rows, rows),
        ("content", part.content, content),
        ("first and last", (part.first_ns, part.last_ns), reach),
    )
    lines: list[str] = []
    for name, recorded, actual in pairs:
        if recorded != actual:
            lines.append(f"{name}: the manifest says {recorded}, the file {actual}")

    return lines


def _manifest_findings(manifest: DatasetManifest) -> Iterator[DatasetFinding]:
    try:
        info = make_manifest(manifest.info, manifest.generation, manifest.parts.values()).info
    except DataError as error:
        yield DatasetFinding("error", MANIFEST, str(error))
        return

    if info != manifest.info:
        yield DatasetFinding("error", MANIFEST, "its days are not those of its bars")

    moment = info.default_as_of_ns
    if not day_start(info.first_day) <= moment <= day_start(info.last_day) + 7 * DAY:
        yield DatasetFinding(
            "warning", MANIFEST, "the clock starts outside the days that there are bars of"
        )

    first = info.hours.day(0)
    last = info.hours.day(len(info.hours.days) - 1)
    if not first <= info.first_day <= info.last_day <= last:
        message = (
            f"has days outside of its calendar, {info.hours.reach}, on which stocks, options and"
            " the broker are refused"
        )
        yield DatasetFinding("warning", MANIFEST, message)


def _symbol_warnings(read: _LoadedTables) -> Iterator[DatasetFinding]:
    barred = {symbol for asset_class, symbol in read.reaches if asset_class != "option"}
    optioned = {row.underlying for row in read.tables["contracts"]}
    for row in read.tables["symbols"]:
        if row.symbol not in barred:
            yield DatasetFinding("warning", "tables/symbols", f"{row.symbol} has no bars")

        if row.asset_class == "stock" and row.has_options != (row.symbol in optioned):
            yield DatasetFinding(
                "warning",
                "tables/symbols",
                f"{row.symbol}: has_options is {row.has_options}, contracts say otherwise",
            )

    ended = {row.symbol for row in read.tables["deals"]}
    lasts = {
        symbol: day_of(last_ns)
        for (asset_class, symbol), (_, last_ns) in read.reaches.items()
        if asset_class == "stock"
    }
    end = np.searchsorted(read.hours.days, np.datetime64(max(lasts.values(), default=FIRST)))

    for symbol, day in sorted(lasts.items()):
        silent = end - np.searchsorted(read.hours.days, np.datetime64(day))
        if symbol in ended or silent <= _SILENT:
            continue

        words = "no row says what a share became: the broker keeps what is held at its last price"
        message = f"{symbol} has no bars after {day}, and {words}"
        yield DatasetFinding("warning", "tables/deals", message)


def _outside_sessions(block: BarBlock, bar_file: BarFile, hours: TradingHours) -> int:
    """Count the bars outside the exchange's sessions, as far as the calendar reaches."""
    start = block.bars.start_ns
    start = start[(start >= day_start(FIRST)) & (start < day_start(LAST))]
    if bar_file.resolution == "day":
        days = start.astype("datetime64[ns]").astype("datetime64[D]")
        return int((~np.isin(days, hours.days)).sum())

    rows = np.searchsorted(hours.begin_ns, start, side="right") - 1
    is_outside = (rows < 0) | (start >= hours.end_ns[np.maximum(rows, 0)])
    return int(is_outside.sum())
