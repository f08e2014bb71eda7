"""Sources for the days of a test: a folder into which files are renamed, a provider that fetches
the days, or a stored market for rehearsals.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from msgspec import structs

from ktdeval.errors import ConfigError, DataError, KtdevalError, TooEarlyError, wrap_os_error
from ktdeval.market import BAR_FIELDS, BoolArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import open_snapshot
from ktdeval.values import (
    JsonValue,
    build_params,
    decode_json,
    near_matches,
    option,
    read_plain,
    user_path,
)
from ktdeval_live.days.market_increments import Bar, Increment, Item
from ktdeval_live.plan import PlannedMarket
from ktdeval_tables.readers.rows import TableFile, TableShape, read_rows

_MAX_BYTES = 256 * 2**20
_NEEDED = ("code", "open", "high", "low", "close", "volume")
_OPTIONAL = ("amount", "factor")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Days fetched before a given day to compute its factor change. The longer span is used if an asset
# was halted.
_SPANS = (np.timedelta64(15, "D"), np.timedelta64(400, "D"))
_OWN_ARGS = ("first", "last", "answers")


class DaySource(Protocol):
    """Source for a market's days."""

    def day(self, market: str, day: str, now: datetime) -> Increment | None:
        """Return all rows that the source currently has for a day; None if it does not have the day
        yet.

        Raises DataError if the rows can't be read.
        """


@dataclass(frozen=True)
class DropParams:
    """Folder to be watched."""

    folder: str = option(
        help=(
            "folder with bars-DAY.csv, and where there are any indices-DAY.csv and"
            " documents-DAY.jsonl, relative to the folder of the test; rename a file into it when it"
            " is whole, the bars last"
        )
    )


class DropFolder:
    """Files written by another program: `bars-2026-01-05.csv` with the columns code, open, high,
    low, close, volume and, if known, amount and factor; `indices-…csv` with code and close;
    `documents-…jsonl` with one item per line. A file is read as soon as its name exists, so it must
    be written elsewhere and then renamed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def day(self, market: str, day: str, now: datetime) -> Increment | None:
        """Return all rows of a day; None if its bars file does not exist yet.

        Raises DataError if the folder does not exist, or a file can't be read.
        """
        if not self._folder.is_dir():
            raise DataError(
                f"{market}: the drop folder {self._folder} is not there; create it, or move it back"
            )

        bars = self._folder / f"bars-{day}.csv"
        if not bars.is_file():
            return None

        indices = self._folder / f"indices-{day}.csv"
        documents = self._folder / f"documents-{day}.jsonl"
        return Increment(
            market=market,
            day=day,
            known_at=now,
            bars=_read_bars(bars),
            indices=_read_indices(indices),
            documents=_read_documents(documents),
        )


def _read_bars(path: Path) -> tuple[Bar, ...]:
    bars = []
    for where, row in _csv_rows(path, _NEEDED, _OPTIONAL):
        values: dict[str, Any] = {"code": row["code"]}
        for name in _NEEDED[1:]:
            values[name] = _parse_number(row, name, where)
        for name in _OPTIONAL:
            if row.get(name, "") != "":
                values[name] = _parse_number(row, name, where)

        bars.append(Bar(**values))

    return tuple(sorted(bars, key=lambda bar: bar.code))


def _read_indices(path: Path) -> dict[str, float]:
    if not path.is_file():
        return {}

    levels = {}
    for where, row in _csv_rows(path, ("code", "close"), ()):
        levels[row["code"]] = _parse_number(row, "close", where)
    return levels


def _read_documents(path: Path) -> tuple[Item, ...]:
    if not path.is_file():
        return ()

    items = []
    for number, line in enumerate(_read_document_file(path).splitlines(), 1):
        if line.strip():
            items.append(decode_json(line, Item, f"{path}: line {number}", DataError))
    return tuple(items)


def _read_document_file(path: Path) -> bytes:
    with wrap_os_error(f"{path}: can't be read", kind=DataError):
        return read_plain(path, _MAX_BYTES)


def _csv_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a CSV file, each with a string that locates it.

    Raises DataError if the file is not a CSV file with these columns, or if a code is invalid or
    repeated.
    """
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"{path}: is larger than {_MAX_BYTES >> 20} MiB; write one day only")

    shape = TableShape((*needed, *optional), tuple(needed), kinds=("csv",), must_end=True)
    table = TableFile(path, shape)
    lines: dict[str, int] = {}
    for row in read_rows(table):
        where = table.place(row.line)
        code = row.cells["code"]
        if not code or not code.isprintable() or code != code.strip():
            raise DataError(f"{where}: code: {code!r} is not a code")
        if code in lines:
            raise DataError(f"{where}: {code} is on line {lines[code]}, too; leave one out")

        lines[code] = row.line
        yield where, row.cells


def _parse_number(row: Mapping[str, str], name: str, where: str) -> float:
    """Parse a number written in plain digits. `float` would also accept 1_000 and digits in other
    scripts.
    """
    text = row[name]
    if not _PLAIN_NUMBER.fullmatch(text):
        raise DataError(f"{where}: {name}: {text!r} is not a number such as 1234.5")

    number = float(text)
    if not math.isfinite(number):
        raise DataError(f"{where}: {name}: {text!r} is too large")
    return number


class StoredDays:
    """Days of a completely stored market, for rehearsals on past days."""

    def __init__(self, snapshot: MarketSnapshot) -> None:
        self._snapshot = snapshot

    def day(self, market: str, day: str, now: datetime) -> Increment | None:
        """Return all rows of a day; empty if the market does not have the day."""
        rows = np.flatnonzero(self._snapshot.days == np.datetime64(day, "D"))
        if not len(rows):
            return Increment(market=market, day=day, known_at=now, bars=())

        row = int(rows[0])
        bars = []
        for column, code in enumerate(self._snapshot.codes):
            if np.isfinite(self._snapshot.close[row, column]):
                bars.append(self._bar(code, row, column))

        levels = {}
        for code, series in self._snapshot.indices.items():
            if np.isfinite(series[row]):
                levels[code] = float(series[row])

        return Increment(
            market=market,
            day=day,
            known_at=now,
            bars=tuple(bars),
            indices=levels,
            documents=self._documents(row, now),
        )

    def _bar(self, code: str, row: int, column: int) -> Bar:
        values: dict[str, float] = {}
        for name in BAR_FIELDS:
            value = float(getattr(self._snapshot, name)[row, column])
            if np.isfinite(value):
                values[name] = value
        return Bar(code=code, **values)

    def _documents(self, row: int, now: datetime) -> tuple[Item, ...]:
        """Return the documents for a day that are known by now. After an early close, the
        afternoon's documents arrive later.
        """
        view = self._snapshot.as_of(row).documents
        items = []
        for number in view.rows(1):
            document = view[int(number)]
            if document.known_at <= now:
                items.append(Item.of(document))
        return tuple(items)


class FetchedDays:
    """Days that a market data provider fetches from its vendor, each with a separate response.

    The adjustment factors restart with each response, so only their changes are used. Responses are
    not cached, since a cache would hide revisions.
    """

    def __init__(self, provider: str, args: Mapping[str, JsonValue], plugins: Plugins) -> None:
        self._provider = provider
        self._args = args
        self._plugins = plugins

    def day(self, market: str, day: str, now: datetime) -> Increment | None:
        """Return all rows of a day; None as long as the vendor does not have the day.

        Raises DataError if the vendor's response can't be read, or if it lacks an asset and gaps
        are not accepted.
        """
        found: Increment | None = None
        for span in _SPANS:
            snapshot = self._fetch(market, day, span)
            if snapshot is None:
                return None
            found = StoredDays(snapshot).day(market, day, now)
            if found is None or not found.bars:
                return None

            row = int(np.searchsorted(snapshot.days, np.datetime64(day, "D")))
            bars = [_change_factor(bar, snapshot, row) for bar in found.bars]
            found = structs.replace(found, bars=tuple(bars))
            if all(_bars_before(bar.code, snapshot, row).any() for bar in bars):
                break

        return found

    def _fetch(self, market: str, day: str, span: np.timedelta64) -> MarketSnapshot | None:
        """Return the days of a span that ends on `day`; None if the day is not over yet by the
        vendor's clock.
        """
        first = str(np.datetime64(day, "D") - span)
        with tempfile.TemporaryDirectory(prefix="ktdeval-answers-") as answers:
            args = {**self._args, "first": first, "last": day, "answers": answers}
            try:
                return self._plugins.make_snapshot(self._provider, args)
            except TooEarlyError:
                return None
            except KtdevalError as error:
                raise DataError(f"{market} {day}: {error}") from error


def _bars_before(code: str, snapshot: MarketSnapshot, row: int) -> BoolArray:
    """Return, for each day before a row, whether an asset has a bar, [rows]."""
    return np.isfinite(snapshot.close[:row, snapshot.asset_index[code]])


def _change_factor(bar: Bar, snapshot: MarketSnapshot, row: int) -> Bar:
    """Return a bar whose factor is replaced by its change since the previous bar. The change is 1
    for the first bar.
    """
    column = snapshot.asset_index[bar.code]
    before = np.flatnonzero(_bars_before(bar.code, snapshot, row))
    change = 1.0
    if bar.factor is not None and len(before):
        change = bar.factor / float(snapshot.factor[before[-1], column])
    return structs.replace(bar, factor=None, factor_change=change)


def make_source(market: PlannedMarket, kind: str, plugins: Plugins, home: Path) -> DaySource:
    """Return the source for a market of the test in the folder `home`.

    Raises ConfigError if no source has this name, or if the source can't provide future days.
    """
    where = f"source {market.source}"
    if market.source == "drop":
        params = build_params(DropParams, market.source_args, where)
        return DropFolder(home.absolute() / user_path(params.folder))

    if market.source == "stored":
        if kind != "rehearsal":
            raise ConfigError("source stored: has only past days; set kind: rehearsal")
        args = dict(market.source_args)
        data = str(args.pop("data", market.data))
        return StoredDays(open_snapshot(plugins, data, _data_args(args.get("data_args"), market)))

    providers = plugins.specs("data")
    if market.source not in providers:
        known = ("drop", "stored", *providers)
        raise ConfigError(
            f"source {market.source!r} is unknown{near_matches(market.source, known)}; use drop, or"
            " a provider that fetches (`ktdeval data` lists them)"
        )

    params_type = providers[market.source].params
    if params_type is None or not _fetches(params_type):
        raise ConfigError(
            f"{where}: does not fetch days; use drop, or a provider that fetches (`ktdeval data`"
            " lists them)"
        )

    _check_fetch_args(market.source_args, params_type, where)
    return FetchedDays(market.source, market.source_args, plugins)


def _fetches(params_type: type) -> bool:
    """Return whether a provider accepts the arguments that each step sets."""
    return set(_OWN_ARGS) <= {field.name for field in fields(params_type)}


def _check_fetch_args(args: Mapping[str, JsonValue], params_type: type, where: str) -> None:
    """Raise ConfigError if a provider's arguments are invalid, before the first day is fetched."""
    for name in _OWN_ARGS:
        if name in args:
            raise ConfigError(f"{where}: {name}: is set by each step; leave it out")

    build_params(params_type, {**args, **dict.fromkeys(_OWN_ARGS, "")}, where)


def _data_args(value: JsonValue, market: PlannedMarket) -> Mapping[str, JsonValue]:
    if isinstance(value, Mapping):
        return value
    return market.data_args
