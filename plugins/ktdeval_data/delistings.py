"""Read what holdings are worth after a delisting, as one figure or by code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.vendor_tables import read_table


def read_delistings(
    given: str | None, codes: Callable[[pd.Series], pd.Series], reading: ReadingOptions
) -> dict[str, float] | float | None:
    """Return the delisting return of all codes, or of each code in a file; None if none are given.
    `codes` converts the file's codes to the form used in the bars.

    Raises DataError if the file is unreadable, lacks a column, or has a code twice or without a
    return.
    """
    if given is None:
        return None

    try:
        return float(given)
    except ValueError:
        return _returns_of_file(Path(given), codes, reading)


def _returns_of_file(
    path: Path, codes: Callable[[pd.Series], pd.Series], reading: ReadingOptions
) -> dict[str, float]:
    table = read_table(path, ["code", "return"], [], {}, reading=reading.beside("delistings"))
    returns: dict[str, float] = {}
    for code, value in zip(codes(table["code"]), table["return"], strict=True):
        if code in returns:
            raise DataError(f"{path}: code {code} has two returns; leave one out")
        if pd.isna(value):
            raise DataError(f"{path}: code {code} has no return; write -0.3, or leave the row out")

        returns[str(code)] = float(value)

    return returns
