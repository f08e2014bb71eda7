"""A dataset as a folder: written whole or not at all, and opened after a look at its manifest and the sizes of its files."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktdeval.errors import DataError, StoreError
from ktdeval_qfinzero.data.bar_rules import STEP, block_problems
from ktdeval_qfinzero.data.blocks import Problems, blocks_of, tables_of
from ktdeval_qfinzero.data.durable import new_folder
from ktdeval_qfinzero.data.layout import (
    EVENTS,
    MANIFEST,
    NEWS,
    SINGLE_TABLES,
    Manifest,
    Part,
    TableName,
    described,
    load_manifest,
    manifest_text,
    read_place,
    table_key,
)
from ktdeval_qfinzero.data.parquet_prices import CACHE_BYTES, ParquetPrices
from ktdeval_qfinzero.data.part_writer import PartWriter
from ktdeval_qfinzero.data.row_rules import Reaches, add_reach, instrument_problems, reference_problems
from ktdeval_qfinzero.data.rows import EventRow, NewsRow, PriceRows
from ktdeval_qfinzero.data.sqlite_stores import open_calendars, open_news
from ktdeval_qfinzero.data.stores import Dataset, DatasetInfo
from ktdeval_qfinzero.data.tables import TABLES, parts_of


def save_dataset(
    folder: Path, prices: PriceRows, events: Sequence[EventRow], news: Sequence[NewsRow], info: DatasetInfo
) -> DatasetInfo:
    """Write a dataset as a folder, whole or not at all. `folder`: where to. It must not exist yet, be empty, or hold this same
    dataset already (then it stays as it is); `prices`: bars and small tables; `events`: the calendar; `news`: the articles; `info`:
    its name, whether it is synthetic, and where its clock starts; the days and the identity are found out. What the dataset says of
    itself, its identity among it. Raises DatasetRefused: rows that are wrong, all of them named; DataError: there are no day bars;
    StoreError: the folder holds something else, or can't be written.
    """
    held = _held(folder)
    try:
        with new_folder(folder) as inside:
            tables = tables_of(prices) | {"events": events, "news": news}
            manifest = _write_all(PartWriter(inside, 1), prices, tables, info)
            (inside / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
            if held is not None:
                if held.info.content_id != manifest.info.content_id:
                    raise StoreError(f"{folder}: holds another dataset; choose another folder, or update that one")
                shutil.rmtree(inside)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{folder}: can't write: {_reason(error)}; free space or choose another folder") from error
    return manifest.info if held is None else held.info


def open_dataset(folder: Path, cache_bytes: int = CACHE_BYTES) -> Dataset:
    """Return the dataset of a folder. Files are looked at, not read: `check_dataset` reads everything. `folder`: where it is;
    `cache_bytes`: how much of decoded prices is kept in memory at most. Raises DataError: there is no dataset, its manifest is
    malformed, or a file is missing or of another size.
    """
    manifest = load_manifest(folder)
    for part in manifest.parts.values():
        problem = file_problem(folder, part)
        if problem:
            raise DataError(f"{folder}: {part.file}: {problem}; check the dataset, and make it again")
    missing = [key for key in map(table_key, SINGLE_TABLES) if key not in manifest.parts]
    if missing:
        raise DataError(f"{folder}: {MANIFEST} names no {missing[0]}; make the dataset again")
    events, news = (folder / manifest.parts[key].file for key in (EVENTS, NEWS))
    return Dataset(manifest.info, ParquetPrices(folder, manifest, cache_bytes), open_calendars(events), open_news(news))


def file_problem(folder: Path, part: Part) -> str:
    """Return what is wrong with a part's file at a first look; empty where nothing is."""
    try:
        found = (folder / part.file).lstat()
    except OSError:
        return "is missing"
    if not stat.S_ISREG(found.st_mode):
        return "is not a plain file"
    return "" if found.st_size == part.bytes else f"has {found.st_size} bytes, expected {part.bytes}"


def table_problems(tables: Mapping[TableName, Sequence[Any]], reaches: Reaches) -> Iterator[str]:
    """Yield what small tables say that doesn't fit the bars or each other."""
    symbols = tables["symbols"]
    yield from reference_problems(symbols, {name: tables[name] for name in ("contracts", "dividends", "splits", "borrow")})
    yield from instrument_problems(reaches, symbols, {row.symbol: row for row in tables["contracts"]})


def reaches_of(parts: Sequence[Part]) -> Reaches:
    """Return the reach of stocks and coins, as the manifest tells it."""
    reaches: Reaches = {}
    for part in parts:
        place = read_place(part.key)
        if place is not None and place.asset_class != "option":
            instrument, known_ns = (place.asset_class, place.symbol), part.first_ns + STEP[place.resolution]
            before = reaches.get(instrument, (known_ns, part.last_ns))
            reaches[instrument] = (min(before[0], known_ns), max(before[1], part.last_ns))
    return reaches


def _held(folder: Path) -> Manifest | None:
    """Return the dataset that is there already; None where a new one can go."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        return load_manifest(folder)
    except (OSError, DataError) as error:
        raise StoreError(f"{folder}: exists and is no dataset; choose another folder or remove it") from error


def _write_all(writer: PartWriter, prices: PriceRows, tables: Mapping[TableName, Sequence[Any]], info: DatasetInfo) -> Manifest:
    problems = Problems()
    for name, rows in tables.items():
        problems.add_all(table_key(name), TABLES[name].problems(rows))
    parts: list[Part] = []
    reaches: Reaches = {}
    for place, block in blocks_of(prices, problems):
        problems.add_all(place.key, block_problems(place, block))
        add_reach(reaches, place, block)
        if not problems.count:
            parts.append(writer.bars(place, block))
    for line in table_problems(tables, reaches):
        problems.add(line)
    problems.refuse()
    for name, rows in tables.items():
        parts += [writer.rows(key, group) for key, group in parts_of(name, rows).items()]
    return described(info, 1, parts)


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)[:200]
