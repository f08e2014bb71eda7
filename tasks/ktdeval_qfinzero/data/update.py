"""Adding rows to a dataset folder: new files next to the old ones, and a manifest that is swapped last.

A row is new, the same as stored, or says something else under the same key. A folder is at every moment the old dataset or the
new one. Files that the old one needs stay until the next update, so that services that have it open go on with what they opened.
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
from ktdeval.jsonio import locked, sync_files, write_atomic
from ktdeval_qfinzero.data.bar_files import Block, block_of, join, read_block
from ktdeval_qfinzero.data.blocks import SHOWN, Problems, Reaches, add_reach, block_problems, blocks_of, tables_of
from ktdeval_qfinzero.data.folder import PartWriter, reaches_of, table_problems
from ktdeval_qfinzero.data.layout import (
    MANIFEST,
    Manifest,
    Part,
    TableName,
    bar_file_of,
    contracts_key,
    described,
    generation_of,
    load_manifest,
    manifest_text,
    table_key,
    table_of,
)
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, Bars, ContractRow, DatasetInfo, EventRow, NewsRow, PriceRows
from ktdeval_qfinzero.data.tables import TABLES, key_text, parts_of
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.moments import moment_text

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of rows that were new, the same as stored, grown (events that gained releases), or other than stored."""

    new: int = 0
    same: int = 0
    grown: int = 0
    other: int = 0

    def __add__(self, more: Tally) -> Tally:
        return Tally(self.new + more.new, self.same + more.same, self.grown + more.grown, self.other + more.other)

    @property
    def changes(self) -> bool:
        """Whether the stored rows do not stay as they were."""
        return bool(self.new or self.grown or self.other)


@dataclass(frozen=True, slots=True)
class Merged(Generic[Rows]):
    """Stored and new rows together, the new ones where they contradict."""

    rows: Rows  #: all of them
    tally: Tally  #: of the new rows
    contradictions: tuple[str, ...]  #: the first of them, a line each


def merge_blocks(stored: Block, new: Block) -> Merged[Block]:
    """Bars of one file and what is to come to it. Keys are symbol and start; neither block has one twice."""
    symbols = tuple(sorted({*stored.symbols, *new.symbols}))
    codes_of = {symbol: code for code, symbol in enumerate(symbols)}
    codes = np.concatenate(
        [np.repeat([codes_of[symbol] for symbol in block.symbols], np.diff(block.offsets)) for block in (stored, new) if len(block)]
    )
    bars = join([block.bars for block in (stored, new) if len(block)])
    from_new = np.repeat([False, True], [len(stored), len(new)])
    order = np.lexsort((from_new, bars.start_ns, codes))
    bars, codes, from_new = bars.take(order), codes[order], from_new[order]
    # A stored bar and the new one of the same key stand side by side, the stored one first.
    twice = np.flatnonzero((np.diff(codes) == 0) & (np.diff(bars.start_ns) == 0))
    differs = {name: getattr(bars, name)[twice] != getattr(bars, name)[twice + 1] for name in BAR_COLUMNS}
    other = np.logical_or.reduce(list(differs.values()))
    keep = np.ones(len(bars), bool)
    keep[twice[other]] = False
    keep[twice[~other] + 1] = False
    kept_codes = codes[keep]
    offsets = np.searchsorted(kept_codes, np.arange(len(symbols) + 1)).astype(np.int64)
    tally = Tally(new=len(new) - len(twice), same=int((~other).sum()), other=int(other.sum()))
    pairs = ((symbols[codes[row]], bars.take(slice(int(row), int(row) + 2))) for row in twice[other][:SHOWN])
    lines = tuple(_bar_line(*pair) for pair in pairs)
    return Merged(Block(symbols, offsets, bars.take(keep)), tally, lines)


def merge_rows(
    stored: Iterable[Any], new: Sequence[Any], key: Callable[[Any], Any], grown: Callable[[Any, Any], bool] | None = None
) -> Merged[list[Any]]:
    """Merge rows of a table and what is to come to it; neither has a key twice; `grown`: whether a row only grew."""
    held = {key(row): row for row in stored}
    tally, lines = Tally(), []
    for row in new:
        before = held.get(key(row))
        is_grown = before is not None and grown is not None and grown(before, row)
        kind = "new" if before is None else "same" if before == row else "grown" if is_grown else "other"
        tally += Tally(**{kind: 1})
        lines += [_row_line(key(row), before, row)] if kind == "other" else []
        held[key(row)] = row
    return Merged(list(held.values()), tally, tuple(lines[:SHOWN]))


def gained_releases(before: EventRow, after: EventRow) -> bool:
    """Return whether an event only gained releases: its outcome became known, or was revised."""
    count = len(before.releases)
    return after.releases[:count] == before.releases and replace(after, releases=before.releases) == before


def _bar_line(symbol: str, pair: Bars) -> str:
    stored, new = ({name: getattr(pair, name)[row].item() for name in BAR_COLUMNS} for row in (0, 1))
    name = next(name for name in BAR_COLUMNS if stored[name] != new[name])
    return f"{symbol} at {moment_text(stored['start_ns'])}: {name} is {stored[name]}, the new row says {new[name]}"


def _row_line(key: Any, stored: Any, new: Any) -> str:
    name = next(name for name in stored.__slots__ if getattr(stored, name) != getattr(new, name))
    texts = (str(getattr(row, name)) for row in (stored, new))
    before, after = (text if len(text) <= 80 else f"{text[:80]}…" for text in texts)
    return f"{key_text(key)}: {name} is {before}, the new row says {after}"


@dataclass(frozen=True, slots=True)
class Addition:
    """Rows to add. `events, news`: calendar and articles; an event may come again with more releases."""

    prices: PriceRows  #: bars and small tables; only what is to come
    events: Sequence[EventRow] = ()
    news: Sequence[NewsRow] = ()
    default_as_of_ns: int | None = None  #: where the clock of the dataset starts from now on; where it did when None


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """Report of an update."""

    before: str  #: identity of the dataset as it was
    info: DatasetInfo  #: the dataset as it is
    tallies: Mapping[str, Tally]  #: by kind of rows (`stock minute`, `contracts`, `events`, …), those that came
    replaced: tuple[str, ...]  #: the first rows that were replaced, a line each
    files: tuple[str, ...]  #: files that were written


@dataclass(slots=True)
class _Run:
    folder: Path
    manifest: Manifest
    writer: PartWriter
    replace: bool
    problems: Problems = field(default_factory=Problems)
    parts: dict[str, Part] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    def note(self, kind: str, merged: Merged[Any]) -> None:
        """Count what came; what contradicts is a problem, or replaces."""
        self.tallies[kind] = self.tallies.get(kind, Tally()) + merged.tally
        lines = [f"{kind}: {line}" for line in merged.contradictions]
        if self.replace:
            self.replaced += lines[: SHOWN - len(self.replaced)]
            return
        for line in lines:
            self.problems.add(f"{line}; --replace (in Python replace=True) lets the new row replace it")
        self.problems.count += merged.tally.other - len(lines)

    def stored(self, key: str) -> Path | None:
        """Return the file of a part as it was; None where there is none."""
        part = self.manifest.parts.get(key)
        return None if part is None else self.folder / part.file


def update_dataset(folder: Path, addition: Addition, *, replace: bool = False) -> UpdateReport:
    """Add rows to a dataset, all or none, passing over equal ones; the identity is then that of a dataset made at once of all rows.
    Raises DatasetRefused: rows that are wrong, or contradict stored ones (without `replace`) or each other, all counted; DataError:
    there is no dataset, or a file of it is damaged; StoreError: another process writes it, or it can't be written.
    """
    with locked(folder):
        manifest = load_manifest(folder)
        run = _Run(folder, manifest, PartWriter(folder, manifest.generation + 1), replace)
        try:
            _remove_strays(folder, manifest)
            return _merged_and_published(run, addition)
        except (OSError, pa.ArrowException) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            text = f"{folder}: can't update: {reason or str(error)[:200]}; free space, or check the dataset"
            raise StoreError(text) from error


def _remove_strays(folder: Path, manifest: Manifest) -> None:
    """Remove files of earlier generations and of updates that did not end; nothing that isn't a dataset's."""
    for name in strays_of(folder, manifest):
        (folder / name).unlink(missing_ok=True)


def strays_of(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """Files that could be a part's, or were on the way to be one, and that the manifest doesn't name."""
    named = {part.file for part in manifest.parts.values()}
    strays = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        part_name = name.removesuffix("-journal")
        unnamed = generation_of(part_name) is not None and name not in named and not path.is_dir()
        if unnamed or name.startswith(f".{MANIFEST}."):
            strays.append(name)
    return tuple(strays)


def _merged_and_published(run: _Run, addition: Addition) -> UpdateReport:
    try:
        _merge(run, addition)
        return _publish(run, addition)
    except BaseException:
        # A failure of the very last step may come after the swap: then the new files are the dataset, and stay.
        with suppress(OSError, DataError):
            published = load_manifest(run.folder)
            if published.generation == run.manifest.generation:
                _remove_strays(run.folder, published)
        raise


def _merge(run: _Run, addition: Addition) -> None:
    """Write what changes, until the first problem; go on to find all problems."""
    tables = tables_of(addition.prices) | {"events": addition.events, "news": addition.news}
    for name, rows in tables.items():
        run.problems.add_all(table_key(name), TABLES[name].problems(rows))
    # Rows that stand twice or are malformed can't be compared with others.
    run.problems.refuse()
    whole: dict[TableName, list[Any]] = {name: [] for name in tables}
    changed: set[str] = set()
    for name, rows in tables.items():
        for key, group in parts_of(name, rows).items():
            merged = _merge_table(run, key, name, group)
            whole[name] += merged.rows
            underlying = table_of(key)[1]
            changed |= {row.root for row in group} if underlying and merged.tally.other else set()
    reaches = _merge_bars(run, addition.prices, changed)
    whole["contracts"] += _other_contracts(run, whole["contracts"], reaches)
    for line in table_problems(whole, reaches):
        run.problems.add(line)
    run.problems.refuse()


def _merge_bars(run: _Run, prices: PriceRows, changed: set[str]) -> Reaches:
    """Bars, and the reach of what they and changed contracts are about."""
    reaches: Reaches = {}
    touched = set()
    for bar_file, block in blocks_of(prices, run.problems):
        path, kind = run.stored(bar_file.key), f"{bar_file.asset_class} {bar_file.resolution}"
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
        if untouched is not None and untouched.asset_class == "option" and untouched.symbol in changed:
            add_reach(reaches, untouched, read_block(run.folder / run.manifest.parts[key].file))
    return reaches | reaches_of(list({**run.manifest.parts, **run.parts}.values()))


def _merge_table(run: _Run, key: str, name: TableName, rows: Sequence[Any]) -> Merged[list[Any]]:
    table, path = TABLES[name], run.stored(key)
    # All events and articles are many, and nothing refers to them.
    stored = [] if path is None or not (rows or table.own) else table.read(path)
    merged = merge_rows(stored, rows, table.key, gained_releases if name == "events" else None)
    if rows:
        run.note(name, merged)
    if merged.tally.changes and not run.problems.count:
        run.parts[key] = run.writer.rows(key, merged.rows)
    return merged


def _other_contracts(run: _Run, merged: Sequence[ContractRow], reaches: Reaches) -> list[ContractRow]:
    """Return the stored contracts of underlyings whose options got bars and to which no contract came."""
    contracts = (read_contract(symbol) for asset_class, symbol in reaches if asset_class == "option")
    roots = {contract.underlying for contract in contracts if contract} - {row.root for row in merged}
    keys = {contracts_key(root) for root in roots}
    if not keys <= run.manifest.parts.keys():  # a root of its own: any underlying's may be it
        keys = {key for key in run.manifest.parts if table_of(key)[0] == "contracts"}
    new_symbols = {row.symbol for row in merged}
    paths = [run.stored(key) for key in sorted(keys)]
    stored = (row for path in paths if path is not None for row in TABLES["contracts"].read(path))
    return [row for row in stored if row.symbol not in new_symbols]


def _publish(run: _Run, addition: Addition) -> UpdateReport:
    before = run.manifest.info
    moment = before.default_as_of_ns if addition.default_as_of_ns is None else addition.default_as_of_ns
    info, files = before, tuple(sorted(part.file for part in run.parts.values()))
    if run.parts or moment != before.default_as_of_ns:
        parts = {**run.manifest.parts, **run.parts}
        manifest = described(dataclasses.replace(before, default_as_of_ns=moment), run.writer.generation, parts.values())
        sync_files(run.folder, files)
        write_atomic(run.folder / MANIFEST, manifest_text(manifest))
        info = manifest.info
    return UpdateReport(before.content_id, info, run.tallies, tuple(run.replaced), files)
