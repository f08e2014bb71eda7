"""Bars of a board: arrays of stamps by symbols, read from the forms that repositories use."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, loads_untrusted
from ktdeval_published.clone import Clone
from ktdeval_published.recipe import Prices, Split

FIELDS = ("open", "high", "low", "close", "volume")
Array = npt.NDArray[np.float64]
Stamps = npt.NDArray[np.datetime64]


@dataclass(frozen=True, eq=False)
class BoardBars:
    """Bars of all symbols. A price that is missing is NaN; a price that the files state as zero is
    NaN too, and count_words in `zeros`.
    """

    stamps: Stamps  #: [T] seconds, as written in the files, sorted
    symbols: tuple[str, ...]
    open: Array  #: [T, N]
    high: Array
    low: Array
    close: Array
    volume: Array
    zeros: int = 0  #: closes stated as zero

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Column of each symbol."""
        return {symbol: index for index, symbol in enumerate(self.symbols)}

    @cached_property
    def days(self) -> Stamps:
        """Day of each bar. Shape: [T]."""
        return self.stamps.astype("datetime64[D]")

    @cached_property
    def day_rows(self) -> Mapping[np.datetime64, tuple[int, int]]:
        """First row and row after the last of each day."""
        days, first = np.unique(self.days, return_index=True)
        ends = np.append(first[1:], len(self.days))
        return {day: (int(a), int(b)) for day, a, b in zip(days, first, ends, strict=True)}

    @cached_property
    def last_close(self) -> Array:
        """Last known close at each bar. Shape: [T, N]; NaN before a symbol's first."""
        return np.asarray(pd.DataFrame(self.close).ffill().to_numpy())

    def with_splits(self, splits: tuple[Split, ...]) -> BoardBars:
        """Return bars whose prices before each split are divided by its ratio."""
        fields = {name: getattr(self, name).copy() for name in FIELDS}
        for split in splits:
            column = self.column.get(split.symbol)
            if column is None:
                raise DataError(f"splits: {split.symbol} is not among the prices")
            before = self.days < np.datetime64(split.day)
            for name in ("open", "high", "low", "close"):
                fields[name][before, column] /= split.ratio
            fields["volume"][before, column] *= split.ratio
        return replace(self, **fields)


def read_bars(clone: Clone, prices: Prices) -> BoardBars:
    """Read bars. Raises DataError for a missing file or column."""
    if prices.form == "alpha_vantage":
        return _read_alpha_vantage(clone, prices)
    if prices.form == "csv":
        return _read_csv(clone, prices)
    return _read_wide(clone, prices)


def _read_alpha_vantage(clone: Clone, prices: Prices) -> BoardBars:
    """Read one JSON file a symbol, with a series of bars by stamp."""
    parts = []
    for inside, places in clone.matches(prices.path):
        document = _parse(clone.read(inside), clone.root / inside)
        series = [part for name, part in document.items() if name.startswith("Time Series")]
        if len(series) != 1 or not isinstance(series[0], dict):
            raise DataError(f"{clone.root / inside}: expected one object `Time Series (…)`")

        symbol = places.get("symbol", "index") + prices.symbol_suffix
        parts.append(_series_frame(series[0], symbol, clone.root / inside))

    if not parts:
        raise DataError(f"{clone.root}: no file matches {prices.path}, which holds the prices")
    return _to_bars(pd.concat(parts, ignore_index=True), prices)


def _parse(data: bytes, where: Path) -> dict[str, JsonValue]:
    try:
        document = loads_untrusted(data)
    except ValueError as error:
        raise DataError(f"{where}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"{where}: expected a JSON object")
    return document


def _series_frame(series: Mapping[str, JsonValue], symbol: str, where: Path) -> pd.DataFrame:
    """Return a table of one symbol's bars. A key such as `1. open` or `1. buy price` is read as
    the field that it ends with.
    """
    names = {"buy price": "open", "sell price": "close"}
    rows = []
    for stamp, bar in series.items():
        if not isinstance(bar, dict):
            raise DataError(f"{where}: bar {stamp}: expected an object")
        row: dict[str, object] = {"stamp": stamp, "symbol": symbol}
        for key, value in bar.items():
            name = re.sub(r"^\d+[a-z]?\. ", "", key)
            row[names.get(name, name)] = value
        rows.append(row)
    return pd.DataFrame(rows)


def _read_csv(clone: Clone, prices: Prices) -> BoardBars:
    path = clone.path(prices.path)
    table = pd.read_csv(path, dtype=str, compression="infer")
    wanted = {role: prices.columns.get(role, role) for role in ("symbol", "stamp", *FIELDS)}
    missing = [name for role, name in wanted.items() if name not in table and role != "volume"]
    if missing:
        raise DataError(
            f"{path}: has no column {missing[0]!r}; its columns are {', '.join(table.columns[:12])}"
        )
    table = table.rename(columns={name: role for role, name in wanted.items()})
    return _to_bars(table, prices)


def _to_bars(table: pd.DataFrame, prices: Prices) -> BoardBars:
    """Return bars from a table with the columns symbol, stamp and the fields."""
    for name in FIELDS:
        if name not in table:
            table[name] = np.nan
        table[name] = pd.to_numeric(table[name], errors="coerce")

    text = table["stamp"].astype(str).str.strip()
    form = "%Y%m%d" if text.str.fullmatch(r"\d{8}").all() else "ISO8601"
    table["stamp"] = pd.to_datetime(text, format=form)
    if table.duplicated(["stamp", "symbol"]).any():
        table = table.drop_duplicates(["stamp", "symbol"], keep="last")

    wide = table.pivot(index="stamp", columns="symbol", values=list(FIELDS)).sort_index()
    symbols = tuple(str(symbol) for symbol in wide["close"].columns)
    fields = {name: wide[name].to_numpy(float) for name in FIELDS}
    return _clean(wide.index, symbols, fields, prices.volume_unit)


def _read_wide(clone: Clone, prices: Prices) -> BoardBars:
    """Read one Parquet table a field: days by symbols."""
    fields: dict[str, Array] = {}
    index: pd.DatetimeIndex | None = None
    symbols: tuple[str, ...] = ()
    for name in FIELDS:
        inside = prices.path.replace("{field}", name)
        table = pd.read_parquet(io.BytesIO(clone.read(inside))).sort_index()
        found = tuple(str(column) for column in table.columns)
        if index is not None and (not table.index.equals(index) or found != symbols):
            raise DataError(f"{clone.root / inside}: has other days or names than the first table")
        index, symbols = pd.DatetimeIndex(table.index), found
        fields[name] = table.to_numpy(float)

    assert index is not None, "there are fields"
    return _clean(index, symbols, fields, prices.volume_unit)


def _clean(
    index: pd.Index, symbols: tuple[str, ...], fields: dict[str, Array], unit: float
) -> BoardBars:
    zeros = int((fields["close"] == 0).sum())
    for name in ("open", "high", "low", "close"):
        fields[name] = np.where(fields[name] > 0, fields[name], np.nan)
    fields["volume"] = fields["volume"] * unit
    stamps = index.to_numpy().astype("datetime64[s]")
    return BoardBars(stamps=stamps, symbols=symbols, zeros=zeros, **fields)
