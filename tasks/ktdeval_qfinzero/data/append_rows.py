"""Add rows to a dataset folder: write new files next to the old ones, then replace the manifest.

A row is new, equal to a stored one, or contradicts a stored one with the same key. At every moment
the folder is either the old dataset or the new one. The old files stay until the next update, so
services that have the old dataset open can still read it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from ktdeval.errors import DataError, StoreError
from ktdeval.values import lock_folder, sync_files, undone_on_error, write_atomic
from ktdeval_qfinzero.data.bar_files import BarBlock, block_of, join, read_block
from ktdeval_qfinzero.data.dataset_storage import PartWriter, reaches_of, table_problems
from ktdeval_qfinzero.data.layout import (
    MANIFEST,
    DatasetManifest,
    Part,
    TableName,
    bar_file_of,
    contracts_key,
    generation_of,
    load_manifest,
    make_manifest,
    manifest_text,
    table_key,
    table_of,
)
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    Bars,
    ContractRow,
    DatasetInfo,
    EventRow,
    IntArray,
    NewsRow,
    PriceRows,
)
from ktdeval_qfinzero.data.tables import TABLES, key_text, parts_of
from ktdeval_qfinzero.data.validation_rules import (
    SHOWN,
    ProblemList,
    Reaches,
    add_reach,
    block_problems,
    blocks_of,
    tables_of,
)
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.timestamps import moment_text

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Numbers of added rows, by how they relate to the stored ones."""

    new: int = 0  #: no stored row has the key
    same: int = 0  #: equal to the stored row
    grown: int = 0  #: events that gained releases
    other: int = 0  #: contradict the stored row

    def __add__(self, more: AddedRows) -> AddedRows:
        return AddedRows(
            self.new + more.new,
            self.same + more.same,
            self.grown + more.grown,
            self.other + more.other,
        )

    @property
    def changes(self) -> bool:
        """Whether the stored rows change."""
        return bool(self.new or self.grown or self.other)


@dataclass(frozen=True, slots=True)
class MergedRows(Generic[Rows]):
    """Stored and new rows together; if two contradict, the new one."""

    rows: Rows
    tally: AddedRows  #: of the new rows
    contradictions: tuple[str, ...]  #: a line for each of the first ones


def merge_blocks(stored: BarBlock, new: BarBlock) -> MergedRows[BarBlock]:
    """Merge stored and new bars of one file. Bars are identified by symbol and start, which neither
    block repeats.
    """
    symbols = tuple(sorted({*stored.symbols, *new.symbols}))
    blocks = [block for block in (stored, new) if len(block)]
    codes = np.concatenate([_codes_of(block, symbols) for block in blocks])
    bars = join([block.bars for block in blocks])
    from_new = np.repeat([False, True], [len(stored), len(new)])
    order = np.lexsort((from_new, bars.start_ns, codes))
    bars = bars.take(order)
    codes = codes[order]
    from_new = from_new[order]
    # Bars of the same key are now neighbours, the stored one first.
    twice = np.flatnonzero((np.diff(codes) == 0) & (np.diff(bars.start_ns) == 0))
    other = np.zeros(len(twice), bool)
    for column in bars.columns():
        other |= column[twice] != column[twice + 1]

    keep = np.ones(len(bars), bool)
    keep[twice[other]] = False
    keep[twice[~other] + 1] = False
    offsets = np.searchsorted(codes[keep], np.arange(len(symbols) + 1)).astype(np.int64)
    tally = AddedRows(new=len(new) - len(twice), same=int((~other).sum()), other=int(other.sum()))
    lines: list[str] = []
    for row in twice[other][:SHOWN].tolist():
        lines.append(_bar_line(symbols[codes[row]], bars.take(slice(row, row + 2))))

    return MergedRows(BarBlock(symbols, offsets, bars.take(keep)), tally, tuple(lines))


def _codes_of(block: BarBlock, symbols: Sequence[str]) -> IntArray:
    """Return [n] the index of each bar's symbol in `symbols`."""
    codes = np.searchsorted(symbols, block.symbols)
    return np.repeat(codes, np.diff(block.offsets))


def merge_rows(
    stored: Iterable[Any],
    new: Sequence[Any],
    key: Callable[[Any], Any],
    grown: Callable[[Any, Any], bool] | None = None,
) -> MergedRows[list[Any]]:
    """Merge stored and new rows of a table; neither repeats a key. `grown` tells whether a new row
    only adds to the stored one.
    """
    rows = {key(row): row for row in stored}
    tally = AddedRows()
    lines: list[str] = []

    for row in new:
        row_key = key(row)
        before = rows.get(row_key)
        if before is None:
            tally += AddedRows(new=1)
        elif before == row:
            tally += AddedRows(same=1)
        elif grown is not None and grown(before, row):
            tally += AddedRows(grown=1)
        else:
            tally += AddedRows(other=1)
            lines.append(_row_line(row_key, before, row))

        rows[row_key] = row

    return MergedRows(list(rows.values()), tally, tuple(lines[:SHOWN]))


def gained_releases(before: EventRow, after: EventRow) -> bool:
    """Whether an event only gained releases: its outcome became known, or was revised."""
    count = len(before.releases)
    if after.releases[:count] != before.releases:
        return False
    return replace(after, releases=before.releases) == before


def _bar_line(symbol: str, pair: Bars) -> str:
    """Describe the first column in which a stored bar and the new one differ."""
    moment = moment_text(int(pair.start_ns[0]))
    for name, column in zip(BAR_COLUMNS, pair.columns(), strict=True):
        stored, new = column.tolist()
        if stored != new:
            return f"{symbol} at {moment}: {name} is {stored}, the new row says {new}"

    raise AssertionError("the bars are equal")


def _row_line(key: Any, stored: Any, new: Any) -> str:
    name = next(name for name in stored.__slots__ if getattr(stored, name) != getattr(new, name))
    before = _short_text(getattr(stored, name))
    after = _short_text(getattr(new, name))
    return f"{key_text(key)}: {name} is {before}, the new row says {after}"


def _short_text(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


@dataclass(frozen=True, slots=True)
class DatasetAddition:
    """Rows to add to a dataset."""

    prices: PriceRows  #: bars and small tables
    events: Sequence[EventRow] = ()  #: a stored event may come again with more releases
    news: Sequence[NewsRow] = ()
    default_as_of_ns: int | None = None  #: new start of the dataset's clock; None keeps the old one


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """Report of an update."""

    before: str  #: identity of the dataset before the update
    info: DatasetInfo  #: dataset after the update
    tallies: Mapping[str, AddedRows]  #: by kind of rows (`stock minute`, `contracts`, `events`, …)
    replaced: tuple[str, ...]  #: a line for each of the first replaced rows
    files: tuple[str, ...]  #: files written


@dataclass(slots=True)
class _DatasetUpdate:
    folder: Path
    manifest: DatasetManifest
    writer: PartWriter
    replace: bool
    problems: ProblemList = field(default_factory=ProblemList)
    parts: dict[str, Part] = field(default_factory=dict)
    tallies: dict[str, AddedRows] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def note(self, kind: str, merged: MergedRows[Any]) -> None:
        """Count merged rows. Contradictions are problems, unless new rows replace stored ones."""
        self.tallies[kind] = self.tallies.get(kind, AddedRows()) + merged.tally
        lines = [f"{kind}: {line}" for line in merged.contradictions]
        if self.replace:
            self.replaced += lines[: SHOWN - len(self.replaced)]
            return

        for line in lines:
            self.problems.add(
                f"{line}; --replace (in Python replace=True) lets the new row replace it"
            )

        self.problems.count += merged.tally.other - len(lines)

    def find_stored(self, key: str) -> Path | None:
        """Return the stored file of a part, if there is one."""
        part = self.manifest.parts.get(key)
        if part is None:
            return None
        return self.folder / part.file


def update_dataset(
    folder: Path, addition: DatasetAddition, *, replace: bool = False
) -> UpdateReport:
    """Add rows to a dataset, all or none; rows equal to stored ones are skipped. The identity is
    then that of a dataset made from all rows at once.

    Raises DatasetRefused for malformed rows and for rows that contradict each other or, without
    `replace`, stored ones; DataError if there is no dataset or a file is damaged; StoreError if
    another process writes the dataset, or if it can't be written.
    """
    with lock_folder(folder):
        manifest = load_manifest(folder)
        run = _DatasetUpdate(folder, manifest, PartWriter(folder, manifest.generation + 1), replace)
        try:
            _remove_strays(folder, manifest)
            return _merged_and_published(run, addition)
        except (OSError, pa.ArrowException) as error:
            reason = str(error)[:200]
            if isinstance(error, OSError) and error.strerror:
                reason = error.strerror
            raise StoreError(
                f"{folder}: can't update: {reason}; free space, or check the dataset"
            ) from error


def _remove_strays(folder: Path, manifest: DatasetManifest) -> None:
    """Remove files of earlier generations and of interrupted updates, and no others."""
    for name in strays_of(folder, manifest):
        (folder / name).unlink(missing_ok=True)


def strays_of(folder: Path, manifest: DatasetManifest) -> tuple[str, ...]:
    """Return files that have the name of a part or of a temporary file, and that the manifest does
    not name.
    """
    named = {part.file for part in manifest.parts.values()}
    strays = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        part_name = name.removesuffix("-journal")
        unnamed = generation_of(part_name) is not None and name not in named and not path.is_dir()

        if unnamed or name.startswith(f".{MANIFEST}."):
            strays.append(name)

    return tuple(strays)


def _merged_and_published(run: _DatasetUpdate, addition: DatasetAddition) -> UpdateReport:
    with undone_on_error(lambda _: _remove_unpublished(run)):
        _merge(run, addition)
        return _publish(run, addition)


def _remove_unpublished(run: _DatasetUpdate) -> None:
    """Remove the new files of an update, unless they are the dataset already: if the very last step
    fails, the manifest may have been replaced.
    """
    with suppress(OSError, DataError):
        published = load_manifest(run.folder)
        if published.generation == run.manifest.generation:
            _remove_strays(run.folder, published)


def _merge(run: _DatasetUpdate, addition: DatasetAddition) -> None:
    """Write the changed parts. After the first problem nothing more is written, but all rows are
    still checked, so that the user sees all problems at once.
    """
    tables = tables_of(addition.prices) | {"events": addition.events, "news": addition.news}
    for name, rows in tables.items():
        run.problems.add_all(table_key(name), TABLES[name].problems(rows))

    # Repeated or malformed rows can't be compared with stored ones.
    run.problems.refuse()
    whole: dict[TableName, list[Any]] = {name: [] for name in tables}
    changed: set[str] = set()

    for name, rows in tables.items():
        for key, group in parts_of(name, rows).items():
            merged = _merge_table(run, key, name, group)
            whole[name] += merged.rows
            _, underlying = table_of(key)
            if underlying and merged.tally.other:
                changed |= {row.root for row in group}

    reaches = _merge_bars(run, addition.prices, changed)
    whole["contracts"] += _other_contracts(run, whole["contracts"], reaches)
    for line in table_problems(whole, reaches):
        run.problems.add(line)

    run.problems.refuse()


def _merge_bars(run: _DatasetUpdate, prices: PriceRows, changed: set[str]) -> Reaches:
    """Merge bars; return the reaches of all instruments that the update may affect."""
    reaches: Reaches = {}
    touched = set()
    for bar_file, block in blocks_of(prices, run.problems):
        path = run.find_stored(bar_file.key)
        kind = f"{bar_file.asset_class} {bar_file.resolution}"
        stored = block_of({}) if path is None else read_block(path)
        merged = merge_blocks(stored, block)
        run.note(kind, merged)
        run.problems.add_all(bar_file.key, block_problems(bar_file, block))

        if bar_file.asset_class == "option":
            add_reach(reaches, bar_file, merged.rows)

        touched.add(bar_file.key)
        if merged.tally.changes and not run.problems.count:
            run.parts[bar_file.key] = run.writer.bars(bar_file, merged.rows)

    for key in sorted(run.manifest.parts.keys() - touched):
        untouched = bar_file_of(key)
        if untouched is None or untouched.asset_class != "option":
            continue
        if untouched.symbol in changed:
            add_reach(reaches, untouched, read_block(run.folder / run.manifest.parts[key].file))

    return reaches | reaches_of(list({**run.manifest.parts, **run.parts}.values()))


def _merge_table(
    run: _DatasetUpdate, key: str, name: TableName, rows: Sequence[Any]
) -> MergedRows[list[Any]]:
    table = TABLES[name]
    path = run.find_stored(key)
    stored: list[Any] = []
    # Events and articles are read only if some are added: they are many, and no rule of another
    # table needs them.
    if path is not None and (rows or table.own):
        stored = table.read(path)

    grown = gained_releases if name == "events" else None
    merged = merge_rows(stored, rows, table.key, grown)

    if rows:
        run.note(name, merged)

    if merged.tally.changes and not run.problems.count:
        run.parts[key] = run.writer.rows(key, merged.rows)

    return merged


def _other_contracts(
    run: _DatasetUpdate, merged: Sequence[ContractRow], reaches: Reaches
) -> list[ContractRow]:
    """Return the stored contracts on underlyings whose options got bars but no contracts."""
    roots: set[str] = set()
    for asset_class, symbol in reaches:
        if asset_class != "option":
            continue
        contract = read_contract(symbol)
        if contract is not None:
            roots.add(contract.underlying)

    roots -= {row.root for row in merged}
    keys = {contracts_key(root) for root in roots}
    if not keys <= run.manifest.parts.keys():
        # A root that is no underlying, as after a split: contracts of any underlying may have it.
        keys = {key for key in run.manifest.parts if table_of(key)[0] == "contracts"}

    new_symbols = {row.symbol for row in merged}
    others: list[ContractRow] = []
    for key in sorted(keys):
        path = run.find_stored(key)
        if path is not None:
            stored = TABLES["contracts"].read(path)
            others += [row for row in stored if row.symbol not in new_symbols]

    return others


def _publish(run: _DatasetUpdate, addition: DatasetAddition) -> UpdateReport:
    before = run.manifest.info
    moment = addition.default_as_of_ns
    if moment is None:
        moment = before.default_as_of_ns

    info = before
    files = tuple(sorted(part.file for part in run.parts.values()))

    if run.parts or moment != before.default_as_of_ns:
        parts = {**run.manifest.parts, **run.parts}
        updated = dataclasses.replace(before, default_as_of_ns=moment)
        manifest = make_manifest(updated, run.writer.generation, parts.values())
        # Files reach the disk before the manifest that names them.
        sync_files(run.folder, files)
        write_atomic(run.folder / MANIFEST, manifest_text(manifest))
        info = manifest.info

    return UpdateReport(before.content_id, info, run.tallies, tuple(run.replaced), files)
