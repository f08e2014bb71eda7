"""Market snapshot on disk: a folder of Parquet tables with a manifest.

Layout of the folder:

* `manifest.json`: format version, meta (facts and labels), venues unless all assets are A-shares,
  identity, a SHA-256 of each array, and a checksum of each array on each day.
* `bars.parquet`: date, code, open, high, low, close, volume, amount, factor, member; every code on
  every day, sorted by date, code.
* `assets.parquet`: code, name, industry, and kind, currency, venue unless all are A-shares.
  `indices.parquet`: date, code, close.
* `names.parquet`, if names are dated: code, first, last, name, code_then.
* `documents.parquet`, `entities.parquet`, if there are any: the columns of `Documents.table`; code,
  kind, text.
* `price_limits.parquet`, if the data have any: date, code, and those of special, upper, lower that
  the data have; every code on every day, in the order of the bars. Listing days are in the
  `listed` column of `assets.parquet`.
* `quotes.parquet`, if the data have any: date, code, bid, ask; every code on every day, in the
  order of the bars.
* `minutes.parquet`, if there are any: code, ends_at (UTC), open, high, low, close, volume, sorted
  by code and end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import ConfigError, DataError, StoreError, os_advice, os_reason
from ktdeval.market.snapshots.array_cache import ArrayCache, Arrays
from ktdeval.market.snapshots.documents import NO_DOCUMENTS, Documents, Entity
from ktdeval.market.snapshots.manifest import (
    FORMAT_VERSION,
    GRID_FIELDS,
    SnapshotManifest,
    differences,
    load_manifest,
    snapshot_id,
    snapshot_manifest,
    write_manifest,
)
from ktdeval.market.snapshots.minutes import MINUTE_FIELDS, NO_MINUTES, MinuteBars
from ktdeval.market.snapshots.quotes import Quotes
from ktdeval.market.snapshots.snapshot import (
    LABELS,
    DayArray,
    Instrument,
    MarketSnapshot,
    NameSpell,
    SnapshotMeta,
)
from ktdeval.market.snapshots.snapshot_files import (
    ASSETS,
    BARS,
    DOCUMENTS,
    ENTITIES,
    INDICES,
    MANIFEST,
    MINUTES,
    NAMES,
    PRICE_LIMITS,
    QUOTES,
    read_grid_axes,
    read_indices,
    read_table,
    read_texts,
    read_venues,
)
from ktdeval.market.snapshots.vendor_price_limits import NO_PRICE_LIMITS, PriceLimits
from ktdeval.market.venues.close_times import Close
from ktdeval.values.disk.decompression_limits import open_parquet
from ktdeval.values.disk.files import new_folder, sweep_new_folder
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.config_options import build

_LIMIT_KINDS = {"special": bool, "upper": float, "lower": float}
_QUOTE_KINDS = {"bid": float, "ask": float}


def save_snapshot(
    snapshot: MarketSnapshot, folder: Path, extras: Mapping[str, bytes] | None = None
) -> MarketSnapshot:
    """Write a snapshot, completely or not at all, to a new or empty folder, and return it with its
    `id`.

    Nothing is written if the folder already contains this snapshot. `extras`: additional files next
    to the tables, not part of the identity. Raises StoreError if the folder can't be written or has
    other contents, such as the same market with other labels.
    """
    extras = extras or {}
    manifest = snapshot_manifest(snapshot)
    named = dataclasses.replace(snapshot, id=manifest.id)
    try:
        sweep_new_folder(folder)
        if _has_snapshot(folder, named.id):
            _check_labels(folder, named, extras)
            return named

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StoreError(
                f"{folder}: exists and is not this snapshot; choose another folder or remove it"
            )

        with new_folder(folder) as content:
            _write_tables(named, content)
            for name, data in extras.items():
                (content / name).write_bytes(data)

            write_manifest(manifest, content)
    except OSError as error:
        # Another process may have written the same snapshot in the meantime.
        if not _has_snapshot(folder, named.id):
            raise StoreError(
                f"{folder}: can't write: {os_reason(error, 'free space or choose another folder')}"
            ) from error

    return named


def _has_snapshot(folder: Path, identity: str) -> bool:
    """Return whether a folder contains the snapshot with this identity."""
    try:
        return load_manifest(folder).id == identity
    except DataError:
        return False


def _check_labels(folder: Path, snapshot: MarketSnapshot, extras: Mapping[str, bytes]) -> None:
    """Raise StoreError if the folder's snapshot, which has the same content, has other labels or
    lacks one of the additional files.
    """
    stored = build(SnapshotMeta, load_manifest(folder).meta, f"{folder / MANIFEST}: meta")
    meta = snapshot.meta
    different = [field for field in LABELS if getattr(stored, field) != getattr(meta, field)]
    absent = [name for name in extras if not (folder / name).exists()]
    if not different and not absent:
        return

    problem = f"with another {different[0]}" if different else f"without {absent[0]}"
    raise StoreError(
        f"{folder}: contains the same market (id {snapshot.id[:12]}) as {stored.name!r}, {problem};"
        " use it, or choose another folder"
    )


# ---- writing


def _write_tables(snapshot: MarketSnapshot, folder: Path) -> None:
    """Write the tables that the snapshot has."""
    n_days = len(snapshot.days)
    n_assets = len(snapshot.codes)
    asset_of_row = np.tile(np.arange(n_assets, dtype=np.int32), n_days)
    axes = {
        "date": pa.array(np.repeat(snapshot.days, n_assets)),
        "code": _encode_codes(asset_of_row, snapshot.codes),
    }
    bars = {name: _flat(getattr(snapshot, name)) for name in GRID_FIELDS}
    pq.write_table(pa.table({**axes, **bars}), folder / BARS, compression="zstd")

    further = {PRICE_LIMITS: snapshot.price_limits.arrays, QUOTES: snapshot.quotes.arrays}
    for file, arrays in further.items():
        if arrays:
            columns = {name: _flat(array) for name, array in arrays.items()}
            table = pa.table({**axes, **columns})
            pq.write_table(table, folder / file, compression="zstd")

    _write_assets(snapshot, folder)
    _write_indices(snapshot, folder)
    if snapshot.spells:
        fields = [field.name for field in dataclasses.fields(NameSpell)]
        pq.write_table(_text_table(fields, snapshot.spells), folder / NAMES)

    if snapshot.documents:
        _write_documents(snapshot.documents, folder)

    if snapshot.minutes:
        _write_minutes(snapshot.minutes, folder)


def _flat(grid: npt.NDArray[Any]) -> pa.Array:
    """Flatten a [days, assets] array into a column."""
    return pa.array(np.ascontiguousarray(grid).reshape(-1))


def _encode_codes(rows: npt.NDArray[Any], codes: tuple[str, ...]) -> pa.DictionaryArray:
    """Return the code column for rows of indices into `codes`."""
    return pa.DictionaryArray.from_arrays(pa.array(rows), pa.array(codes, pa.string()))


def _text_table(fields: Iterable[str], values: Sequence[object]) -> pa.Table:
    """Return the named attributes of `values` as text columns."""
    columns = {}
    for name in fields:
        texts = [getattr(value, name) for value in values]
        columns[name] = pa.array(texts, pa.string())

    return pa.table(columns)


def _write_assets(snapshot: MarketSnapshot, folder: Path) -> None:
    texts = {"code": snapshot.codes, "name": snapshot.names, "industry": snapshot.industries}
    if snapshot.instruments:
        texts["kind"] = snapshot.kinds
        texts["currency"] = snapshot.currencies
        texts["venue"] = snapshot.venues

    if snapshot.price_limits.listed:
        texts["listed"] = snapshot.price_limits.listed

    columns = {name: pa.array(column, pa.string()) for name, column in texts.items()}
    pq.write_table(pa.table(columns), folder / ASSETS)


def _write_indices(snapshot: MarketSnapshot, folder: Path) -> None:
    codes = sorted(snapshot.indices)
    repeated = np.repeat(np.array(codes, dtype=object), len(snapshot.days))
    # Start with an empty array, because a market without indices has nothing to concatenate.
    levels = np.concatenate([np.empty(0), *(snapshot.indices[code] for code in codes)])
    indices = {
        "date": pa.array(np.tile(snapshot.days, len(codes))),
        "code": pa.array(repeated, pa.string()),
        "close": pa.array(levels),
    }
    pq.write_table(pa.table(indices), folder / INDICES)


def _write_minutes(minutes: MinuteBars, folder: Path) -> None:
    rows = minutes.rows
    columns: dict[str, Any] = {
        "code": _encode_codes(rows["asset"], minutes.codes),
        "ends_at": rows["ends_at"].astype("M8[s]"),
    }
    for name in MINUTE_FIELDS:
        columns[name] = rows[name]

    pq.write_table(pa.table(columns), folder / MINUTES, compression="zstd")


def _write_documents(documents: Documents, folder: Path) -> None:
    entities = _text_table(Entity._fields, documents.entities)
    entities = entities.replace_schema_metadata({"close": str(documents.close)})
    pq.write_table(entities, folder / ENTITIES)
    if documents.table is not None:
        pq.write_table(documents.table, folder / DOCUMENTS, compression="zstd")


# ---- reading


def load_snapshot(folder: Path, cache: ArrayCache | None = None) -> MarketSnapshot:
    """Read and check a stored snapshot.

    `cache`: stores the snapshot's arrays, and arrays derived from them, for other processes. Files
    that have not changed since the last check are not read again. Raises DataError if a file is
    unreadable or was changed; the message names the table, the field and the first changed day.
    """
    manifest = load_manifest(folder)
    key = _files_state(folder)
    known = None
    if cache is not None:
        known = cache.find(key)

    try:
        snapshot = _read_tables(folder, manifest, known)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        advice = os_advice(error, "import the data again")
        raise DataError(f"{folder}: can't read the snapshot: {error}; {advice}") from error
    except ConfigError as error:
        raise DataError(f"{folder}: {error}; import the data again") from error

    if known is None and snapshot_id(snapshot) != manifest.id:
        changes = differences(manifest, snapshot) or [f"{MANIFEST}: id differs"]
        change = changes[0]
        if len(changes) > 1:
            change += f" (and {len(changes) - 1} more)"

        raise DataError(
            f"{folder}: the content was changed after it was stored: {change}; import the data"
            " again"
        )

    if cache is None:
        return dataclasses.replace(snapshot, id=manifest.id)

    if known is None:
        made = {"days": snapshot.days, **{name: getattr(snapshot, name) for name in GRID_FIELDS}}
        known = cache.keep(f"market {snapshot.meta.name}", key, made)

    grids: dict[str, Any] = {} if known is None else dict(known)
    snapshot = dataclasses.replace(snapshot, id=manifest.id, **grids)
    snapshot.share(cache)
    return snapshot


def _files_state(folder: Path) -> dict[str, JsonValue]:
    """Return the state of a snapshot's files; if any of the files changes, so does the state."""
    files: list[JsonValue] = []
    for path in sorted(folder.iterdir()):
        at = path.stat()
        state = [at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns]
        files.append([path.name, *state])

    return {"folder": str(folder.absolute()), "format": FORMAT_VERSION, "files": files}


def _read_tables(
    folder: Path, manifest: SnapshotManifest, known: Arrays | None = None
) -> MarketSnapshot:
    """Read a snapshot without setting its `id`. `known`: days and bars, if already read."""
    assets = read_table(folder / ASSETS)
    codes = read_texts(assets, "code")
    if known is None:
        days, grids = _read_bars(folder, codes)
    else:
        days = known["days"]
        grids = {name: known[name] for name in GRID_FIELDS}

    documents = NO_DOCUMENTS
    if "documents" in manifest.statics:
        documents = _read_documents(folder)

    minutes = NO_MINUTES
    if "minutes" in manifest.statics:
        minutes = MinuteBars.of(read_table(folder / MINUTES).to_pandas())

    return MarketSnapshot(
        meta=build(SnapshotMeta, manifest.meta, f"{MANIFEST}: meta"),
        days=days,
        codes=codes,
        names=read_texts(assets, "name"),
        industries=read_texts(assets, "industry"),
        **grids,
        indices=read_indices(folder, days),
        spells=_read_spells(folder, manifest),
        rules=read_venues(manifest.venues),
        instruments=_read_instruments(assets, manifest),
        index_names={code: str(name) for code, name in manifest.index_names.items()},
        documents=documents,
        price_limits=_read_price_limits(folder, manifest, assets, codes, days),
        quotes=Quotes(**_read_grids(folder / QUOTES, _QUOTE_KINDS, manifest, codes, days)),
        minutes=minutes,
    )


def _read_bars(folder: Path, codes: tuple[str, ...]) -> tuple[DayArray, dict[str, Any]]:
    """Return the days of the bars, and each field as a [days, assets] array."""
    grids = {}
    with open_parquet(folder / BARS) as bars:
        days = read_grid_axes(bars.read(["date", "code"]), codes, folder)
        # Read field by field, because a field being read is in memory twice.
        for name, kind in GRID_FIELDS.items():
            column = bars.read([name])[name].to_numpy()
            grids[name] = column.astype(kind).reshape(len(days), len(codes))

    # Arrow retains freed memory for later use.
    pa.default_memory_pool().release_unused()
    return days, grids


def _read_spells(folder: Path, manifest: SnapshotManifest) -> tuple[NameSpell, ...]:
    if "spells" not in manifest.statics:
        return ()
    return tuple(NameSpell(**row) for row in read_table(folder / NAMES).to_pylist())


def _read_instruments(assets: pa.Table, manifest: SnapshotManifest) -> tuple[Instrument, ...]:
    if "instruments" not in manifest.statics:
        return ()

    columns = [read_texts(assets, field.name) for field in dataclasses.fields(Instrument)]
    return tuple(Instrument(*row) for row in zip(*columns, strict=True))


def _read_documents(folder: Path) -> Documents:
    table = read_table(folder / ENTITIES)
    metadata = table.schema.metadata or {}
    close = Close.parse(metadata.get(b"close", b"").decode(errors="replace"))
    entities = [Entity(**row) for row in table.select(Entity._fields).to_pylist()]
    if not (folder / DOCUMENTS).exists():
        return Documents.of((), close, entities)

    return Documents.read_stored(read_table(folder / DOCUMENTS), close, entities)


def _read_price_limits(
    folder: Path,
    manifest: SnapshotManifest,
    assets: pa.Table,
    codes: tuple[str, ...],
    days: DayArray,
) -> PriceLimits:
    """Return the price limits from a snapshot's files; the manifest lists the available parts."""
    listed: tuple[str, ...] = ()
    if "listed" in manifest.statics:
        listed = read_texts(assets, "listed")

    grids = _read_grids(folder / PRICE_LIMITS, _LIMIT_KINDS, manifest, codes, days)
    if not grids and not listed:
        return NO_PRICE_LIMITS

    return PriceLimits(**grids, listed=listed)


def _read_grids(
    path: Path,
    kinds: Mapping[str, type],
    manifest: SnapshotManifest,
    codes: tuple[str, ...],
    days: DayArray,
) -> dict[str, Any]:
    """Return an additional table's fields as [days, assets] arrays; the manifest lists the
    available fields.
    """
    prefix = f"{path.name}: "
    addresses = [address for address in manifest.arrays if address.startswith(prefix)]
    if not addresses:
        return {}

    table = read_table(path)
    if not np.array_equal(read_grid_axes(table, codes, path.parent), days):
        raise DataError(f"{path}: does not have the days of {BARS}; import the data again")

    shape = (len(days), len(codes))
    grids: dict[str, Any] = {}
    for address in addresses:
        name = address.removeprefix(prefix)
        grids[name] = table[name].to_numpy().astype(kinds[name]).reshape(shape)

    return grids
