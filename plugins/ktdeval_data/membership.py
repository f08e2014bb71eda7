"""Read index membership by day, and dated names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_data.bar_column_checks import refuse_lost_zeros
from ktdeval_data.instruments import Listing
from ktdeval_tables.codes import listed_in, plain_code
from ktdeval_tables.days import ISO, DayForm, parse_days
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.vendor_tables import index_code, normalise_codes, read_table, with_texts

_OPEN_START = np.datetime64("1900-01-01")
OPEN_END = np.datetime64("2200-01-01")


def known_days(
    table: pd.DataFrame, column: str, where: Path | str, form: DayForm = ISO
) -> pd.Series:
    """Return the days in a column. Raises DataError if a cell is empty, or not a day."""
    days = parse_days(table[column], f"{where}: {column}", form)
    missing = int(days.isna().sum())
    if missing:
        raise DataError(f"{where}: {missing} rows have no {column}; fill it in or remove the rows")
    return days


def last_days(table: pd.DataFrame, path: Path | str, reading: ReadingOptions) -> pd.Series:
    """Return the days in the column `out_date`, or `OPEN_END` where a cell or the whole column is
    missing.
    """
    if "out_date" not in table:
        return pd.Series(pd.NaT, index=table.index).fillna(OPEN_END)
    return parse_days(table["out_date"], f"{path}: out_date", reading.days).fillna(OPEN_END)


def read_members(
    path: Path,
    mapping: Mapping[str, str],
    benchmark_code: str,
    listing: Listing,
    reading: ReadingOptions | None = None,
) -> pd.DataFrame:
    """Read membership intervals from a file with intervals or dated lists."""
    how = (reading or ReadingOptions()).beside("members")
    optional = ["date", "out_date", "index_code"]
    table = _each_code(read_table(path, ["code", "in_date|date"], optional, mapping, reading=how))
    if "index_code" in table:
        is_own = [code == benchmark_code for code in index_codes(table["index_code"], how)]
        table = table[is_own]

    if table.empty:
        raise DataError(f"{path}: no members of {benchmark_code}")

    if listing.venues[listing.default.venue].has_boards and not listing.code_width:
        refuse_lost_zeros(table["code"], str(path))

    table["code"] = listing.codes(table["code"])
    if "in_date" in table:
        first = known_days(table, "in_date", path, how.days)
        if "out_date" not in table:
            why = "it lacks members that left before"
            how.note(f"{path.name} has no last days of members: {why}, unless each has its row")

        last = last_days(table, path, how)
        spans = pd.DataFrame({"code": table["code"], "first": first, "last": last})
        return spans.reset_index(drop=True)

    return intervals(table["code"], known_days(table, "date", path, how.days))


def _each_code(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one row per code, where a cell of the original may list several codes."""
    lists = table["code"].map(lambda cell: listed_in(cell) if isinstance(cell, str) else [cell])
    if not (lists.map(len) > 1).any():
        return table

    # Rows keep their numbers, which errors use to find a row's line in its file.
    return table.assign(code=lists.map(lambda codes: codes or [np.nan])).explode("code")


def index_codes(column: pd.Series, reading: ReadingOptions) -> list[str]:
    """Return the normalised codes in an index column."""
    return [index_code(plain_code(str(text), reading.code_width)) for text in column]


def intervals(codes: pd.Series, dates: pd.Series) -> pd.DataFrame:
    """Return intervals from dated lists. A list is valid from its day to the day before the next
    list. The last list is valid without end.
    """
    starts = np.sort(dates.unique())
    ends = np.append(starts[1:] - np.timedelta64(1, "D"), OPEN_END).astype("datetime64[ns]")
    list_index = np.searchsorted(starts, dates.to_numpy())
    table = pd.DataFrame({"code": codes.to_numpy(), "list": list_index})
    table = table.drop_duplicates().sort_values(["code", "list"])

    # A code in consecutive lists has a single interval.
    is_new_code = table["code"] != table["code"].shift()
    is_new_run = is_new_code | (table["list"] != table["list"].shift() + 1)
    runs = table.groupby(is_new_run.cumsum()).agg(
        code=("code", "first"), first=("list", "first"), last=("list", "last")
    )

    return pd.DataFrame(
        {
            "code": runs["code"].to_numpy(),
            "first": starts[runs["first"]],
            "last": ends[runs["last"]],
        }
    )


def read_names(
    path: str | None,
    mapping: Mapping[str, str],
    codes: Callable[[pd.Series], pd.Series] = normalise_codes,
    reading: ReadingOptions | None = None,
) -> pd.DataFrame:
    """Read dated names: code, first, last, name and code_then, with one row per date range. Empty
    without a file.
    """
    if path is None or not path:
        return pd.DataFrame(columns=["code", "first", "last", "name", "code_then"])

    how = (reading or ReadingOptions()).beside("names")
    table = read_table(
        Path(path), ["code", "name", "in_date"], ["out_date", "code_then"], mapping, reading=how
    )
    first = parse_days(table["in_date"], f"{path}: in_date", how.days)
    code_then = table["code"]
    if "code_then" in table:
        code_then = table["code_then"].fillna(table["code"])

    names = pd.DataFrame(
        {
            "code": codes(table["code"]),
            "first": first.fillna(_OPEN_START),
            "last": last_days(table, path, how),
            "name": table["name"].fillna(""),
            "code_then": codes(code_then),
        }
    )

    return _with_latest_codes(names).drop_duplicates().reset_index(drop=True)


def _with_latest_codes(names: pd.DataFrame) -> pd.DataFrame:
    """Return names in which an asset that was renamed twice has its latest code in all rows, also
    if each row only states a code and the one before. A code that some row gives to an asset of its
    own stays.
    """
    renewed = renewed_codes(names)
    own = set(names["code"][names["code"] == names["code_then"]])
    latest = {}
    for code in set(names["code"]):
        chain = [code]
        while chain[-1] not in own and renewed.get(chain[-1], code) not in chain:
            chain.append(renewed[chain[-1]])
        latest[code] = chain[-1]

    return names.assign(code=names["code"].map(latest))


def renewed_codes(names: pd.DataFrame) -> dict[str, str]:
    """Return the current code of each former code."""
    renewed = {}
    for then, code in zip(names["code_then"], names["code"], strict=True):
        if then != code:
            renewed[then] = code

    return renewed


def replace_former_codes(table: pd.DataFrame, names: pd.DataFrame) -> pd.DataFrame:
    """Return the table with former codes of renumbered assets replaced by their current codes."""
    renewed = renewed_codes(names)
    if renewed:
        table["code"] = with_texts(table["code"], lambda text: renewed.get(text, text))
    return table
