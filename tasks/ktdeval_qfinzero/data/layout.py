"""What lies where in a dataset folder, and the manifest that names it.

A dataset is a set of parts. A part has a key (`prices/stock/minute/AVLN/2025`) that says what it holds and a file that holds it:
the key itself with a suffix, and with the number of the update that wrote it where that is not the first. Identity is taken over
the content of the parts, never over the bytes of their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Literal, cast

from ktdeval.api import DataError, JsonValue, content_hash, dumps_pretty, loads_strict
from ktdeval_qfinzero.data.rows import AssetClass, Resolution
from ktdeval_qfinzero.data.stores import DatasetInfo
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.moments import day_of, moment_text, parse_day, parse_moment

FORMAT = "ktdeval-qfinzero-dataset"
VERSION = 1
MANIFEST = "manifest.json"
EVENTS, NEWS = "events", "news"
TableName = Literal["symbols", "contracts", "rates", "dividends", "splits", "borrow"]
SMALL_TABLES: tuple[TableName, ...] = ("symbols", "rates", "dividends", "splits", "borrow")
"""Tables of one file each; contracts have one for each underlying."""

_SYMBOL = r"[A-Z][A-Z0-9_]{0,9}"
_BARS = re.compile(rf"prices/(stock|option|crypto)/(day|minute)/({_SYMBOL})/(\d{{4}})")
_CONTRACTS = re.compile(rf"tables/contracts/({_SYMBOL})")
_KEY = re.compile(rf"{_BARS.pattern}|{_CONTRACTS.pattern}|tables/({'|'.join(SMALL_TABLES)})|{EVENTS}|{NEWS}")
_FILE = re.compile(r"(.+?)(?:-(\d{4,9}))?(\.parquet|\.sqlite)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class BarsPlace:
    """Which bars one file holds.

    Attributes:
        asset_class, resolution: kind of bars.
        symbol: ticker; of options the underlying's, and the file holds all of them.
        year: calendar year in UTC in which the bars start.
    """

    asset_class: AssetClass
    resolution: Resolution
    symbol: str
    year: int

    @property
    def key(self) -> str:
        """Its part's key."""
        return f"prices/{self.asset_class}/{self.resolution}/{path_name(self.symbol)}/{self.year:04d}"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a dataset.

    Attributes:
        key: what it holds.
        file: where, relative to the folder, with slashes.
        bytes, sha256: size and hash of the file.
        rows: how many rows it holds.
        content: SHA-256 over these rows in canonical order and form.
        first_ns, last_ns: starts of the first and last bar; 0 of anything else.
    """

    key: str
    file: str
    bytes: int
    sha256: str
    rows: int
    content: str
    first_ns: int = 0
    last_ns: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder says of itself.

    Attributes:
        info: the dataset's own words.
        generation: 1, and one more with each update.
        parts: by key.
    """

    info: DatasetInfo
    generation: int
    parts: Mapping[str, Part]

    def places(self) -> dict[BarsPlace, Part]:
        """The parts that hold bars."""
        found = ((read_place(key), part) for key, part in self.parts.items())
        return {place: part for place, part in found if place is not None}


def path_name(symbol: str) -> str:
    """A ticker as the name of a folder: a dot becomes an underscore, which no ticker has.

    Raises:
        DataError: not a ticker.
    """
    if not TICKER.fullmatch(symbol):
        raise DataError(f"{symbol[:40]!r}: expected a ticker: a capital, then up to nine capitals, digits and dots")
    return symbol.replace(".", "_")


def read_place(key: str) -> BarsPlace | None:
    """The place of a key of bars; None of any other key."""
    match = _BARS.fullmatch(key)
    if match is None:
        return None
    asset_class, resolution, symbol, year = match.groups()
    return BarsPlace(cast(AssetClass, asset_class), cast(Resolution, resolution), symbol.replace("_", "."), int(year))


def contracts_key(underlying: str) -> str:
    """Key of the contracts on an underlying."""
    return f"tables/contracts/{path_name(underlying)}"


def contracts_underlying(key: str) -> str | None:
    """The underlying of a key of contracts; None of any other key."""
    match = _CONTRACTS.fullmatch(key)
    return match[1].replace("_", ".") if match else None


def table_key(name: TableName) -> str:
    """Key of a small table."""
    return f"tables/{name}"


def file_name(key: str, generation: int) -> str:
    """The file of a part that a generation writes."""
    suffix = ".sqlite" if key in (EVENTS, NEWS) else ".parquet"
    return f"{key}{suffix}" if generation == 1 else f"{key}-{generation:04d}{suffix}"


def generation_of(name: str) -> int | None:
    """The generation that writes a file, by its path relative to the dataset's folder; None where it can be no part's."""
    match = _FILE.fullmatch(name)
    if match is None or not _KEY.fullmatch(match[1]):
        return None
    generation = int(match[2] or 1)
    return generation if name == file_name(match[1], generation) else None


def content_id(info: DatasetInfo, parts: Iterable[Part]) -> str:
    """SHA-256 over what a dataset holds and where its clock starts; its name is no part of it."""
    return content_hash(
        {
            "format": FORMAT,
            "version": VERSION,
            "synthetic": info.synthetic,
            "default_as_of": moment_text(info.default_as_of_ns),
            "parts": {part.key: part.content for part in parts},
        }
    )


def described(info: DatasetInfo, generation: int, parts: Iterable[Part]) -> Manifest:
    """The manifest of parts: days and identity are read off them, whatever `info` says of these.

    Days are those of stocks where there are any, else of what there is; without bars of minutes their first day is after the last.

    Raises:
        DataError: there are no day bars at all, or the clock starts at no moment that data can have.
    """
    if not 0 <= info.default_as_of_ns < 2**62:
        raise DataError("default_as_of: expected a moment from 1970 to 2115")
    by_key = {part.key: part for part in sorted(parts, key=lambda part: part.key)}
    days, minutes = _reach(by_key, "day"), _reach(by_key, "minute")
    if days is None:
        raise DataError("a dataset needs bars of days: there are none")
    first, last = minutes or (days[1] + timedelta(days=1), days[1])
    identity = content_id(info, by_key.values())
    named = DatasetInfo(info.name, info.synthetic, identity, *days, first, last, info.default_as_of_ns)
    return Manifest(named, generation, by_key)


def _reach(parts: Mapping[str, Part], resolution: Resolution) -> tuple[date, date] | None:
    places = [(read_place(key), part) for key, part in parts.items()]
    of_kind = [(place, part) for place, part in places if place is not None and place.resolution == resolution]
    chosen = [part for place, part in of_kind if place.asset_class == "stock"] or [part for _, part in of_kind]
    if not chosen:
        return None
    return day_of(min(part.first_ns for part in chosen)), day_of(max(part.last_ns for part in chosen))


def manifest_text(manifest: Manifest) -> str:
    """The manifest as its file has it."""
    info = {field.name: getattr(manifest.info, field.name) for field in fields(DatasetInfo)}
    told = {name: value.isoformat() if isinstance(value, date) else value for name, value in info.items()}
    del told["default_as_of_ns"]
    told["default_as_of"] = moment_text(manifest.info.default_as_of_ns)
    parts = [asdict(part) for part in manifest.parts.values()]
    return dumps_pretty({"format": FORMAT, "version": VERSION, "generation": manifest.generation, "info": told, "parts": parts})


def load_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest and see that it is consistent in itself.

    Raises:
        DataError: there is none, or it is malformed, of another version, or changed.
    """
    path = folder / MANIFEST
    try:
        stored = loads_strict(path.read_bytes())
    except OSError as error:
        raise DataError(f"{folder}: not a dataset ({MANIFEST}: {error.strerror or error}); make or ingest one") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON; make the dataset again") from error
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise DataError(f"{path}: not the manifest of a dataset; make or ingest one")
    if stored.get("version") != VERSION:
        raise DataError(f"{path}: format version {str(stored.get('version'))[:20]}, expected {VERSION}; make the dataset again")
    try:
        manifest = _read_manifest(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: malformed ({str(error)[:80]}); make the dataset again") from error
    if content_id(manifest.info, manifest.parts.values()) != manifest.info.content_id:
        raise DataError(f"{path}: its content_id is not that of its parts: it was changed; make the dataset again")
    return manifest


def _read_manifest(stored: Mapping[str, JsonValue]) -> Manifest:
    info, generation = dict(stored["info"]), stored["generation"]
    if type(generation) is not int or generation < 1:
        raise ValueError("generation")
    day_names = [field.name for field in fields(DatasetInfo) if field.name.endswith("_day")]
    days = {name: parse_day(_text(info[name]), name) for name in day_names}
    moment = parse_moment(_text(info["default_as_of"]), "default_as_of")
    name, synthetic, identity = info["name"], info["synthetic"], info["content_id"]
    if type(synthetic) is not bool:
        raise ValueError("synthetic")
    parts = [_read_part(item) for item in stored["parts"]]
    if len({part.key for part in parts}) != len(parts):
        raise ValueError("a part is named twice")
    told = DatasetInfo(_text(name), synthetic, _text(identity), **days, default_as_of_ns=moment)
    return Manifest(told, generation, {part.key: part for part in parts})


def _read_part(item: Mapping[str, JsonValue]) -> Part:
    """One part; paths of a folder that came from elsewhere lead nowhere else."""
    part = Part(**item)
    for name in ("key", "file", "sha256", "content"):
        _text(getattr(part, name))
    if generation_of(part.file) is None or not part.file.startswith(part.key):
        raise ValueError("a file's name")
    if not _SHA256.fullmatch(part.sha256) or not _SHA256.fullmatch(part.content):
        raise ValueError("a hash")
    if any(type(number) is not int for number in (part.bytes, part.rows, part.first_ns, part.last_ns)):
        raise ValueError("a number")
    return part


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
