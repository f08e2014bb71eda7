"""Identity of a market snapshot, and the manifest that is stored with its tables.

The identity is a hash of canonical content, never of file bytes, so it does not depend on the
Parquet version that wrote the snapshot. Labels (`snapshot.LABELS`, a venue's summary) are not
content, so a market imported under two names has the same identity.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, os_advice
from ktdeval.market.snapshots.snapshot import BAR_FIELDS, LABELS, DayArray, MarketSnapshot
from ktdeval.market.snapshots.snapshot_files import (
    ASSETS,
    BARS,
    DOCUMENTS,
    INDICES,
    MANIFEST,
    MINUTES,
    NAMES,
    PRICE_LIMITS,
    QUOTES,
)
from ktdeval.market.venues.venue import parse_venue
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.format_versions import check_version, format_version
from ktdeval.values.documents.strict_json import JsonObject, JsonValue, dumps_pretty, loads_strict
from ktdeval.values.hashes import content_hash, sha256_hex
from ktdeval.values.options.config_options import to_mapping

FORMAT = "ktdeval-snapshot"
FORMAT_VERSION = format_version("market")

GRID_FIELDS: Mapping[str, type] = {**dict.fromkeys(BAR_FIELDS, float), "member": bool}
"""[days, assets] arrays of a snapshot, with the types of their values."""

_CHECKSUM_DIGITS = 8
_VENUE_LABELS = ("summary",)  #: fields of `Venue` that only describe it
_TABLE_OF_STATIC = {
    "days": BARS,
    "codes": ASSETS,
    "names": ASSETS,
    "industries": ASSETS,
    "instruments": ASSETS,
    "spells": NAMES,
    "documents": DOCUMENTS,
    "minutes": MINUTES,
    "listed": ASSETS,
}


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """Hashes of a snapshot's content, with its labels.

    A manifest that was read from a file is untrusted: its hashes are only compared.
    """

    meta: JsonObject  #: fields of `SnapshotMeta`
    index_names: JsonObject  #: code -> name
    statics: JsonObject  #: hash of each part that does not vary by day, keyed by name
    arrays: JsonObject  #: hash of each array whose first axis is days, by table and field
    day_checksums: JsonObject  #: eight hexadecimal digits per day of an array, by table and field
    id: str = ""
    venues: JsonValue = None  #: rules by venue; None if all assets are A-shares

    def to_json(self) -> dict[str, JsonValue]:
        """Return the manifest in its stored form."""
        return {
            "format": FORMAT,
            "id": self.id,
            "day_checksums": self.day_checksums,
            **self._without_id(self.meta, self.venues),
        }

    def identity(self) -> str:
        """Return the hash of the content, excluding labels."""
        venues = None if self.venues is None else self.rules()
        return content_hash(self._without_id(self.facts(), venues))

    def facts(self) -> JsonObject:
        """Return the metadata without labels."""
        return _without_labels(self.meta, LABELS)

    def rules(self) -> JsonObject:
        """Return each venue's rules without labels."""
        rules: dict[str, JsonValue] = {}
        if isinstance(self.venues, Mapping):
            for name, venue in self.venues.items():
                rules[name] = venue
                if isinstance(venue, Mapping):
                    rules[name] = _without_labels(venue, _VENUE_LABELS)

        return rules

    def _without_id(self, meta: JsonObject, venues: JsonValue) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = {
            "version": FORMAT_VERSION,
            "meta": meta,
            "index_names": self.index_names,
            "statics": self.statics,
            "arrays": self.arrays,
        }
        if venues is not None:
            content["venues"] = venues

        return content


def _without_labels(mapping: JsonObject, labels: tuple[str, ...]) -> dict[str, JsonValue]:
    return {field: value for field, value in mapping.items() if field not in labels}


# ---- from a snapshot


def snapshot_manifest(snapshot: MarketSnapshot) -> SnapshotManifest:
    """Return the manifest that is stored with a snapshot; `differences` compares a manifest with a
    snapshot.
    """
    manifest = _manifest_without_id(snapshot)
    checksums = {address: _day_checksums(array) for address, array in _arrays(snapshot).items()}
    return dataclasses.replace(manifest, id=manifest.identity(), day_checksums=checksums)


def snapshot_id(snapshot: MarketSnapshot) -> str:
    """Return the SHA-256 of a snapshot's canonical content, excluding labels, in hexadecimal."""
    return _manifest_without_id(snapshot).identity()


def with_id(snapshot: MarketSnapshot) -> MarketSnapshot:
    """Return the same snapshot with its `id` set."""
    return dataclasses.replace(snapshot, id=snapshot_id(snapshot))


def _manifest_without_id(snapshot: MarketSnapshot) -> SnapshotManifest:
    arrays = {}
    for address, array in _arrays(snapshot).items():
        arrays[address] = sha256_hex(_canonical(array).tobytes())

    return SnapshotManifest(
        meta=to_mapping(snapshot.meta),
        index_names=dict(snapshot.index_names),
        statics=_statics(snapshot),
        arrays=arrays,
        day_checksums={},
        venues=_venues(snapshot) if snapshot.instruments else None,
    )


def _canonical(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with one representation for equal values: a single NaN, no negative zero."""
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array, dtype="u1")
    if array.dtype.kind == "M":
        return np.ascontiguousarray(array.astype("datetime64[D]").astype("<i8"))

    values = np.ascontiguousarray(array, dtype="<f8") + 0.0
    values[np.isnan(values)] = np.nan
    return values


def _arrays(snapshot: MarketSnapshot) -> dict[str, npt.NDArray[Any]]:
    """Return every snapshot array whose first axis is days, by table and field."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name in GRID_FIELDS:
        arrays[f"{BARS}: {name}"] = getattr(snapshot, name)

    for code in sorted(snapshot.indices):
        arrays[f"{INDICES}: {code}"] = snapshot.indices[code]

    for name, array in snapshot.price_limits.arrays.items():
        arrays[f"{PRICE_LIMITS}: {name}"] = array

    for name, array in snapshot.quotes.arrays.items():
        arrays[f"{QUOTES}: {name}"] = array

    return arrays


def _statics(snapshot: MarketSnapshot) -> dict[str, str]:
    """Return hashes of the days, and of everything that does not vary by day."""
    statics = {
        "days": sha256_hex(_canonical(snapshot.days).tobytes()),
        "codes": content_hash(list(snapshot.codes)),
        "names": content_hash(list(snapshot.names)),
        "industries": content_hash(list(snapshot.industries)),
    }
    # An absent part has no hash, so that snapshots from before the part was introduced keep their
    # identity.
    if snapshot.spells:
        statics["spells"] = content_hash([list(dataclasses.astuple(x)) for x in snapshot.spells])

    if snapshot.instruments:
        instruments = [list(dataclasses.astuple(x)) for x in snapshot.instruments]
        statics["instruments"] = content_hash(instruments)

    if snapshot.price_limits.listed:
        statics["listed"] = content_hash(list(snapshot.price_limits.listed))

    if snapshot.documents:
        statics["documents"] = content_hash(snapshot.documents.digest)

    minutes = snapshot.minutes
    if minutes:
        rows = sha256_hex(minutes.rows.tobytes())
        statics["minutes"] = content_hash([list(minutes.codes), rows])

    return statics


def _venues(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Return the rules of each venue in the form in which they are loaded."""
    rules: dict[str, JsonValue] = {}
    for name, venue in snapshot.rules.items():
        rules[name] = to_mapping(parse_venue(to_mapping(venue), name))

    return rules


def _day_checksums(array: npt.NDArray[Any]) -> str:
    """Return eight hexadecimal digits per day, joined.

    These checksums suffice to find the first day on which a changed array differs.
    """
    return "".join(f"{zlib.crc32(row.tobytes()):08x}" for row in _canonical(array))


# ---- from a file


def load_manifest(folder: Path) -> SnapshotManifest:
    """Return the manifest of a stored snapshot.

    Raises DataError if the manifest is absent or malformed, or has another format version.
    """
    path = folder / MANIFEST
    try:
        manifest = loads_strict(read_plain(path))
    except OSError as error:
        advice = os_advice(error, "make one with 'ktdeval data make'")
        raise DataError(
            f"{folder}: not a market snapshot ({MANIFEST}: {error.strerror}); {advice}"
        ) from error
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON: {error}; import the data again") from error

    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(
            f"{path}: not the manifest of a market snapshot; make one with 'ktdeval data make'"
        )

    check_version("market", manifest.get("version"), path, "import the data again", DataError)

    identity = manifest.get("id")
    if not isinstance(identity, str):
        raise _broken(path, "id")

    return SnapshotManifest(
        id=identity,
        meta=_manifest_part(manifest, "meta", path),
        index_names=_manifest_part(manifest, "index_names", path),
        statics=_manifest_part(manifest, "statics", path),
        arrays=_manifest_part(manifest, "arrays", path),
        day_checksums=_manifest_part(manifest, "day_checksums", path),
        venues=manifest.get("venues"),
    )


def _manifest_part(manifest: JsonObject, key: str, path: Path) -> JsonObject:
    part = manifest.get(key)
    if not isinstance(part, dict):
        raise _broken(path, key)
    return part


def _broken(path: Path, key: str) -> DataError:
    return DataError(f"{path}: {key!r} is missing or of another type; import the data again")


def write_manifest(manifest: SnapshotManifest, folder: Path) -> None:
    """Write a manifest into a snapshot's folder."""
    (folder / MANIFEST).write_bytes(dumps_pretty(manifest.to_json()).encode())


# ---- comparison


def differences(manifest: SnapshotManifest, snapshot: MarketSnapshot) -> list[str]:
    """Return the differences between a snapshot and a manifest, one line each.

    For example `bars.parquet: close differs, first on 2024-05-06`.
    """
    own = _manifest_without_id(snapshot)
    changes = _static_differences(manifest, own)
    arrays = _arrays(snapshot)
    # Only arrays with the same days and codes can be compared day by day.
    is_aligned = all(manifest.statics.get(axis) == own.statics[axis] for axis in ("days", "codes"))
    for address in sorted({*manifest.arrays, *own.arrays}):
        table, field = address.split(": ", 1)
        if address not in own.arrays:
            changes.append(f"{table}: {field} is absent")
        elif address not in manifest.arrays:
            changes.append(f"{table}: {field} is new")
        elif own.arrays[address] != manifest.arrays[address]:
            change = f"{table}: {field} differs"
            recorded = str(manifest.day_checksums.get(address, ""))
            if is_aligned:
                day = _first_changed_day(recorded, arrays[address], snapshot.days)
                if day is not None:
                    change += f", first on {day}"

            changes.append(change)

    return changes


def _static_differences(recorded: SnapshotManifest, own: SnapshotManifest) -> list[str]:
    """Return the names of differing parts among those that do not vary by day."""
    changes = []
    recorded_facts = recorded.facts()
    facts = own.facts()
    for field in sorted({*recorded_facts, *facts}):
        if recorded_facts.get(field) != facts.get(field):
            changes.append(f"{MANIFEST}: meta.{field} differs")

    if recorded.rules() != own.rules():
        changes.append(f"{MANIFEST}: venues differ")

    if recorded.index_names != own.index_names:
        changes.append(f"{MANIFEST}: index_names differ")

    for field, table in _TABLE_OF_STATIC.items():
        if recorded.statics.get(field) != own.statics.get(field):
            changes.append(f"{table}: {field} differ")

    return changes


def _first_changed_day(
    recorded: str, array: npt.NDArray[Any], days: DayArray
) -> np.datetime64 | None:
    """Return the first day whose checksum differs from the recorded one; None if no day differs."""
    present = _day_checksums(array)
    for row, day in enumerate(days):
        digits = slice(row * _CHECKSUM_DIGITS, (row + 1) * _CHECKSUM_DIGITS)
        if recorded[digits] != present[digits]:
            return np.datetime64(day)

    return None
