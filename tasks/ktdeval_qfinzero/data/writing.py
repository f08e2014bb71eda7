"""Write a market file in one transaction: a new dataset, or an existing dataset with rows added.

An added row is new, equal to a stored row, or contradicts a stored row with the same key. An update
writes a new file next to the old one and replaces the manifest last, so the folder always contains
either the old dataset or the new one. The old file stays until the next update.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace as replaced_fields
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ktdeval.errors import DataError, StoreError, os_advice
from ktdeval.values import (
    lock_folder,
    new_folder,
    sync_files,
    undone_on_error,
    write_atomic,
)
from ktdeval_qfinzero.data.contents import BarBlock, all_parts
from ktdeval_qfinzero.data.manifest import (
    MANIFEST,
    DatasetManifest,
    MarketFile,
    Part,
    bars_key,
    complete_info,
    file_name,
    load_manifest,
    manifest_text,
    market_file,
    strays_of,
    table_key,
)
from ktdeval_qfinzero.data.problems import SHOWN, ProblemList
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    AssetClass,
    Bars,
    DatasetInfo,
    EventRow,
    NewsRow,
    PriceRows,
    Resolution,
    empty_bars,
    join,
)
from ktdeval_qfinzero.data.schema import (
    TABLES,
    MarketTable,
    TableName,
    bars_table,
    broken_rules,
    create_tables,
)
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.timestamps import moment_text

_LAST_NS = 2**62 - 1
_STORAGE = "v1.5.0"  #: oldest supported DuckDB version, which must be able to read all files
_SERIES = pa.schema(
    {
        **dict.fromkeys(("asset_class", "resolution", "owner", "symbol"), pa.string()),
        **dict.fromkeys(("first_ns", "last_ns"), pa.int64()),
    }
)
_NUMBER_SERIES = """
    CREATE TEMP TABLE series AS
    SELECT (row_number() OVER (ORDER BY asset_class, resolution, owner, symbol) - 1)::INTEGER AS series,
        asset_class, resolution, owner, symbol, min(first_ns) AS first_ns, max(last_ns) AS last_ns
    FROM (FROM given_series UNION ALL SELECT * EXCLUDE (series) FROM old.series)
    GROUP BY asset_class, resolution, owner, symbol
"""
#: Asset class, resolution, owner (for options, the root of their symbols) and symbol
SeriesKey = tuple[AssetClass, Resolution, str, str]
#: Query for inconsistencies between tables, and between tables and bars
CONSISTENCY = Path(__file__).with_name("consistency.sql").read_text(encoding="utf-8")
_MERGE = Path(__file__).with_name("merge.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Numbers of added rows, by their relation to the stored rows."""

    new: int = 0  #: no stored row has the key
    same: int = 0  #: equal to the stored row
    grown: int = 0  #: events that gained releases
    other: int = 0  #: contradict the stored row

    @property
    def changes(self) -> bool:
        """True if the stored rows change."""
        return bool(self.new or self.grown or self.other)


@dataclass(frozen=True, slots=True)
class DatasetAddition:
    """Rows to add to a dataset."""

    prices: PriceRows  #: bars and small tables
    events: Sequence[EventRow] = ()  #: a stored event may be given again with more releases
    news: Sequence[NewsRow] = ()
    #: new start of the dataset's clock; None keeps the old start
    default_as_of_ns: int | None = None


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """Report of an update."""

    before: str  #: identity of the dataset before the update
    info: DatasetInfo  #: dataset after the update
    #: tallies by kind of row (`stock minute`, `contracts`, `events`, …)
    tallies: Mapping[str, AddedRows]
    replaced: tuple[str, ...]  #: one line for each of the first replaced rows


def save_dataset(
    folder: Path,
    prices: PriceRows,
    events: Sequence[EventRow],
    news: Sequence[NewsRow],
    info: DatasetInfo,
) -> DatasetInfo:
    """Write a dataset as a folder, in full or not at all. Return its description with days and
    identity filled in.

    `folder` must be absent or empty, or contain this same dataset, which is then left as it is.
    Raises DatasetRefused, which lists the wrong rows; DataError without daily bars;
    StoreError if the folder contains something else or can't be written.
    """
    held = _read_held_dataset(folder)
    try:
        with new_folder(folder) as inside:
            written = _write_market(inside, 1, DatasetAddition(prices, events, news))
            complete = complete_info(info, written.parts.values())
            manifest = DatasetManifest(complete, 1, written.file, written.parts)
            (inside / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")

            if held is not None:
                if held.info.content_id != complete.content_id:
                    raise StoreError(
                        f"{folder}: holds another dataset; choose another folder, or update"
                        " that one"
                    )

                shutil.rmtree(inside)
    except (OSError, duckdb.Error, pa.ArrowException) as error:
        advice = os_advice(error, "free space or choose another folder")
        raise StoreError(f"{folder}: can't write: {_reason(error)}; {advice}") from error

    return complete if held is None else held.info


def _read_held_dataset(folder: Path) -> DatasetManifest | None:
    """Return the manifest of the dataset in a folder; None if the folder is absent or empty. Raises
    StoreError if it contains something else.
    """
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        return load_manifest(folder)
    except (OSError, DataError) as error:
        raise StoreError(
            f"{folder}: exists and is not a dataset; choose another folder or remove it"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:200]


def update_dataset(
    folder: Path, addition: DatasetAddition, *, replace: bool = False
) -> UpdateReport:
    """Add rows to a dataset, all or none. Rows equal to stored ones are skipped. The resulting
    identity is that of a dataset made from all rows at once.

    Raises DatasetRefused if rows are malformed, contradict each other or, without `replace`,
    contradict stored rows; DataError if the folder does not contain a dataset or its file is
    damaged; StoreError if another process is writing the dataset, or if it can't be written.
    """
    with lock_folder(folder):
        manifest = load_manifest(folder)
        try:
            _remove_strays(folder, manifest)
            with undone_on_error(lambda _: _remove_unpublished(folder, manifest)):
                return _update(folder, manifest, addition, replace=replace)
        except (OSError, duckdb.Error, pa.ArrowException) as error:
            advice = os_advice(error, "free space, or check the dataset")
            raise StoreError(f"{folder}: can't update: {_reason(error)}; {advice}") from error


def _update(
    folder: Path, manifest: DatasetManifest, addition: DatasetAddition, *, replace: bool
) -> UpdateReport:
    before = manifest.info
    generation = manifest.generation + 1
    stored = folder / manifest.file.name
    written = _write_market(folder, generation, addition, stored, replace=replace)
    moment = addition.default_as_of_ns
    if moment is None:
        moment = before.default_as_of_ns

    info = before
    has_changed = any(tally.changes for tally in written.tallies.values())
    if has_changed or moment != before.default_as_of_ns:
        moved = replaced_fields(before, default_as_of_ns=moment)
        info = complete_info(moved, written.parts.values())
        new = DatasetManifest(info, generation, written.file, written.parts)
        # The file must reach the disk before the manifest that names it.
        sync_files(folder, [written.file.name])
        write_atomic(folder / MANIFEST, manifest_text(new))
    else:
        (folder / written.file.name).unlink()

    return UpdateReport(before.content_id, info, written.tallies, tuple(written.replaced))


def _remove_strays(folder: Path, manifest: DatasetManifest) -> None:
    """Remove only the files of earlier generations and of interrupted updates."""
    for name in strays_of(folder, manifest):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _remove_unpublished(folder: Path, manifest: DatasetManifest) -> None:
    """Remove an update's new file, unless the manifest had been replaced before the failure."""
    with suppress(OSError, DataError):
        published = load_manifest(folder)
        if published.generation == manifest.generation:
            (folder / file_name(manifest.generation + 1)).unlink(missing_ok=True)


@dataclass(slots=True)
class _WrittenMarket:
    """A written file with its parts, tallies and replaced rows."""

    file: MarketFile
    parts: dict[str, Part]
    tallies: dict[str, AddedRows]
    replaced: list[str]


def _write_market(
    folder: Path,
    generation: int,
    addition: DatasetAddition,
    stored: Path | None = None,
    *,
    replace: bool = False,
) -> _WrittenMarket:
    """Write the file of a generation: the stored rows, if there are any, and the added rows."""
    path = folder / file_name(generation)
    if "?" in str(path):
        # DuckDB would read what follows as URL parameters.
        raise StoreError(f"{folder}: a path with a question mark; choose another folder")

    with _new_database(path, stored) as connection:
        run = _MarketWriter(connection, replace, has_stored=stored is not None)
        create_tables(connection, "market")
        connection.execute("BEGIN")
        run.write(addition)
        connection.execute("COMMIT")
        parts = all_parts(connection)

    file = market_file(path)
    return _WrittenMarket(file, parts, run.tallies, run.replaced)


@contextmanager
def _new_database(path: Path, stored: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a new file, with the stored rows, if there are any, as `old`."""
    # With one thread, the file is smaller and keeps the order of the rows.
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        temporary = _literal(f"{path}.tmp")
        connection.execute(f"SET temp_directory = {temporary}")
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"ATTACH {_literal(path)} AS market (STORAGE_VERSION '{_STORAGE}')")
        if stored is None:
            connection.execute("ATTACH ':memory:' AS old")
            create_tables(connection, "old")
        else:
            connection.execute(f"ATTACH {_literal(stored)} AS old (READ_ONLY)")

        connection.execute("SET enable_external_access = false")
        yield connection
        connection.execute("DETACH market")


def _literal(path: Path | str) -> str:
    quoted = str(path).replace("'", "''")
    return f"'{quoted}'"


@dataclass(slots=True)
class _MarketWriter:
    connection: duckdb.DuckDBPyConnection
    replace: bool
    has_stored: bool
    problems: ProblemList = field(default_factory=ProblemList)
    tallies: dict[str, AddedRows] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def write(self, addition: DatasetAddition) -> None:
        """Write all rows, or raise DatasetRefused with all problems: after the first one, all rows
        are still checked, but nothing more is written.
        """
        tables = tables_of(addition.prices) | {"events": addition.events, "news": addition.news}
        for name, rows in tables.items():
            self._stage_rows(TABLES[name], rows)

        if self.has_stored:
            # Repeated or malformed rows can't be compared with stored ones.
            self.problems.refuse()

        self._write_bars(addition.prices)
        for name in tables:
            self._merge_rows(TABLES[name])

        found = self.connection.execute(CONSISTENCY.replace("market.", "temp.")).fetchall()
        for (line,) in found:
            self.problems.add(line)

        self.problems.refuse()
        for table in TABLES.values():
            self.connection.execute(
                f"INSERT INTO market.{table.name} SELECT * FROM temp.{table.name} ORDER BY {table.order}"  # noqa: S608 - constants
            )

        self.connection.execute(
            "INSERT INTO market.series SELECT * FROM temp.series ORDER BY series"
        )

    def _stage_rows(self, table: MarketTable, rows: Sequence[Any]) -> None:
        """Register rows as `staged_TABLE`; wrong rows become problems."""
        place = table_key(table.name)
        faults, staged = table.faults(rows)
        for fault in faults:
            key = key_text(table, rows[fault.number])
            self.problems.add(f"{place}: {key}: {fault.field}: expected {fault.expected}")

        seen: set[Any] = set()
        for row in rows:
            row_key = table.key_of(row)
            if row_key in seen:
                self.problems.add(f"{place}: {key_text(table, row)}: appears more than once")
            seen.add(row_key)

        self.connection.register(f"staged_{table.name}", staged)

    def _write_bars(self, prices: PriceRows) -> None:
        """Write the bars in one sorted insert; wrong bars become problems instead."""
        series = self._number_series(prices)
        for block in _blocks_of(prices, series):
            for line in bar_problems(block):
                self.problems.add(line)

        if self.problems.count:
            return

        target = "market.bars"
        if self.has_stored:
            target = "temp.staged_bars"
            self.connection.execute(
                "CREATE TEMP TABLE staged_bars AS SELECT * FROM market.bars LIMIT 0"
            )

        batches = _numbered_batches(prices, series)
        reader = pa.RecordBatchReader.from_batches(bars_table(empty_bars()).schema, batches)
        self.connection.register("given_bars", reader)
        self.connection.execute(f"INSERT INTO {target} SELECT * FROM given_bars")  # noqa: S608 - constants
        self.connection.unregister("given_bars")
        if self.has_stored:
            self._merge_bars()

    def _number_series(self, prices: PriceRows) -> dict[SeriesKey, int]:
        """Create `temp.series` and number the new series; malformed ones become problems."""
        found: dict[SeriesKey, tuple[int, int]] = {}
        for asset_class, symbol, resolution in sorted(prices.bar_table):
            owner = owner_of(asset_class, symbol)
            if owner is None:
                expected = "an OPRA symbol" if asset_class == "option" else "a ticker in capitals"
                self.problems.add(
                    f"{asset_class} {resolution} bars of {symbol[:40]!r}: expected {expected}"
                )
                continue

            bars = prices.bar_table[asset_class, symbol, resolution]
            problem = _series_problem(bars)
            if problem:
                self.problems.add(f"{asset_class} {resolution} bars of {symbol}: {problem}")
            elif len(bars):
                reach = int(bars.start_ns[0]), int(bars.start_ns[-1])
                found[asset_class, resolution, owner, symbol] = reach

        columns = [[*names, *reach] for names, reach in found.items()]
        cells = [list(column) for column in zip(*columns, strict=True)] or [[]] * len(_SERIES)
        self.connection.register("given_series", pa.table(cells, _SERIES))
        names = "asset_class, resolution, owner, symbol"
        self.connection.execute(_NUMBER_SERIES)
        numbered = self.connection.execute(
            f"SELECT {names}, series FROM temp.series SEMI JOIN given_series USING ({names}) ORDER BY series"  # noqa: S608 - constants
        ).fetchall()
        self.connection.unregister("given_series")
        return {row[:4]: row[4] for row in numbered}

    def _merge_bars(self) -> None:
        """Write the stored and the staged bars; if two contradict, the new one is written."""
        for statement in _MERGE.split(";\n")[:-1]:
            self.connection.execute(statement)

        tallies = self.connection.execute("SELECT * FROM bar_tallies").fetchall()
        for kind, count, matched, other in tallies:
            lines = [f"{kind}: {line}" for line in self._contradictions(kind)] if other else []
            tally = AddedRows(new=count - matched, same=matched - other, other=other)
            self._note(kind, tally, lines)

    def _contradictions(self, kind: str) -> Iterator[str]:
        """Yield the first column that differs, for the first contradicting pairs of bars."""
        pairs = self.connection.execute(
            f"SELECT * FROM bar_contradictions WHERE kind = ? ORDER BY series, start_ns LIMIT {SHOWN}",  # noqa: S608 - constants
            (kind,),
        ).fetchall()
        names = BAR_COLUMNS[1:]
        for _, _, symbol, start_ns, *values in pairs:
            both = zip(names, values[: len(names)], values[len(names) :], strict=True)
            name, stored, new = next(each for each in both if each[1] != each[2])
            moment = moment_text(start_ns)
            yield f"{symbol} at {moment}: {name} is {stored}, the new row says {new}"

    def _merge_rows(self, table: MarketTable) -> None:
        """Create `temp.TABLE` from stored and staged rows; a staged row replaces a stored one."""
        self._compare_rows(table)
        staged = f"staged_{table.name}"
        others = f"SELECT * FROM old.{table.name} ANTI JOIN {staged} USING ({table.order})"  # noqa: S608 - constants
        self.connection.execute(
            f"CREATE TEMP TABLE {table.name} AS {others} UNION ALL SELECT * FROM {staged}"  # noqa: S608 - constants
        )

    def _compare_rows(self, table: MarketTable) -> None:
        """Count staged rows by their relation to the stored rows."""
        staged = f"staged_{table.name}"
        columns = [*table.columns]
        differs = " OR ".join(f'o."{name}" IS DISTINCT FROM s."{name}"' for name in columns)
        sides = [", ".join(f'{side}."{name}"' for name in columns) for side in ("o", "s")]
        joined = f"FROM old.{table.name} o JOIN {staged} s USING ({table.order})"
        (counts,) = self.connection.execute(
            f"SELECT (SELECT count(*) FROM {staged}), (SELECT count(*) {joined})"  # noqa: S608 - constants
        ).fetchall()
        if not counts[0]:
            return

        pairs = self.connection.execute(
            f"SELECT {sides[0]}, {sides[1]} {joined} WHERE {differs}"
        ).fetchall()
        before = table.rows_of([pair[: len(columns)] for pair in pairs])
        after = table.rows_of([pair[len(columns) :] for pair in pairs])
        lines: list[str] = []
        grown = 0
        for stored, new in zip(before, after, strict=True):
            if isinstance(stored, EventRow) and gained_releases(stored, new):
                grown += 1
            else:
                lines.append(f"{table.name}: {_row_line(table, stored, new)}")

        tally = AddedRows(counts[0] - counts[1], counts[1] - len(pairs), grown, len(lines))
        self._note(table.name, tally, lines[:SHOWN])

    def _note(self, kind: str, tally: AddedRows, lines: Sequence[str]) -> None:
        """Keep a tally. Contradictions are problems, unless new rows replace stored ones."""
        self.tallies[kind] = tally
        if self.replace:
            self.replaced += lines[: SHOWN - len(self.replaced)]
            return

        for line in lines:
            self.problems.add(
                f"{line}; --replace (in Python replace=True) lets the new row replace it"
            )

        self.problems.count += tally.other - len(lines)


def tables_of(prices: PriceRows) -> dict[TableName, Sequence[Any]]:
    """Return the small tables, keyed by name."""
    names = [name for name in TABLES if name not in ("events", "news")]
    return {name: getattr(prices, f"{name.removesuffix('s')}_rows") for name in names}


def owner_of(asset_class: AssetClass, symbol: str) -> str | None:
    """Return the ticker that a series is stored under (an option's root); None if malformed."""
    if asset_class != "option":
        return symbol if TICKER.fullmatch(symbol) else None

    contract = read_contract(symbol)
    return None if contract is None else contract.underlying


def _blocks_of(prices: PriceRows, series: Iterable[SeriesKey]) -> Iterator[BarBlock]:
    """Yield the bars of some series, which are sorted, by class, resolution and owner."""
    for (asset_class, resolution, owner), group in groupby(series, lambda key: key[:3]):
        symbols = [symbol for *_, symbol in group]
        pieces = [prices.bar_table[asset_class, symbol, resolution] for symbol in symbols]
        offsets = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces])))
        yield BarBlock(asset_class, resolution, owner, symbols, offsets, join(pieces))


def _numbered_batches(
    prices: PriceRows, series: Mapping[SeriesKey, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the bars of some series with the numbers of the series, in order."""
    for block in _blocks_of(prices, series):
        owner = block.asset_class, block.resolution, block.owner
        numbers = np.array([series[*owner, symbol] for symbol in block.symbols], np.int32)
        table = bars_table(block.bars, np.repeat(numbers, np.diff(block.offsets)))
        yield from table.to_batches()


def _series_problem(bars: Bars) -> str:
    """Return the problem with an instrument's series as a whole, or an empty string."""
    for name in BAR_COLUMNS:
        dtype = np.dtype(np.float64 if name == "volume" else np.int64)
        column = getattr(bars, name)
        if column.dtype != dtype or column.shape != (len(bars),):
            return f"{name}: expected an array of {len(bars)} {dtype.name}, as many as start_ns"

    if not len(bars):
        return ""
    if (bars.start_ns[1:] <= bars.start_ns[:-1]).any():
        return "time: expected bars in the order of their starts, each once"
    if bars.start_ns[0] < 0 or bars.start_ns[-1] > _LAST_NS:
        return "time: expected starts from 1970 to 2115"

    return ""


def bar_problems(block: BarBlock) -> list[str]:
    """Return a line for each rule that a part's bars break, with their number and the first."""
    lines: list[str] = []
    for rule in broken_rules(block.bars, block.asset_class, block.resolution):
        rows = np.flatnonzero(rule.bad)
        years = block.years()[rows]
        for year in np.unique(years).tolist():
            own = rows[years == year]
            first = int(own[0])
            bars = "1 bar" if len(own) == 1 else f"{len(own)} bars"
            key = bars_key(block.asset_class, block.resolution, block.owner, year)
            lines.append(
                f"{key}: {rule.field}: expected {rule.expected}: {bars} of another kind, first"
                f" {block.symbol_at(first)} at {moment_text(int(block.bars.start_ns[first]))}"
            )

    return lines


def key_text(table: MarketTable, row: Any) -> str:
    """Return a row's key in the form that messages show."""
    return " ".join(str(getattr(row, name))[:60] for name in table.key)


def gained_releases(before: EventRow, after: EventRow) -> bool:
    """Return whether an event only gained releases: its outcome became known or was revised."""
    count = len(before.releases)
    if after.releases[:count] != before.releases:
        return False
    return replaced_fields(after, releases=before.releases) == before


def _row_line(table: MarketTable, stored: Any, new: Any) -> str:
    name = next(name for name in table.columns if getattr(stored, name) != getattr(new, name))
    before = _short_text(getattr(stored, name))
    after = _short_text(getattr(new, name))
    return f"{key_text(table, stored)}: {name} is {before}, the new row says {after}"


def _short_text(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
