"""Market snapshot on disk: one folder of Parquet with a manifest, and an identity that is a hash of its content.

The identity is taken over canonical content, never over file bytes, so that a snapshot written by another version of Parquet keeps
its name. Layout of the folder:

* `manifest.json`: format version, meta, venues unless all assets are A-shares, identity, a SHA-256 of each array, and a checksum of
  each array on each day.
* `bars.parquet`: date, code, open, high, low, close, volume, amount, factor, member; every code on every day, sorted by date, code.
* `assets.parquet`: code, name, industry, and kind, currency, venue unless all are A-shares. `indices.parquet`: date, code, close.
* `names.parquet`, where names are dated: code, first, last, name, code_then.
* `documents.parquet`, `entities.parquet`, where there are any: the columns of `Documents.table`; code, kind, text.
* `minutes.parquet`, where there are any: code, ends_at (UTC), open, high, low, close, volume, sorted by code and end.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import ConfigError, DataError, StoreError
from ktdeval.fields import build, to_mapping
from ktdeval.jsonio import JsonValue, content_hash, dumps_pretty, loads_strict, new_folder, open_plain, read_plain, sha256_hex
from ktdeval.market.close import Close
from ktdeval.market.documents import NO_DOCUMENTS, Documents, Entity
from ktdeval.market.minutes import MINUTE_FIELDS, NO_MINUTES, MinuteBars
from ktdeval.market.snapshot import BAR_FIELDS, DayArray, Instrument, MarketSnapshot, NameSpell, SnapshotMeta
from ktdeval.market.venue import Venue, parse_venue

FORMAT = "ktdeval-snapshot"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
BARS, ASSETS, INDICES, NAMES = "bars.parquet", "assets.parquet", "indices.parquet", "names.parquet"
DOCUMENTS, ENTITIES, MINUTES = "documents.parquet", "entities.parquet", "minutes.parquet"
_GRID_FIELDS: dict[str, type] = {**dict.fromkeys(BAR_FIELDS, float), "member": bool}
_MANIFEST_PARTS = {"id": str, **dict.fromkeys(("meta", "index_names", "statics", "arrays", "day_checksums"), dict)}
_CHECKSUM_DIGITS = 8


def _canonical(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Little-endian bytes that are equal for equal values: one NaN, no negative zero."""
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array, dtype="u1")
    if array.dtype.kind == "M":
        return np.ascontiguousarray(array.astype("datetime64[D]").astype("<i8"))
    values = np.ascontiguousarray(array, dtype="<f8") + 0.0
    values[np.isnan(values)] = np.nan
    return values


def _arrays(snapshot: MarketSnapshot) -> dict[str, npt.NDArray[Any]]:
    """Every array of a snapshot whose first axis is days, by its address in the folder."""
    arrays: dict[str, npt.NDArray[Any]] = {f"{BARS}: {name}": getattr(snapshot, name) for name in _GRID_FIELDS}
    for code in sorted(snapshot.indices):
        arrays[f"{INDICES}: {code}"] = snapshot.indices[code]
    return arrays


def _statics(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Hashes of what does not change from day to day, and of the days themselves."""
    minutes = snapshot.minutes
    spells, instruments = ([list(dataclasses.astuple(value)) for value in of] for of in (snapshot.spells, snapshot.instruments))
    return {
        "days": sha256_hex(_canonical(snapshot.days).tobytes()),
        "codes": content_hash(list(snapshot.codes)),
        "names": content_hash(list(snapshot.names)),
        "industries": content_hash(list(snapshot.industries)),
        **({"spells": content_hash(spells)} if spells else {}),
        **({"instruments": content_hash(instruments)} if instruments else {}),
        **({"documents": content_hash(snapshot.documents.digest)} if snapshot.documents else {}),
        **({"minutes": content_hash([list(minutes.codes), sha256_hex(minutes.rows.tobytes())])} if minutes else {}),
    }


def _meta(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Meta as it is stored and hashed: without notes where there are none, as in markets from before there were notes."""
    return {key: value for key, value in to_mapping(snapshot.meta).items() if value or key != "notes"}


def _content(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Return what the identity is the hash of."""
    return {
        "version": FORMAT_VERSION,
        "meta": _meta(snapshot),
        "index_names": dict(snapshot.index_names),
        "statics": _statics(snapshot),
        "arrays": {address: sha256_hex(_canonical(array).tobytes()) for address, array in _arrays(snapshot).items()},
        **({"venues": _venues(snapshot)} if snapshot.instruments else {}),
    }


def _venues(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Rules of each venue, as they read when they are loaded again."""
    return {name: to_mapping(parse_venue(to_mapping(venue), name)) for name, venue in snapshot.rules.items()}


def snapshot_id(snapshot: MarketSnapshot) -> str:
    """SHA-256 over the canonical content of a snapshot (except its own `id`), as 64 hexadecimal digits."""
    return content_hash(_content(snapshot))


def with_id(snapshot: MarketSnapshot) -> MarketSnapshot:
    """Return the same snapshot with its `id` set."""
    return dataclasses.replace(snapshot, id=snapshot_id(snapshot))


def _day_checksums(array: npt.NDArray[Any]) -> str:
    """Eight hexadecimal digits a day, joined: enough to find the day on which a changed array changed first."""
    return "".join(f"{zlib.crc32(row.tobytes()):08x}" for row in _canonical(array))


def snapshot_manifest(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Return the manifest that is stored with a snapshot; `differences` compares it with another snapshot."""
    content = _content(snapshot)
    checksums = {address: _day_checksums(array) for address, array in _arrays(snapshot).items()}
    return {"format": FORMAT, "id": content_hash(content), **content, "day_checksums": checksums}


def differences(manifest: Mapping[str, JsonValue], snapshot: MarketSnapshot) -> list[str]:
    """Return where a snapshot differs from a manifest, such as `bars.parquet: close differs, first on 2024-05-06`."""
    changes = _static_differences(manifest, snapshot)
    axes_equal = all(manifest["statics"].get(axis) == _statics(snapshot)[axis] for axis in ("days", "codes"))
    arrays = _arrays(snapshot)
    for address in sorted({*manifest["arrays"], *arrays}):
        table, field = address.split(": ", 1)
        if address not in arrays or address not in manifest["arrays"]:
            changes.append(f"{table}: {field} is {'absent' if address not in arrays else 'new'}")
        elif sha256_hex(_canonical(arrays[address]).tobytes()) != manifest["arrays"][address]:
            recorded = str(manifest["day_checksums"].get(address, ""))
            first = _first_changed_day(recorded, arrays[address], snapshot.days) if axes_equal else None
            changes.append(f"{table}: {field} differs" + (f", first on {first}" if first else ""))
    return changes


def _static_differences(manifest: Mapping[str, JsonValue], snapshot: MarketSnapshot) -> list[str]:
    changes = []
    meta = _meta(snapshot)
    for field in sorted({*manifest["meta"], *meta}):
        if manifest["meta"].get(field) != meta.get(field):
            changes.append(f"{MANIFEST}: meta.{field} differs")
    if manifest.get("venues", {}) != (_venues(snapshot) if snapshot.instruments else {}):
        changes.append(f"{MANIFEST}: venues differ")
    if manifest["index_names"] != dict(snapshot.index_names):
        changes.append(f"{MANIFEST}: index_names differ")
    tables = {"days": BARS, **dict.fromkeys(("codes", "names", "industries", "instruments"), ASSETS)}
    tables |= {"spells": NAMES, "documents": DOCUMENTS, "minutes": MINUTES}
    recorded, present = manifest["statics"], _statics(snapshot)
    changes += [f"{table}: {field} differ" for field, table in tables.items() if recorded.get(field) != present.get(field)]
    return changes


def _first_changed_day(recorded: str, array: npt.NDArray[Any], days: DayArray) -> np.datetime64 | None:
    present = _day_checksums(array)
    for row, day in enumerate(days):
        digits = slice(row * _CHECKSUM_DIGITS, (row + 1) * _CHECKSUM_DIGITS)
        if recorded[digits] != present[digits]:
            return np.datetime64(day)
    return None


def save_snapshot(snapshot: MarketSnapshot, folder: Path, extras: Mapping[str, bytes] | None = None) -> MarketSnapshot:
    """Write a snapshot as a new or empty folder, whole or not at all (nothing if it is there already), and return it with its id.
    `extras`: further files next to the tables, no part of the identity. Raises StoreError if something else is there or it can't be
    written.
    """
    manifest = snapshot_manifest(snapshot)
    named = dataclasses.replace(snapshot, id=manifest["id"])
    try:
        if _holds(folder, named.id):
            return named
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StoreError(f"{folder}: exists and is not this snapshot; choose another folder or remove it")
        with new_folder(folder) as content:
            _write_tables(named, content)
            for name, data in {**(extras or {}), MANIFEST: dumps_pretty(manifest).encode()}.items():
                (content / name).write_bytes(data)
    except OSError as error:
        if not _holds(folder, named.id):  # another process may have written the same snapshot in the meantime
            raise StoreError(f"{folder}: can't write: {error.strerror or error}; free space or choose another folder") from error
    return named


def _holds(folder: Path, identity: str) -> bool:
    try:
        return bool(load_manifest(folder)["id"] == identity)
    except DataError:
        return False


def _write_tables(snapshot: MarketSnapshot, folder: Path) -> None:
    n_days, n_assets = len(snapshot.days), len(snapshot.codes)
    code_columns = pa.array(np.tile(np.arange(n_assets, dtype=np.int32), n_days))
    columns: dict[str, Any] = {
        "date": pa.array(np.repeat(snapshot.days, n_assets)),
        "code": pa.DictionaryArray.from_arrays(code_columns, pa.array(snapshot.codes, pa.string())),
    }
    for name in _GRID_FIELDS:
        columns[name] = pa.array(np.ascontiguousarray(getattr(snapshot, name)).reshape(-1))
    pq.write_table(pa.table(columns), folder / BARS, compression="zstd")
    assets = {"code": snapshot.codes, "name": snapshot.names, "industry": snapshot.industries}
    if snapshot.instruments:
        assets |= {"kind": snapshot.kinds, "currency": snapshot.currencies, "venue": snapshot.venues}
    pq.write_table(pa.table({name: pa.array(texts, pa.string()) for name, texts in assets.items()}), folder / ASSETS)
    codes = sorted(snapshot.indices)
    indices = {
        "date": pa.array(np.tile(snapshot.days, len(codes))),
        "code": pa.array(np.repeat(np.array(codes, dtype=object), n_days), pa.string()),
        "close": pa.array(np.concatenate([np.empty(0), *(snapshot.indices[code] for code in codes)])),
    }
    pq.write_table(pa.table(indices), folder / INDICES)
    if snapshot.spells:
        columns = {field.name: [getattr(spell, field.name) for spell in snapshot.spells] for field in dataclasses.fields(NameSpell)}
        pq.write_table(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), folder / NAMES)
    if snapshot.documents:
        _write_documents(snapshot.documents, folder)
    if snapshot.minutes:
        rows = snapshot.minutes.rows
        code = pa.DictionaryArray.from_arrays(pa.array(rows["asset"]), pa.array(snapshot.minutes.codes, pa.string()))
        columns = {"code": code, "ends_at": rows["ends_at"].astype("M8[s]"), **{name: rows[name] for name in MINUTE_FIELDS}}
        pq.write_table(pa.table(columns), folder / MINUTES, compression="zstd")


def _write_documents(documents: Documents, folder: Path) -> None:
    columns = {name: pa.array([getattr(entity, name) for entity in documents.entities], pa.string()) for name in Entity._fields}
    pq.write_table(pa.table(columns).replace_schema_metadata({"close": str(documents.close)}), folder / ENTITIES)
    if documents.table is not None:
        pq.write_table(documents.table, folder / DOCUMENTS, compression="zstd")


def _read_documents(folder: Path) -> Documents:
    entities = _read_table(folder / ENTITIES)
    close = Close.parse((entities.schema.metadata or {}).get(b"close", b"").decode(errors="replace"))
    named = [Entity(**row) for row in entities.select(Entity._fields).to_pylist()]
    if not (folder / DOCUMENTS).exists():
        return Documents.of((), close, named)
    return Documents.stored(_read_table(folder / DOCUMENTS), close, named)


def load_manifest(folder: Path) -> dict[str, JsonValue]:
    """Return the manifest of a stored snapshot. Raises DataError if it is absent, malformed, or of another format version."""
    path = folder / MANIFEST
    try:
        manifest = loads_strict(read_plain(path))
    except OSError as error:
        raise DataError(
            f"{folder}: not a market snapshot ({MANIFEST}: {error.strerror}); make one with 'ktdeval data import'"
        ) from error
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON: {error}; import the data again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"{path}: not the manifest of a market snapshot; make one with 'ktdeval data import'")
    if manifest.get("version") != FORMAT_VERSION:
        raise DataError(f"{path}: format version {manifest.get('version')!r}, expected {FORMAT_VERSION}; import the data again")
    if broken := [key for key, kind in _MANIFEST_PARTS.items() if not isinstance(manifest.get(key), kind)]:
        raise DataError(f"{path}: {broken[0]!r} is missing or of another type; import the data again")
    return manifest


def load_snapshot(folder: Path) -> MarketSnapshot:
    """Read and check a stored snapshot. Raises DataError if a file is unreadable or was changed (names table, field, first day)."""
    manifest = load_manifest(folder)
    try:
        snapshot = _read_tables(folder, manifest)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder}: can't read the snapshot: {error}; import the data again") from error
    except ConfigError as error:
        raise DataError(f"{folder}: {error}; import the data again") from error
    if snapshot_id(snapshot) != manifest["id"]:
        changes = differences(manifest, snapshot) or [f"{MANIFEST}: id differs"]
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        raise DataError(f"{folder}: the content was changed after it was stored: {changes[0]}{more}; import the data again")
    return dataclasses.replace(snapshot, id=manifest["id"])


def _open_table(path: Path) -> pq.ParquetFile:
    open_plain(path).close()
    return pq.ParquetFile(path)


def _read_table(path: Path) -> pa.Table:
    with _open_table(path) as table:
        return table.read()


def _read_tables(folder: Path, manifest: Mapping[str, JsonValue]) -> MarketSnapshot:
    assets = _read_table(folder / ASSETS)
    codes = tuple(assets["code"].to_pylist())
    with _open_table(folder / BARS) as bars:  # one field after the other: each is held twice while it is read
        days = _read_grid_axes(bars.read(["date", "code"]), codes, folder)
        shape = (len(days), len(codes))
        columns = ((name, bars.read([name])[name].to_numpy().astype(kind)) for name, kind in _GRID_FIELDS.items())
        grids: dict[str, Any] = {name: column.reshape(shape) for name, column in columns}
    spells = _read_table(folder / NAMES).to_pylist() if "spells" in manifest["statics"] else ()
    own = [field.name for field in dataclasses.fields(Instrument)] if "instruments" in manifest["statics"] else []
    pa.default_memory_pool().release_unused()  # Arrow keeps what it freed, and would keep what an array shares with it
    return MarketSnapshot(
        meta=build(SnapshotMeta, manifest["meta"], f"{MANIFEST}: meta"),
        days=days,
        codes=codes,
        names=tuple(assets["name"].to_pylist()),
        industries=tuple(assets["industry"].to_pylist()),
        **grids,
        indices=_read_indices(folder, days),
        spells=tuple(NameSpell(**row) for row in spells),
        rules=_read_venues(manifest),
        instruments=tuple(Instrument(*row) for row in zip(*(assets[name].to_pylist() for name in own), strict=True)),
        index_names=manifest["index_names"],
        documents=_read_documents(folder) if "documents" in manifest["statics"] else NO_DOCUMENTS,
        minutes=MinuteBars.of(_read_table(folder / MINUTES).to_pandas()) if "minutes" in manifest["statics"] else NO_MINUTES,
    )


def _read_venues(manifest: Mapping[str, JsonValue]) -> dict[str, Venue]:
    venues = manifest.get("venues", {})
    if not isinstance(venues, dict) or not all(isinstance(rules, dict) for rules in venues.values()):
        raise ConfigError(f"{MANIFEST}: venues are no mappings")
    return {name: parse_venue(rules, f"{MANIFEST}: venue {name}") for name, rules in venues.items()}


def _read_grid_axes(bars: pa.Table, codes: tuple[str, ...], folder: Path) -> DayArray:
    """Return the days of the bars table, after a check that it holds every code on every day in order."""
    order = f"{folder / BARS}: rows are not every code on every day, sorted by date and code; import the data again"
    if not codes or bars.num_rows % len(codes):
        raise DataError(order)
    dates = bars["date"].to_numpy().astype("datetime64[D]").reshape(-1, len(codes))
    code_column = bars["code"].combine_chunks()
    if not pa.types.is_dictionary(code_column.type):
        code_column = code_column.dictionary_encode()
    column_of = {code: column for column, code in enumerate(codes)}
    columns_of = np.array([column_of.get(code, -1) for code in code_column.dictionary.to_pylist()], dtype=np.int64)
    columns = columns_of[code_column.indices.to_numpy()].reshape(dates.shape)
    if (dates != dates[:, :1]).any() or (columns != np.arange(len(codes))).any():
        raise DataError(order)
    return np.ascontiguousarray(dates[:, 0])


def _read_indices(folder: Path, days: DayArray) -> dict[str, npt.NDArray[np.float64]]:
    table = _read_table(folder / INDICES)
    codes = np.array(table["code"].to_pylist(), dtype=object)
    dates = table["date"].to_numpy().astype("datetime64[D]")
    levels = table["close"].to_numpy().astype(np.float64)
    indices = {}
    for code in sorted(set(codes)):
        rows = codes == code
        if not np.array_equal(dates[rows], days):
            raise DataError(f"{folder / INDICES}: {code} does not have the days of {BARS}; import the data again")
        indices[code] = np.ascontiguousarray(levels[rows])
    return indices
