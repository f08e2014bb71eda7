"""Read a file of splits, and derive adjustment factors for prices without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval_data.bar_column_checks import refuse_lost_zeros_beside
from ktdeval_tables.dated_events import as_events
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.readers.text_encoding import at_line, shown_cell
from ktdeval_tables.split_ratios import ratio_of
from ktdeval_tables.vendor_tables import read_table


def apply_splits(
    bars: pd.DataFrame,
    path: str,
    mapping: Mapping[str, str],
    codes: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions | None = None,
) -> str:
    """Fill missing adjustment factors in place from a file of splits; return a note.

    The file has code, date (the first day priced after the split), and either a ratio (`15` or
    `15:1`, or `0.1` or `1:10` for a one-for-ten reverse split) or the numbers of shares before and
    after the split, split_from and split_to. `codes` converts the file's codes to the form used in
    the bars. Splits before a code's first bar or after its last have no effect. Raises UsageError
    if the bars already have a factor; DataError if a ratio or day is invalid, or if a split is
    given twice.
    """
    if bars["factor"].notna().any():
        raise UsageError("--splits: the bars have a factor already; leave out one of the two")

    table = _read_splits(path, mapping, codes, reading or ReadingOptions(file="splits"))
    refuse_lost_zeros_beside(bars, table["code"], path)
    lives = bars.groupby("code", observed=True)["date"].agg(["min", "max"])
    inside = table.join(lives, on="code").query("min < date <= max")
    inside = inside.assign(factor=inside.groupby("code")["ratio"].cumprod())
    inside = inside.astype({"code": bars["code"].dtype})

    # A bar has the factor of the last split up to its day, and 1 before the first split.
    rows = bars[["code", "date"]].astype({"date": "datetime64[ns]"}).sort_values("date")
    matched = pd.merge_asof(rows, inside[["code", "date", "factor"]], on="date", by="code")
    bars["factor"] = matched["factor"].set_axis(rows.index).fillna(1.0)

    return f"factors are those of {len(inside)} splits in {Path(path).name}; dividends are in none"


def _read_splits(
    path: str,
    mapping: Mapping[str, str],
    codes: Callable[[pd.Series], pd.Series],
    reading: ReadingOptions,
) -> pd.DataFrame:
    """Read date, code and ratio, omitting rows without a split. Raises DataError if a cell is not a
    ratio, or as in `as_events`.
    """
    fields = ["date", "code", "ratio|split_to"]
    table = read_table(Path(path), fields, ["split_from"], mapping, reading=reading)
    if "ratio" in table:
        ratios = _ratios(table["ratio"], path)
    elif "split_from" in table:
        ratios = table["split_to"] / table["split_from"]
    else:
        raise DataError(
            f"{path}: no column for 'split_from', the shares before, next to"
            f" {reading.columns_of['split_to']!r}; name it: {reading.name_mapping_option({'split_from': 'COLUMN'})}"
        )

    table = table.assign(ratio=ratios.to_numpy(dtype=np.float64))

    # Tables with a row per day or per dividend have 0 or an empty cell on days without a split.
    is_empty = table["ratio"].isna() | (table["ratio"] == 0)
    is_one_of_several = table.groupby("code")["code"].transform("size") > 1
    left_out = is_empty & is_one_of_several
    if left_out.any():
        reading.note(f"{Path(path).name}: {int(left_out.sum())} rows have days without a split")

    events = table.loc[~left_out, ["date", "code", "ratio"]]
    return as_events(events, "code", "ratio", path, codes, reading)


def _ratios(cells: pd.Series, path: str) -> pd.Series:
    """Return ratios as numbers, NaN for empty cells. Raises DataError if a cell is not a ratio."""
    texts = cells.astype(object).where(cells.notna(), "").astype(str).str.strip()
    ratios = texts.map(ratio_of)
    bad = ratios.isna() & cells.notna()
    if bad.any():
        cell = texts[bad].iloc[0]
        expected = "expected new shares for an old one: 2, or 2:1 (0.1 or 1:10 for a reverse split)"
        raise DataError(f"{at_line(path, cell)}: ratio {shown_cell(cell)}, {expected}")

    return ratios
