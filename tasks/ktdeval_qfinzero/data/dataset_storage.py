"""A dataset as a folder: written whole or not at all (POSIX), opened after a look at its manifest
and the sizes of its files.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktdeval.errors import DataError, StoreError
from ktdeval.values import file_sha256, new_folder
from ktdeval_qfinzero.data.bar_files import BarBlock, content_of, write_block
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.layout import (
    EVENTS,
    MANIFEST,
    NEWS,
    SINGLE_TABLES,
    BarFile,
    DatasetManifest,
    Part,
    TableName,
    bar_file_of,
    file_name,
    load_manifest,
    make_manifest,
    manifest_text,
    table_key,
    table_of,
)
from ktdeval_qfinzero.data.parquet_prices import CACHE_BYTES, ParquetPrices
from ktdeval_qfinzero.data.rows import DatasetInfo, EventRow, NewsRow, PriceRows
from ktdeval_qfinzero.data.sqlite_stores import open_calendars, open_news
from ktdeval_qfinzero.data.tables import TABLES, parts_of
from ktdeval_qfinzero.data.validation_rules import (
    STEP,
    ProblemList,
    Reaches,
    add_reach,
    block_problems,
    blocks_of,
    deal_problems,
    instrument_problems,
    reference_problems,
    tables_of,
)


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes files of one generation. Methods raise OSError, pa.ArrowException or DataError where
    the file can't be written.
    """

    folder: Path  #: of the dataset
    generation: int  #: that the files belong to

    def bars(self, bar_file: BarFile, block: BarBlock) -> Part:
        """Write a file of bars, at least one."""
        write_block(self._path(bar_file.key), block)
        start_ns = block.bars.start_ns
        return self._part(
            bar_file.key, len(block), content_of(block), (int(start_ns.min()), int(start_ns.max()))
        )

    def rows(self, key: str, rows: Sequence[Any]) -> Part:
        """Write a file of a table."""
        table = TABLES[table_of(key)[0]]
        table.write(self._path(key), rows)
        return self._part(key, len(rows), table.content(rows))

    def _path(self, key: str) -> Path:
        path = self.folder / file_name(key, self.generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _part(self, key: str, rows: int, content: str, reach: tuple[int, int] = (0, 0)) -> Part:
        file = file_name(key, self.generation)
        path = self.folder / file
        return Part(
            key=key,
            file=file,
            bytes=path.stat().st_size,
            sha256=file_sha256(path),
            rows=rows,
            content=content,
            first_ns=reach[0],
            last_ns=reach[1],
        )


def save_dataset(
    folder: Path,
    prices: PriceRows,
    events: Sequence[EventRow],
    news: Sequence[NewsRow],
    info: DatasetInfo,
) -> DatasetInfo:
    """Write a dataset as a folder, whole or not at all, and return its description with days and
    identity found out. `folder` is absent or empty, or holds this same dataset, which then stays.
    Raises DatasetRefused: rows that are wrong, all named; DataError: there are no day bars;
    StoreError: the folder holds something else, or can't be written.
    """
    held = _read_held_dataset(folder)
    try:
        with new_folder(folder) as inside:
            tables = tables_of(prices) | {"events": events, "news": news}
            manifest = _write_all(PartWriter(inside, 1), prices, tables, info)
            (inside / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")

            if held is not None:
                if held.info.content_id != manifest.info.content_id:
                    raise StoreError(
                        f"{folder}: holds another dataset; choose another folder, or update"
                        " that one"
                    )

                shutil.rmtree(inside)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"{folder}: can't write: {getattr(error, 'strerror', None) or str(error)[:200]}; free"
            " space or choose another folder"
        ) from error

    return manifest.info if held is None else held.info


def open_dataset(folder: Path, cache_bytes: int = CACHE_BYTES) -> Dataset:
    """Return the dataset of a folder, of which at most `cache_bytes` are kept decoded. Files are
    looked at, not read as by `check_dataset`. Raises DataError: there is none, its manifest is
    malformed, or a file is missing or of another size.
    """
    manifest = load_manifest(folder)
    for part in manifest.parts.values():
        problem = file_problem(folder, part)
        if problem:
            raise DataError(
                f"{folder}: {part.file}: {problem}; check the dataset, and make it again"
            )

    missing = [key for key in map(table_key, SINGLE_TABLES) if key not in manifest.parts]
    if missing:
        raise DataError(f"{folder}: {MANIFEST} names no {missing[0]}; make the dataset again")

    events, news = (folder / manifest.parts[key].file for key in (EVENTS, NEWS))
    return Dataset(
        manifest.info,
        ParquetPrices(folder, manifest, cache_bytes),
        open_calendars(events),
        open_news(news),
    )


def file_problem(folder: Path, part: Part) -> str:
    """Return what is wrong with a part's file at a first look; empty where nothing is."""
    try:
        status = (folder / part.file).lstat()
    except OSError:
        return "is missing"

    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"

    return (
        "" if status.st_size == part.bytes else f"has {status.st_size} bytes, expected {part.bytes}"
    )


def table_problems(tables: Mapping[TableName, Sequence[Any]], reaches: Reaches) -> Iterator[str]:
    """Yield what small tables say that doesn't fit the bars or each other."""
    symbols = tables["symbols"]
    yield from reference_problems(
        symbols,
        {name: tables[name] for name in ("contracts", "dividends", "splits", "borrow", "deals")},
    )
    yield from deal_problems(tables["deals"])
    yield from instrument_problems(
        reaches, symbols, {row.symbol: row for row in tables["contracts"]}
    )


def reaches_of(parts: Sequence[Part]) -> Reaches:
    """Return the reach of stocks and coins, as the manifest has it."""
    reaches: Reaches = {}
    for part in parts:
        bar_file = bar_file_of(part.key)
        if bar_file is not None and bar_file.asset_class != "option":
            instrument = (bar_file.asset_class, bar_file.symbol)
            known_ns = part.first_ns + STEP[bar_file.resolution]
            before = reaches.get(instrument, (known_ns, part.last_ns))
            reaches[instrument] = (min(before[0], known_ns), max(before[1], part.last_ns))

    return reaches


def _read_held_dataset(folder: Path) -> DatasetManifest | None:
    """Return the dataset that is there already; None where a new one can go."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        return load_manifest(folder)
    except (OSError, DataError) as error:
        raise StoreError(
            f"{folder}: exists and is not a dataset; choose another folder or remove it"
        ) from error


def _write_all(
    writer: PartWriter,
    prices: PriceRows,
    tables: Mapping[TableName, Sequence[Any]],
    info: DatasetInfo,
) -> DatasetManifest:
    problems = ProblemList()
    for name, rows in tables.items():
        problems.add_all(table_key(name), TABLES[name].problems(rows))

    parts: list[Part] = []
    reaches: Reaches = {}
    for bar_file, block in blocks_of(prices, problems):
        problems.add_all(bar_file.key, block_problems(bar_file, block))
        add_reach(reaches, bar_file, block)
        if not problems.count:
            parts.append(writer.bars(bar_file, block))

    for line in table_problems(tables, reaches):
        problems.add(line)

    problems.refuse()
    for name, rows in tables.items():
        parts += [writer.rows(key, group) for key, group in parts_of(name, rows).items()]

    return make_manifest(info, 1, parts)
