"""File names of a stored snapshot, and readers for some of the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktdeval.errors import ConfigError, DataError
from ktdeval.market.snapshots.snapshot import DayArray
from ktdeval.market.venues.venue import Venue, parse_venue
from ktdeval.values.disk.decompression_limits import open_parquet
from ktdeval.values.documents.strict_json import JsonValue

MANIFEST = "manifest.json"
BARS = "bars.parquet"
ASSETS = "assets.parquet"
INDICES = "indices.parquet"
NAMES = "names.parquet"
DOCUMENTS = "documents.parquet"
ENTITIES = "entities.parquet"
MINUTES = "minutes.parquet"
PRICE_LIMITS = "price_limits.parquet"
QUOTES = "quotes.parquet"


def read_table(path: Path) -> pa.Table:
    """Read a whole Parquet table. Raises OSError or pa.ArrowException if it can't be read."""
    with open_parquet(path) as table:
        return table.read()


def read_texts(table: pa.Table, column: str) -> tuple[str, ...]:
    """Return a text column as strings."""
    return tuple(table[column].to_pylist())


def read_venues(venues: JsonValue) -> dict[str, Venue]:
    """Return the venues in a manifest; no venues if the entry is None. Raises ConfigError if they
    are not mappings.
    """
    if venues is None:
        return {}
    if not isinstance(venues, Mapping):
        raise ConfigError(f"{MANIFEST}: venues are not mappings")

    parsed = {}
    for name, rules in venues.items():
        if not isinstance(rules, Mapping):
            raise ConfigError(f"{MANIFEST}: venues are not mappings")

        parsed[name] = parse_venue(rules, f"{MANIFEST}: venue {name}")

    return parsed


def read_grid_axes(bars: pa.Table, codes: tuple[str, ...], folder: Path) -> DayArray:
    """Return the days of the bars table. Checks that the table has every code on every day, in
    order.
    """
    order = (
        f"{folder / BARS}: rows are not every code on every day, sorted by date and code; import"
        " the data again"
    )
    if not codes or bars.num_rows % len(codes):
        raise DataError(order)

    dates = bars["date"].to_numpy().astype("datetime64[D]").reshape(-1, len(codes))
    code_column = bars["code"].combine_chunks()
    if not pa.types.is_dictionary(code_column.type):
        code_column = code_column.dictionary_encode()

    # Parquet may have stored the codes in its own order: map them to columns of the grid.
    column_of = {code: column for column, code in enumerate(codes)}
    stored_codes = code_column.dictionary.to_pylist()
    columns_of = np.array([column_of.get(code, -1) for code in stored_codes], dtype=np.int64)
    columns = columns_of[code_column.indices.to_numpy()].reshape(dates.shape)
    if (dates != dates[:, :1]).any() or (columns != np.arange(len(codes))).any():
        raise DataError(order)

    return np.ascontiguousarray(dates[:, 0])


def read_indices(folder: Path, days: DayArray) -> dict[str, npt.NDArray[np.float64]]:
    """Return the levels of each index. Raises DataError if an index and the bars have different
    days.
    """
    table = read_table(folder / INDICES)
    codes = np.array(table["code"].to_pylist(), dtype=object)
    dates = _numbers(table["date"].cast(pa.date32()).cast(pa.int32())).astype("datetime64[D]")
    levels = _numbers(table["close"].cast(pa.float64()))
    indices = {}

    for code in sorted(set(codes)):
        rows = codes == code
        if not np.array_equal(dates[rows], days):
            raise DataError(
                f"{folder / INDICES}: {code} does not have the days of {BARS}; import the data"
                " again"
            )

        indices[code] = np.ascontiguousarray(levels[rows])

    return indices


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column of numbers; a missing one becomes NaN. Arrow's own `to_numpy` imports pandas,
    which takes longer than reading a stored market.
    """
    if column.null_count:
        return np.asarray(column.to_numpy())

    parts = [np.from_dlpack(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0)
