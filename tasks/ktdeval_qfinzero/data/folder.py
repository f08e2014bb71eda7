"""A dataset as a folder: written whole or not at all, and opened after a look at its manifest and the sizes of its files."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktdeval.api import DataError, StoreError
from ktdeval_qfinzero.data.bar_rules import STEP, block_problems
from ktdeval_qfinzero.data.blocks import PriceRows, Problems, blocks_of, by_underlying, tables_of
from ktdeval_qfinzero.data.durable import new_folder
from ktdeval_qfinzero.data.layout import (
    EVENTS,
    MANIFEST,
    NEWS,
    SMALL_TABLES,
    Manifest,
    Part,
    TableName,
    contracts_key,
    described,
    load_manifest,
    manifest_text,
    read_place,
    table_key,
)
from ktdeval_qfinzero.data.parquet_prices import CACHE_BYTES, ParquetPrices
from ktdeval_qfinzero.data.part_writer import PartWriter
from ktdeval_qfinzero.data.row_rules import (
    FAULT_OF,
    Reaches,
    add_reach,
    event_fault,
    instrument_problems,
    news_fault,
    reference_problems,
    row_problems,
)
from ktdeval_qfinzero.data.rows import EventRow, NewsRow
from ktdeval_qfinzero.data.sqlite_calendars import open_calendars
from ktdeval_qfinzero.data.sqlite_news import open_news
from ktdeval_qfinzero.data.stores import Dataset, DatasetInfo
from ktdeval_qfinzero.data.tables import TABLES


def save_dataset(
    folder: Path, prices: PriceRows, events: Sequence[EventRow], news: Sequence[NewsRow], info: DatasetInfo
) -> DatasetInfo:
    """Write a dataset as a folder, whole or not at all.

    Args:
        folder: where to. It must not exist yet, be empty, or hold this same dataset already (then it stays as it is).
        prices: bars and small tables.
        events: the calendar.
        news: the articles.
        info: its name, whether it is synthetic, and where its clock starts; the days and the identity are found out.

    Returns:
        What the dataset says of itself, its identity among it.

    Raises:
        DatasetRefused: rows that are wrong, all of them named.
        DataError: there are no day bars.
        StoreError: the folder holds something else, or can't be written.
    """
    held = _held(folder)
    try:
        with new_folder(folder) as inside:
            manifest = _write_all(PartWriter(inside, 1), prices, (events, news), info)
            (inside / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
            if held is not None:
                if held.info.content_id != manifest.info.content_id:
                    raise StoreError(f"{folder}: holds another dataset; choose another folder, or update that one")
                shutil.rmtree(inside)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{folder}: can't write: {_reason(error)}; free space or choose another folder") from error
    return manifest.info if held is None else held.info


def open_dataset(folder: Path, cache_bytes: int = CACHE_BYTES) -> Dataset:
    """The dataset of a folder. Files are looked at, not read: `check_dataset` reads everything.

    Args:
        folder: where it is.
        cache_bytes: how much of decoded prices is kept in memory at most.

    Raises:
        DataError: there is no dataset, its manifest is malformed, or a file is missing or of another size.
    """
    manifest = load_manifest(folder)
    for part in manifest.parts.values():
        problem = file_problem(folder, part)
        if problem:
            raise DataError(f"{folder}: {part.file}: {problem}; check the dataset, and make it again")
    missing = [key for key in (*map(table_key, SMALL_TABLES), EVENTS, NEWS) if key not in manifest.parts]
    if missing:
        raise DataError(f"{folder}: {MANIFEST} names no {missing[0]}; make the dataset again")
    events, news = (folder / manifest.parts[key].file for key in (EVENTS, NEWS))
    return Dataset(manifest.info, ParquetPrices(folder, manifest, cache_bytes), open_calendars(events), open_news(news))


def file_problem(folder: Path, part: Part) -> str:
    """What is wrong with a part's file at a first look; empty where nothing is."""
    try:
        found = (folder / part.file).lstat()
    except OSError:
        return "is missing"
    if not stat.S_ISREG(found.st_mode):
        return "is not a plain file"
    return "" if found.st_size == part.bytes else f"has {found.st_size} bytes, expected {part.bytes}"


def table_problems(tables: Mapping[TableName, Sequence[Any]], reaches: Reaches) -> Iterator[str]:
    """What small tables say that doesn't fit the bars or each other."""
    contracts = {
        underlying: {row.symbol: row for row in rows} for underlying, rows in by_underlying(tables.get("contracts", ())).items()
    }
    symbols = tables["symbols"]
    yield from reference_problems(symbols, {name: rows for name, rows in tables.items() if name not in ("symbols", "rates")})
    yield from instrument_problems(reaches, symbols, contracts)


def reaches_of(parts: Sequence[Part]) -> Reaches:
    """The reach of stocks and coins, as the manifest tells it."""
    reaches: Reaches = {}
    for part in parts:
        place = read_place(part.key)
        if place is not None and place.asset_class != "option":
            instrument, known_ns = (place.asset_class, place.symbol), part.first_ns + STEP[place.resolution]
            before = reaches.get(instrument, (known_ns, part.last_ns))
            reaches[instrument] = (min(before[0], known_ns), max(before[1], part.last_ns))
    return reaches


def row_checks() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """By table: what finds the fault of a row, and what gives its key."""
    checks = {table_key(name): (FAULT_OF[name], TABLES[name].key) for name in TABLES}
    return checks | {EVENTS: (event_fault, lambda row: row.event_id), NEWS: (news_fault, lambda row: row.id)}


def _held(folder: Path) -> Manifest | None:
    """The dataset that is there already; None where a new one can go."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return None
        return load_manifest(folder)
    except (OSError, DataError) as error:
        raise StoreError(f"{folder}: exists and is no dataset; choose another folder or remove it") from error


def _write_all(
    writer: PartWriter, prices: PriceRows, written: tuple[Sequence[EventRow], Sequence[NewsRow]], info: DatasetInfo
) -> Manifest:
    tables, (events, news) = tables_of(prices), written
    problems = Problems()
    for key, rows in {**{table_key(name): rows for name, rows in tables.items()}, EVENTS: events, NEWS: news}.items():
        problems.add_all(key, row_problems(rows, *row_checks()[key]))
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
    parts += [writer.rows(table_key(name), name, tables[name]) for name in SMALL_TABLES]
    for underlying, rows in by_underlying(tables["contracts"]).items():
        parts.append(writer.rows(contracts_key(underlying), "contracts", rows))
    parts += [writer.events(events), writer.news(news)]
    return described(info, 1, parts)


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)[:200]
