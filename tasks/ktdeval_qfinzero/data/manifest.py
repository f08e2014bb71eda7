"""Manifest of a dataset folder: its description, its file, and the parts that its identity covers.

A part is a set of rows with a key, such as `prices/stock/minute/AVLN/2025`. A dataset's identity is
a hash over the rows of its parts, never over the bytes of its file, since these vary between
library versions.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import DataError, os_advice
from ktdeval.values import (
    JsonValue,
    Value,
    content_hash,
    decode_json,
    dumps_pretty,
    file_sha256,
    to_plain,
)
from ktdeval_qfinzero.data.rows import AssetClass, DatasetInfo, Resolution
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import day_of, moment_text, parse_moment
from ktdeval_qfinzero.trading_hours import DEFAULT, trading_hours

FORMAT = "ktdeval-qfinzero-dataset"
VERSION = 2
MANIFEST = "manifest.json"
#: Version of the rules that define an identity
_IDENTITY_VERSION = 1
_FILE = re.compile(r"market(?:-(\d{4,9}))?\.duckdb(\.wal|\.tmp)?")
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Part(Value, frozen=True):
    """Rows of a dataset that are hashed together."""

    key: str
    rows: int  #: number of rows
    content: _Hash  #: SHA-256 of the rows in canonical order and form
    first_ns: int = 0  #: start of the first bar; 0 for tables
    last_ns: int = 0  #: start of the last bar; 0 for tables


class MarketFile(Value, frozen=True):
    """File of a dataset."""

    name: str  #: name in the folder
    bytes: int  #: size
    sha256: _Hash

    def __post_init__(self) -> None:
        # A manifest may come from a stranger, so its file must not lie outside the folder.
        if not is_market(self.name):
            raise ValueError("expected the name of a market's file")


def market_file(path: Path) -> MarketFile:
    """Describe a file in the form that a manifest uses. Raises OSError if the file can't be
    read.
    """
    return MarketFile(name=path.name, bytes=path.stat().st_size, sha256=file_sha256(path))


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """Manifest of a dataset folder."""

    info: DatasetInfo  #: description of the dataset
    generation: int  #: 1, incremented by each update
    file: MarketFile
    parts: Mapping[str, Part]  #: parts by key


def bars_key(asset_class: AssetClass, resolution: Resolution, owner: str, year: int) -> str:
    """Return the key for the bars of a stock, a crypto asset, or all options with one root, in a
    calendar year in UTC.
    """
    return f"prices/{asset_class}/{resolution}/{_path_name(owner)}/{year:04d}"


def contracts_key(underlying: str) -> str:
    """Return the key for the contracts on an underlying."""
    return f"tables/contracts/{_path_name(underlying)}"


def table_key(name: str) -> str:
    """Return the key of a table with one part; for contracts, the beginning of the keys."""
    return name if name in ("events", "news") else f"tables/{name}"


def kind_of(key: str) -> str:
    """Return the kind of a part's rows: `stock minute`, `events`, …; `tables` for all other
    kinds.
    """
    pieces = key.split("/")
    return " ".join(pieces[1:3]) if pieces[0] == "prices" else pieces[0]


def _path_name(symbol: str) -> str:
    """Return a ticker in the form used in keys: dots become underscores, and hyphens become tildes,
    which no ticker contains.
    """
    return symbol.replace(".", "_").replace("-", "~")


def file_name(generation: int) -> str:
    """Return the name of the file of a generation."""
    return "market.duckdb" if generation == 1 else f"market-{generation:04d}.duckdb"


def is_market(name: str) -> bool:
    """Return whether a name is that of a market file."""
    match = _FILE.fullmatch(name)
    return match is not None and not match[2]


def strays_of(folder: Path, manifest: DatasetManifest) -> tuple[str, ...]:
    """Return the files of other generations and of interrupted updates."""
    strays = []
    for path in sorted(folder.iterdir()):
        is_unnamed = _FILE.fullmatch(path.name) is not None and path.name != manifest.file.name
        if is_unnamed or path.name.startswith(f".{MANIFEST}."):
            strays.append(path.name)

    return tuple(strays)


def is_left_over(name: str, manifest: DatasetManifest) -> bool:
    """Return whether a stray file was left by an interrupted update, rather than by a completed
    one.
    """
    match = _FILE.fullmatch(name)
    return match is None or bool(match[2]) or int(match[1] or 1) > manifest.generation


def file_problem(folder: Path, file: MarketFile) -> str:
    """Return the problem found by a quick check of a dataset's file, or an empty string."""
    try:
        status = (folder / file.name).lstat()
    except OSError:
        return "is missing"

    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    if status.st_size != file.bytes:
        return f"has {status.st_size} bytes, expected {file.bytes}"
    return ""


def content_id(info: DatasetInfo, parts: Iterable[Part]) -> str:
    """Return the SHA-256 of a dataset's rows, its market, and the start of its clock. The name is
    not covered.
    """
    market: dict[str, JsonValue] = {"calendar": info.calendar, "currency": info.currency}
    if market == {"calendar": DEFAULT, "currency": "USD"}:
        # Omitted, so that datasets made before a manifest named its market keep their identity.
        market = {}

    contents: dict[str, JsonValue] = {part.key: part.content for part in parts}
    identity: dict[str, JsonValue] = {
        "format": FORMAT,
        "version": _IDENTITY_VERSION,
        "synthetic": info.synthetic,
        **market,
        "default_as_of": moment_text(info.default_as_of_ns),
        "parts": contents,
    }

    return content_hash(identity)


def complete_info(info: DatasetInfo, parts: Iterable[Part]) -> DatasetInfo:
    """Complete a description with the days and identity of the parts.

    The days are those of stocks, or those of all bars without stocks. Without minute bars,
    their first day is set after their last. Raises DataError if no bars are daily, or if the clock
    starts before 1970 or after 2115.
    """
    trading_hours(info.calendar)
    if not 0 <= info.default_as_of_ns < 2**62:
        raise DataError("default_as_of: expected a moment from 1970 to 2115")

    parts = list(parts)
    days = _reach(parts, "day")
    minutes = _reach(parts, "minute")
    if days is None:
        raise DataError(
            "a dataset needs bars of days, and there are none: add a source with `resolution: day`"
        )

    first_day, last_day = days
    minute_first_day, minute_last_day = minutes or (last_day + timedelta(days=1), last_day)
    return replace(
        info,
        content_id=content_id(info, parts),
        first_day=first_day,
        last_day=last_day,
        minute_first_day=minute_first_day,
        minute_last_day=minute_last_day,
    )


def _reach(parts: Iterable[Part], resolution: Resolution) -> tuple[date, date] | None:
    """Return the first and last day of the bars of stocks (of all bars without stocks);
    None without bars.
    """
    of_all = [part for part in parts if kind_of(part.key).endswith(f" {resolution}")]
    of_stocks = [part for part in of_all if kind_of(part.key).startswith("stock ")]
    chosen = of_stocks or of_all
    if not chosen:
        return None

    first_ns = min(part.first_ns for part in chosen)
    last_ns = max(part.last_ns for part in chosen)
    return day_of(first_ns), day_of(last_ns)


class _Info(Value, frozen=True):
    name: str
    synthetic: bool
    content_id: str
    first_day: date
    last_day: date
    minute_first_day: date
    minute_last_day: date
    default_as_of: str
    calendar: str = DEFAULT
    currency: str = "USD"


class _Head(msgspec.Struct):
    """Fields that manifests of all versions have."""

    format: Literal["ktdeval-qfinzero-dataset"]
    version: int


class _ManifestFile(Value, frozen=True, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    generation: Annotated[int, msgspec.Meta(ge=1)]
    info: _Info
    file: MarketFile
    parts: list[Part]


def manifest_text(manifest: DatasetManifest) -> str:
    """Return the contents of a manifest file."""
    values = {field.name: getattr(manifest.info, field.name) for field in fields(DatasetInfo)}
    default_as_of = moment_text(values.pop("default_as_of_ns"))
    info = _Info(default_as_of=default_as_of, **values)
    parts = sorted(manifest.parts.values(), key=lambda part: part.key)
    file = _ManifestFile(generation=manifest.generation, info=info, file=manifest.file, parts=parts)

    return dumps_pretty(to_plain(file))


def load_manifest(folder: Path) -> DatasetManifest:
    """Read a folder's manifest. Raises DataError if it is missing, malformed, changed, or of
    another version.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        advice = os_advice(error, "make or ingest one")
        raise DataError(
            f"{folder}: not a dataset ({MANIFEST}: {error.strerror or error}); {advice}"
        ) from error

    head = decode_json(
        data, _Head, f"{path}: not the manifest of a dataset; make or ingest one", DataError
    )
    if head.version != VERSION:
        raise DataError(
            f"{path}: format version {head.version}, expected {VERSION}; make the dataset again"
        )

    file = decode_json(data, _ManifestFile, f"{path}: malformed, make the dataset again", DataError)
    values = {field: getattr(file.info, field) for field in file.info.__struct_fields__}
    try:
        moment = parse_moment(values.pop("default_as_of"), "default_as_of")
    except ServiceError as error:
        raise DataError(f"{path}: malformed, make the dataset again: {error}") from error

    parts = {part.key: part for part in file.parts}
    if len(parts) != len(file.parts):
        raise DataError(f"{path}: malformed, make the dataset again: a part is named twice")

    info = DatasetInfo(**values, default_as_of_ns=moment)
    manifest = DatasetManifest(info, file.generation, file.file, parts)
    if content_id(manifest.info, parts.values()) != manifest.info.content_id:
        raise DataError(
            f"{path}: its content_id is not that of its parts: it was changed; make the dataset"
            " again"
        )

    return manifest
