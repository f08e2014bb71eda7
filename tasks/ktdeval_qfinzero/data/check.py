"""Check a whole dataset: its file, its tables and all their rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ktdeval.errors import DataError
from ktdeval.values import Finding, file_sha256, sort_by_level
from ktdeval_qfinzero.data.contents import (
    BarBlock,
    bar_blocks,
    bar_parts,
    table_parts,
    table_rows,
)
from ktdeval_qfinzero.data.manifest import (
    MANIFEST,
    DatasetManifest,
    Part,
    bars_key,
    complete_info,
    file_problem,
    is_left_over,
    load_manifest,
    strays_of,
    table_key,
)
from ktdeval_qfinzero.data.problems import SHOWN
from ktdeval_qfinzero.data.schema import TABLES, MarketTable, create_tables, memory
from ktdeval_qfinzero.data.stored_market import open_market
from ktdeval_qfinzero.data.writing import CONSISTENCY, bar_problems, key_text
from ktdeval_qfinzero.timestamps import DAY, day_of, day_start
from ktdeval_qfinzero.trading_hours import FIRST, LAST, TradingHours

#: Number of trading days without bars at the end of a dataset after which a stock is considered
#: delisted
_SILENT = 20
_TABLES_OF = """SELECT table_name, list((column_name, data_type) ORDER BY column_index) FROM duckdb_columns()
    JOIN duckdb_tables() USING (database_name, schema_name, table_name)
    WHERE database_name = '{}' AND schema_name = 'main' GROUP BY ALL ORDER BY ALL"""


@dataclass(frozen=True, slots=True)
class _DatasetCheck:
    manifest: DatasetManifest
    hours: TradingHours
    parts: dict[str, Part] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    #: start of the last bar of each stock and crypto asset, by class and symbol
    lasts: dict[tuple[str, str], int] = field(default_factory=dict)

    def error(self, where: str, message: str) -> None:
        """Add an error, which makes the services' answers wrong."""
        self.findings.append(Finding(path=where, message=message))

    def warn(self, where: str, message: str) -> None:
        """Add a warning about something that may be intended."""
        self.findings.append(Finding(path=where, message=message, level="warning"))


def check_dataset(folder: Path) -> tuple[Finding, ...]:
    """Read a whole dataset and check its hashes, order, prices, times, and the consistency of its
    tables. Return the findings, errors first, with at most the first hundred for each part and
    table.
    """
    try:
        manifest = load_manifest(folder)
    except DataError as error:
        return (Finding(path=MANIFEST, message=str(error)),)

    check = _DatasetCheck(manifest, manifest.info.hours)
    _check_file(check, folder)
    _check_manifest(check)
    for name in strays_of(folder, manifest):
        if is_left_over(name, manifest):
            check.warn(
                name, "is left over from an update that did not end; the next one removes it"
            )

    return tuple(sort_by_level(check.findings))


def _check_file(check: _DatasetCheck, folder: Path) -> None:
    file = check.manifest.file
    problem = file_problem(folder, file)
    if problem:
        check.error(file.name, problem)
        return

    path = folder / file.name
    try:
        if file_sha256(path) != file.sha256:
            check.error(file.name, "its SHA-256 is not that of the manifest")

        with open_market(path) as connection:
            _check_content(check, connection)
    except (OSError, duckdb.Error, ValueError, OverflowError) as error:
        check.error(file.name, f"can't be read: {' '.join(str(error).split())[:200]}")


def _check_content(check: _DatasetCheck, connection: duckdb.DuckDBPyConnection) -> None:
    with memory() as expected:
        create_tables(expected, "main")
        tables = expected.execute(_TABLES_OF.format("memory")).fetchall()

    if connection.execute(_TABLES_OF.format("market")).fetchall() != tables:
        check.error(check.manifest.file.name, "other tables than those of a market")
        return

    for block in bar_blocks(connection):
        _check_bars(check, block)

    tables_rows: dict[str, list[Any]] = {}
    for table in TABLES.values():
        tables_rows[table.name] = table_rows(connection, table)
        _check_rows(check, connection, table, tables_rows[table.name])

    _check_recorded(check)
    if not any(finding.level == "error" for finding in check.findings):
        for (line,) in connection.execute(CONSISTENCY).fetchmany(SHOWN):
            check.error("tables", line)

    _warn_about_symbols(check, tables_rows)


def _check_bars(check: _DatasetCheck, block: BarBlock) -> None:
    own = f"{block.asset_class} {block.resolution} {block.owner}"
    for line in bar_problems(block)[:SHOWN]:
        where, _, message = line.partition(": ")
        check.error(where, message)

    within = np.ones(len(block.bars), bool)
    within[block.offsets[:-1]] = False
    steps = np.diff(block.bars.start_ns, prepend=block.bars.start_ns[:1])
    for wrong, expected in (
        (within & (steps == 0), "each bar once"),
        (within & (steps < 0), "bars in the order of their starts"),
    ):
        if wrong.any():
            symbol = block.symbol_at(int(np.flatnonzero(wrong)[0]))
            check.error(
                own, f"time: expected {expected}: {wrong.sum()} of another kind, first of {symbol}"
            )

    for part in bar_parts(block):
        check.parts[part.key] = part

    if block.asset_class != "option":
        key = block.asset_class, block.owner
        check.lasts[key] = max(check.lasts.get(key, 0), int(block.bars.start_ns[-1]))

    # Crypto assets trade around the clock.
    if block.asset_class != "crypto":
        _warn_about_sessions(check, block)


def _warn_about_sessions(check: _DatasetCheck, block: BarBlock) -> None:
    """Count the bars outside the exchange's sessions, by year, within the range of the calendar."""
    hours = check.hours
    start = block.bars.start_ns
    if block.resolution == "day":
        days = start.astype("datetime64[ns]").astype("datetime64[D]")
        outside = ~np.isin(days, hours.days)
    else:
        rows = np.searchsorted(hours.begin_ns, start, side="right") - 1
        outside = (rows < 0) | (start >= hours.end_ns[np.maximum(rows, 0)])

    outside &= (start >= day_start(FIRST)) & (start < day_start(LAST))
    years, counts = np.unique(block.years()[outside], return_counts=True)
    for year, count in zip(years.tolist(), counts.tolist(), strict=True):
        check.warn(
            bars_key(block.asset_class, block.resolution, block.owner, year),
            f"{count} bars start outside the exchange's sessions: no tick shows them in time (of"
            " minutes whose times are their ends, say `stamped: end`)",
        )


def _check_rows(
    check: _DatasetCheck,
    connection: duckdb.DuckDBPyConnection,
    table: MarketTable,
    rows: list[Any],
) -> None:
    place = table_key(table.name)
    source = f"(SELECT *, row_number() OVER (ORDER BY {table.order}) - 1 AS number FROM market.{table.name})"  # noqa: S608 - constants
    for fault in table.broken(connection, source, "number")[:SHOWN]:
        key = key_text(table, rows[fault.number])
        check.error(place, f"{key}: {fault.field}: expected {fault.expected}")

    repeated = connection.execute(
        f"SELECT {table.order} FROM market.{table.name} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT {SHOWN}"  # noqa: S608 - constants
    ).fetchall()
    for pieces in repeated:
        check.error(place, f"{' '.join(map(str, pieces))}: appears more than once")

    for part in table_parts(table, rows):
        check.parts[part.key] = part


def _check_recorded(check: _DatasetCheck) -> None:
    """Compare the parts in the file with the manifest."""
    recorded = check.manifest.parts
    for key in sorted({*recorded, *check.parts}):
        if key not in check.parts:
            check.error(key, "is missing in the file")
        elif key not in recorded:
            check.error(key, "is not named by the manifest")
        elif check.parts[key] != recorded[key]:
            check.error(key, f"{recorded[key].rows} rows in the manifest, which differ in the file")


def _check_manifest(check: _DatasetCheck) -> None:
    info = check.manifest.info
    try:
        complete = complete_info(info, check.manifest.parts.values())
    except DataError as error:
        check.error(MANIFEST, str(error))
        return

    if info != complete:
        check.error(MANIFEST, "its days are not those of its bars")

    if not day_start(info.first_day) <= info.default_as_of_ns <= day_start(info.last_day) + 7 * DAY:
        check.warn(MANIFEST, "the clock starts outside the days that there are bars of")

    first = check.hours.day(0)
    last = check.hours.day(len(check.hours.days) - 1)
    if not first <= info.first_day <= info.last_day <= last:
        check.warn(
            MANIFEST,
            f"has days outside of its calendar, {check.hours.reach}, on which stocks, options and"
            " the broker are refused",
        )


def _warn_about_symbols(check: _DatasetCheck, tables: dict[str, list[Any]]) -> None:
    barred = {symbol for _, symbol in check.lasts}
    optioned = {row.underlying for row in tables["contracts"]}
    for row in tables["symbols"]:
        if row.symbol not in barred:
            check.warn("tables/symbols", f"{row.symbol} has no bars")

        if row.asset_class == "stock" and row.has_options != (row.symbol in optioned):
            check.warn(
                "tables/symbols",
                f"{row.symbol}: has_options is {row.has_options}, contracts say otherwise",
            )

    ended = {row.symbol for row in tables["deals"]}
    lasts: dict[str, date] = {}
    for (asset_class, symbol), last_ns in check.lasts.items():
        if asset_class == "stock":
            lasts[symbol] = day_of(last_ns)

    end = np.searchsorted(check.hours.days, np.datetime64(max(lasts.values(), default=FIRST)))
    for symbol, day in sorted(lasts.items()):
        silent = end - np.searchsorted(check.hours.days, np.datetime64(day))
        if symbol not in ended and silent > _SILENT:
            check.warn(
                "tables/deals",
                f"{symbol} has no bars after {day}, and no row says what a share became: the broker"
                " keeps what is held at its last price",
            )
