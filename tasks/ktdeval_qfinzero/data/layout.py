"""Layout of a dataset folder, and the manifest that names its files.

A dataset is a set of parts. A part has a key, such as `prices/stock/minute/AVLN/2025`, and a file
of rows. The file's name is the key with a suffix; from the first update on, it also has the number
of the generation that wrote it. The identity of a dataset is a hash over the rows of its parts,
never over the bytes of their files, which versions of a library write differently.
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
from ktdeval.values import JsonValue, Value, content_hash, decode_json, dumps_pretty, to_plain
from ktdeval_qfinzero.data.rows import AssetClass, DatasetInfo, Resolution
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.timestamps import day_of, moment_text, parse_moment
from ktdeval_qfinzero.trading_hours import DEFAULT, trading_hours

FORMAT = "ktdeval-qfinzero-dataset"
VERSION = 1
MANIFEST = "manifest.json"
EVENTS = "events"
NEWS = "news"
TableName = Literal[
    "symbols", "contracts", "rates", "dividends", "splits", "borrow", "deals", "events", "news"
]
SINGLE_TABLES: tuple[TableName, ...] = (
    "symbols",
    "rates",
    "dividends",
    "splits",
    "borrow",
    "events",
    "news",
)
"""Tables with one file in every dataset. Contracts have a file for each underlying; deals have one
only if there are deals.
"""

_SYMBOL = r"[A-Z0-9^][A-Z0-9_^=~]{0,15}"
_BARS = re.compile(rf"prices/(stock|option|crypto)/(day|minute)/({_SYMBOL})/(\d{{4}})")
_CONTRACTS = re.compile(rf"tables/contracts/({_SYMBOL})")
_KEY = re.compile(
    rf"{_BARS.pattern}|{_CONTRACTS.pattern}|tables/({'|'.join(SINGLE_TABLES[:-2])}|deals)|{EVENTS}|{NEWS}"
)
_FILE = re.compile(r"(.+?)(?:-(\d{4,9}))?(\.parquet|\.sqlite)")
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, order=True)
class BarFile:
    """File of bars, by what is in it."""

    asset_class: AssetClass
    resolution: Resolution
    symbol: str  #: ticker; a file of options has all contracts with this root in their symbols
    year: int  #: calendar year in UTC in which the bars start

    @property
    def key(self) -> str:
        """Key of its part."""
        folder = f"prices/{self.asset_class}/{self.resolution}"
        return f"{folder}/{path_name(self.symbol)}/{self.year:04d}"


class Part(Value, frozen=True):
    """Part of a dataset, and its file."""

    key: str
    file: str  #: path relative to the folder, with slashes
    bytes: int  #: size of the file
    sha256: _Hash  #: of the file
    rows: int  #: number of rows
    content: _Hash  #: SHA-256 over the rows in canonical order and form
    first_ns: int = 0  #: start of the first bar; 0 for tables
    last_ns: int = 0  #: start of the last bar; 0 for tables

    def __post_init__(self) -> None:
        # A manifest may come from a stranger: its paths must not lead out of the folder.
        if generation_of(self.file) is None or not self.file.startswith(self.key):
            raise ValueError("expected the name of a part's file")


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """Manifest of a folder."""

    info: DatasetInfo  #: description of the dataset
    generation: int  #: 1, and one more with each update
    parts: Mapping[str, Part]  #: by key

    def bar_files(self) -> dict[BarFile, Part]:
        """Return the parts with bars."""
        found: dict[BarFile, Part] = {}
        for key, part in self.parts.items():
            bar_file = bar_file_of(key)
            if bar_file is not None:
                found[bar_file] = part

        return found


def path_name(symbol: str) -> str:
    """Return a ticker as the name of a folder: dots become underscores, and hyphens tildes, which
    no ticker has. Raises DataError if it is not a ticker.
    """
    if not TICKER.fullmatch(symbol):
        raise DataError(
            f"{symbol[:40]!r}: expected a ticker: up to 16 of capitals, digits and .-^=, such as"
            " 600519.SH"
        )
    return symbol.replace(".", "_").replace("-", "~")


def _ticker(name: str) -> str:
    return name.replace("_", ".").replace("~", "-")


def bar_file_of(key: str) -> BarFile | None:
    """Return the file of bars with this key; None for keys of tables."""
    match = _BARS.fullmatch(key)
    if match is None:
        return None

    asset_class, resolution, symbol, year = match.groups()
    return BarFile(
        asset_class=cast(AssetClass, asset_class),
        resolution=cast(Resolution, resolution),
        symbol=_ticker(symbol),
        year=int(year),
    )


def contracts_key(underlying: str) -> str:
    """Key of the contracts on an underlying."""
    return f"tables/contracts/{path_name(underlying)}"


def table_key(name: TableName) -> str:
    """Return the key of a table with one file; for contracts, the folder of their keys."""
    if name in (EVENTS, NEWS):
        return name
    return f"tables/{name}"


def table_of(key: str) -> tuple[TableName, str]:
    """Return the table of a key, which is not one of bars, and the underlying of contracts."""
    match = _CONTRACTS.fullmatch(key)
    if match is not None:
        return "contracts", _ticker(match[1])

    _, _, name = key.rpartition("/")
    return cast(TableName, name), ""


def file_name(key: str, generation: int) -> str:
    """Return the name of a part's file, as a generation writes it."""
    suffix = ".sqlite" if key in (EVENTS, NEWS) else ".parquet"
    if generation == 1:
        return f"{key}{suffix}"
    return f"{key}-{generation:04d}{suffix}"


def generation_of(name: str) -> int | None:
    """Return the generation that wrote a file, from its path relative to the folder; None if no
    part has a file of this name.
    """
    match = _FILE.fullmatch(name)
    if match is None or not _KEY.fullmatch(match[1]):
        return None

    # A name has one form: `-0001` and other suffixes than the key's are refused.
    generation = int(match[2] or 1)
    if name != file_name(match[1], generation):
        return None
    return generation


def content_id(info: DatasetInfo, parts: Iterable[Part]) -> str:
    """SHA-256 over a dataset's rows, its market, and the start of its clock; not over its name."""
    market: dict[str, JsonValue] = {"calendar": info.calendar, "currency": info.currency}
    if market == {"calendar": DEFAULT, "currency": "USD"}:
        # Omitted, so that datasets made before a manifest named its market keep their identity.
        market = {}

    contents: dict[str, JsonValue] = {part.key: part.content for part in parts}
    identity: dict[str, JsonValue] = {
        "format": FORMAT,
        "version": VERSION,
        "synthetic": info.synthetic,
        **market,
        "default_as_of": moment_text(info.default_as_of_ns),
        "parts": contents,
    }

    return content_hash(identity)


def make_manifest(info: DatasetInfo, generation: int, parts: Iterable[Part]) -> DatasetManifest:
    """Return the manifest of parts. Its days and its identity follow from the parts; those in
    `info` are replaced. Days are those of stocks if there are stocks, else of all bars; without
    minute bars, their first day is set after their last.

    Raises DataError if there are no daily bars, or if the clock starts before 1970 or after 2115.
    """
    trading_hours(info.calendar)
    if not 0 <= info.default_as_of_ns < 2**62:
        raise DataError("default_as_of: expected a moment from 1970 to 2115")

    by_key = {part.key: part for part in sorted(parts, key=lambda part: part.key)}
    days = _reach(by_key, "day")
    minutes = _reach(by_key, "minute")
    if days is None:
        raise DataError(
            "a dataset needs bars of days, and there are none: add a source with `resolution: day`"
        )

    first_day, last_day = days
    minute_first_day = last_day + timedelta(days=1)
    minute_last_day = last_day
    if minutes is not None:
        minute_first_day, minute_last_day = minutes

    complete = replace(
        info,
        content_id=content_id(info, by_key.values()),
        first_day=first_day,
        last_day=last_day,
        minute_first_day=minute_first_day,
        minute_last_day=minute_last_day,
    )

    return DatasetManifest(complete, generation, by_key)


def _reach(parts: Mapping[str, Part], resolution: Resolution) -> tuple[date, date] | None:
    """Return the first and last day of stocks' bars (of all bars if there are no stocks)."""
    of_stocks: list[Part] = []
    of_all: list[Part] = []
    for key, part in parts.items():
        file = bar_file_of(key)
        if file is None or file.resolution != resolution:
            continue

        of_all.append(part)
        if file.asset_class == "stock":
            of_stocks.append(part)

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
    parts: list[Part]


def manifest_text(manifest: DatasetManifest) -> str:
    """Return the text of a manifest's file."""
    values = {field.name: getattr(manifest.info, field.name) for field in fields(DatasetInfo)}
    default_as_of = moment_text(values.pop("default_as_of_ns"))
    info = _Info(default_as_of=default_as_of, **values)
    parts = list(manifest.parts.values())
    file = _ManifestFile(generation=manifest.generation, info=info, parts=parts)

    return dumps_pretty(to_plain(file))


def load_manifest(folder: Path) -> DatasetManifest:
    """Read a folder's manifest. Raises DataError if it is missing, malformed, changed, or of
    another version.
    """
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{folder}: not a dataset ({MANIFEST}: {error.strerror or error}); make or ingest one"
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
    manifest = DatasetManifest(info, file.generation, parts)
    if content_id(manifest.info, parts.values()) != manifest.info.content_id:
        raise DataError(
            f"{path}: its content_id is not that of its parts: it was changed; make the dataset"
            " again"
        )

    return manifest
