"""Origins of rows: the file and line that each row of a table was read from, for messages."""

from __future__ import annotations

import pandas as pd

_PLACES = "places"  # table attribute: for each source file, its name, number of rows and first line


def with_places(table: pd.DataFrame, files: list[tuple[str, int, int]]) -> pd.DataFrame:
    """Return a table that records which lines of which files its rows come from.

    `files`: for each file, its name, its number of rows, and the line of its first row (0 for a
    file that is not text).
    """
    table.attrs[_PLACES] = files
    return table


def place(table: pd.DataFrame, position: int) -> str:
    """Return the origin of a row, such as `line 5 of bars.csv`, as far as it is known."""
    number = int(table.index[position])
    for name, count, first in table.attrs.get(_PLACES, ()):
        if number >= count:
            number -= count
            continue

        if first:
            return f"line {number + first} of {name}"
        return f"row {number + 1} of {name}"

    return f"row {int(table.index[position]) + 1}"
