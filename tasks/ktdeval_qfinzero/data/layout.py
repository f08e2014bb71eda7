"""Layout of a dataset folder, and the manifest that names its files.

A dataset is a set of parts. A part has a key (`prices/stock/minute/AVLN/2025`) that says what it holds and a file that holds it:
the key itself with a suffix, and with the number of the update that wrote it where that is not the first. Identity is taken over
the content of the parts, never over the bytes of their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal, cast

import msgspec

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue, content_hash, dumps_pretty
from ktdeval.typed import Value, decode_json, to_plain
from ktdeval_qfinzero.data.rows import AssetClass, DatasetInfo, Resolution
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.moments import day_of, moment_text, parse_moment
from ktdeval_qfinzero.trading_hours import DEFAULT, trading_hours

FORMAT = "ktdeval-qfinzero-dataset"
VERSION = 1
MANIFEST = "manifest.json"
EVENTS, NEWS = "events", "news"
TableName = Literal["symbols", "contracts", "rates", "dividends", "splits", "borrow", "deals", "events", "news"]
SINGLE_TABLES: tuple[TableName, ...] = ("symbols", "rates", "dividends", "splits", "borrow", "events", "news")
"""Tables of one file each that every dataset has; contracts have one for each underlying, deals one where there are any."""

_SYMBOL = r"[A-Z0-9^][A-Z0-9_^=~]{0,15}"
_BARS = re.compile(rf"prices/(stock|option|crypto)/(day|minute)/({_SYMBOL})/(\d{{4}})")
_CONTRACTS = re.compile(rf"tables/contracts/({_SYMBOL})")
_KEY = re.compile(rf"{_BARS.pattern}|{_CONTRACTS.pattern}|tables/({'|'.join(SINGLE_TABLES[:-2])}|deals)|{EVENTS}|{NEWS}")
_FILE = re.compile(r"(.+?)(?:-(\d{4,9}))?(\.parquet|\.sqlite)")
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, order=True)
class BarFile:
    """Bars that one file holds. `asset_class, resolution`: kind of bars."""

    asset_class: AssetClass
    resolution: Resolution
    symbol: str  #: ticker; of options the root of their OPRA symbols, and the file holds all of them
    year: int  #: calendar year in UTC in which the bars start

    @property
    def key(self) -> str:
        """Key of its part."""
        return f"prices/{self.asset_class}/{self.resolution}/{path_name(self.symbol)}/{self.year:04d}"


class Part(Value, frozen=True):
    """File of a dataset. `bytes, sha256`: of the file; `first_ns, last_ns`: starts of the first and last bar, else 0."""

    key: str  #: what it holds
    file: str  #: where, relative to the folder, with slashes
    bytes: int
    sha256: _Hash
    rows: int  #: how many rows it holds
    content: _Hash  #: SHA-256 over these rows in canonical order and form
    first_ns: int = 0
    last_ns: int = 0

    def __post_init__(self) -> None:
        # Paths of a folder that came from elsewhere lead nowhere else.
        if generation_of(self.file) is None or not self.file.startswith(self.key):
            raise ValueError("expected the name of a part's file")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a folder."""

    info: DatasetInfo  #: description of the dataset
    generation: int  #: 1, and one more with each update
    parts: Mapping[str, Part]  #: by key

    def bar_files(self) -> dict[BarFile, Part]:
        """Return the parts that hold bars."""
        return {bar_file: part for key, part in self.parts.items() if (bar_file := bar_file_of(key)) is not None}


def path_name(symbol: str) -> str:
    """Return a ticker as the name of a folder: a dot becomes an underscore and a hyphen a tilde, which no ticker has. Raises
    DataError: not a ticker.
    """
    if not TICKER.fullmatch(symbol):
        raise DataError(f"{symbol[:40]!r}: expected a ticker: up to 16 of capitals, digits and .-^=, such as 600519.SH")
    return symbol.replace(".", "_").replace("-", "~")


def _ticker(name: str) -> str:
    return name.replace("_", ".").replace("~", "-")


def bar_file_of(key: str) -> BarFile | None:
    """Return the bars that a key stands for; None of any other key."""
    match = _BARS.fullmatch(key)
    if match is None:
        return None
    asset_class, resolution, symbol, year = match.groups()
    return BarFile(cast(AssetClass, asset_class), cast(Resolution, resolution), _ticker(symbol), int(year))


def contracts_key(underlying: str) -> str:
    """Key of the contracts on an underlying."""
    return f"tables/contracts/{path_name(underlying)}"


def table_key(name: TableName) -> str:
    """Return the key of a table of one file; of contracts, where they are kept."""
    return name if name in (EVENTS, NEWS) else f"tables/{name}"


def table_of(key: str) -> tuple[TableName, str]:
    """Return the table that the part of a key, not of bars, belongs to, and the underlying of contracts."""
    match = _CONTRACTS.fullmatch(key)
    return ("contracts", _ticker(match[1])) if match else (cast(TableName, key.rpartition("/")[2]), "")


def file_name(key: str, generation: int) -> str:
    """Return the file of a part that a generation writes."""
    suffix = ".sqlite" if key in (EVENTS, NEWS) else ".parquet"
    return f"{key}{suffix}" if generation == 1 else f"{key}-{generation:04d}{suffix}"


def generation_of(name: str) -> int | None:
    """Return the generation that writes a file, by its path relative to the dataset's folder; None where it can be no part's."""
    match = _FILE.fullmatch(name)
    if match is None or not _KEY.fullmatch(match[1]):
        return None
    generation = int(match[2] or 1)
    return generation if name == file_name(match[1], generation) else None


def content_id(info: DatasetInfo, parts: Iterable[Part]) -> str:
    """SHA-256 over what a dataset holds and where its clock starts, not over its name."""
    moment, held = moment_text(info.default_as_of_ns), {part.key: part.content for part in parts}
    form: dict[str, JsonValue] = {"format": FORMAT, "version": VERSION, "synthetic": info.synthetic}
    market: dict[str, JsonValue] = {"calendar": info.calendar, "currency": info.currency}
    named = {} if market == {"calendar": DEFAULT, "currency": "USD"} else market
    return content_hash({**form, **named, "default_as_of": moment, "parts": held})


def described(info: DatasetInfo, generation: int, parts: Iterable[Part]) -> Manifest:
    """Return the manifest of parts: days and identity are read off them, whatever `info` says of these. Days are those of stocks
    where there are any, else of what there is; without bars of minutes their first day is after the last. Raises DataError: there
    are no day bars at all, or the clock starts outside the moments that data can have.
    """
    trading_hours(info.calendar)
    if not 0 <= info.default_as_of_ns < 2**62:
        raise DataError("default_as_of: expected a moment from 1970 to 2115")
    by_key = {part.key: part for part in sorted(parts, key=lambda part: part.key)}
    days, minutes = _reach(by_key, "day"), _reach(by_key, "minute")
    if days is None:
        raise DataError("a dataset needs bars of days, and there are none: add a source with `resolution: day`")
    first, last = minutes or (days[1] + timedelta(days=1), days[1])
    identity = content_id(info, by_key.values())
    named = replace(info, content_id=identity, first_day=days[0], last_day=days[1], minute_first_day=first, minute_last_day=last)
    return Manifest(named, generation, by_key)


def _reach(parts: Mapping[str, Part], resolution: Resolution) -> tuple[date, date] | None:
    files = [(bar_file_of(key), part) for key, part in parts.items()]
    of_kind = [(file, part) for file, part in files if file is not None and file.resolution == resolution]
    chosen = [part for file, part in of_kind if file.asset_class == "stock"] or [part for _, part in of_kind]
    if not chosen:
        return None
    return day_of(min(part.first_ns for part in chosen)), day_of(max(part.last_ns for part in chosen))


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
    """First fields that are read of a manifest, of any version."""

    format: Literal["ktdeval-qfinzero-dataset"]
    version: int


class _ManifestFile(Value, frozen=True, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    generation: Annotated[int, msgspec.Meta(ge=1)]
    info: _Info
    parts: list[Part]


def manifest_text(manifest: Manifest) -> str:
    """Return the manifest as its file has it."""
    values = {field.name: getattr(manifest.info, field.name) for field in fields(DatasetInfo)}
    info = _Info(default_as_of=moment_text(values.pop("default_as_of_ns")), **values)
    file = _ManifestFile(generation=manifest.generation, info=info, parts=list(manifest.parts.values()))
    return dumps_pretty(to_plain(file))


def load_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest. Raises DataError: there is none, or it is malformed, of another version, or changed."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{folder}: not a dataset ({MANIFEST}: {error.strerror or error}); make or ingest one") from error
    head = decode_json(data, _Head, f"{path}: not the manifest of a dataset; make or ingest one", DataError)
    if head.version != VERSION:
        raise DataError(f"{path}: format version {head.version}, expected {VERSION}; make the dataset again")
    file = decode_json(data, _ManifestFile, f"{path}: malformed, make the dataset again", DataError)
    parts = {part.key: part for part in file.parts}
    values = {field: getattr(file.info, field) for field in file.info.__struct_fields__ if field != "default_as_of"}
    try:
        moment = parse_moment(file.info.default_as_of, "default_as_of")
    except ServiceError as error:
        raise DataError(f"{path}: malformed, make the dataset again: {error}") from error
    if len(parts) != len(file.parts):
        raise DataError(f"{path}: malformed, make the dataset again: a part is named twice")
    manifest = Manifest(DatasetInfo(**values, default_as_of_ns=moment), file.generation, parts)
    if content_id(manifest.info, parts.values()) != manifest.info.content_id:
        raise DataError(f"{path}: its content_id is not that of its parts: it was changed; make the dataset again")
    return manifest
