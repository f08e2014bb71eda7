"""Tables of dated events that accompany prices, such as factors, splits and exchange rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_tables.days import parse_days
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.row_places import place
from ktdeval_tables.vendor_tables import read_table


def read_events(
    path: str,
    key: str,
    value: str,
    mapping: Mapping[str, str],
    form: Callable[..., pd.Series],
    reading: ReadingOptions | None = None,
) -> pd.DataFrame:
    """Read a table of dated events with the columns date, `key` and `value`, sorted by date. `form`
    normalises the keys.

    Raises DataError if a cell is missing or invalid, or if a key has two rows on one day.
    """
    table = read_table(Path(path), ["date", key, value], [], mapping, reading=reading)
    return as_events(table, key, value, path, form, reading or ReadingOptions())


def as_events(
    table: pd.DataFrame,
    key: str,
    value: str,
    path: str,
    form: Callable[..., pd.Series],
    reading: ReadingOptions,
) -> pd.DataFrame:
    """Return a table of dated events, sorted by date and checked as in `read_events`."""
    absent = table[["date", key]].isna().any(axis=1)
    table[key] = form(table[key])
    table["date"] = parse_days(table["date"], f"{path}: date", reading.days).astype(
        "datetime64[ns]"
    )
    _check_differing(table, ["date", key], value, path)
    is_valid = (table[value] > 0) & np.isfinite(table[value])
    bad = absent | ~is_valid | table[["date", key]].duplicated()
    if bad.any():
        what, day, number = table.loc[bad, [key, "date", value]].iloc[0]
        where = f"{path}: {what} {str(day)[:10]}: {value} {number:g}"
        raise DataError(f"{where}: each row has a {key}, a day of its own and a {value} above 0")

    return table.sort_values("date", kind="stable", ignore_index=True)


def _check_differing(table: pd.DataFrame, keys: list[str], value: str, path: str) -> None:
    """Raise DataError, showing both rows, if two rows with the same keys have different values."""
    again = table[keys].duplicated(keep=False) & ~table[[*keys, value]].duplicated(keep=False)
    again &= table[keys].notna().all(axis=1)
    if not again.any():
        return

    first = table.loc[table.index[again][0], keys]
    own = np.flatnonzero((table[keys] == first).all(axis=1))[:2]
    shown = [f"{value} {table[value].iloc[row]:g} ({place(table, row)})" for row in own.tolist()]
    what = f"{first[keys[1]]} {str(first[keys[0]])[:10]}"
    both = " and ".join(shown)
    raise DataError(f"{path}: {what}: {both}: each row has a day of its own; keep one")
