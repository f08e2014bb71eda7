"""Decide by signs, names and sizes whether numbers are percentages or fractions, and record the
decision in a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_judge.readers.role_table import RoleTable

_NAMED = re.compile(r"%|\bpct\b|percent|_pct$|pct$", re.IGNORECASE)
_MOST = 1.001  #: largest weight that is a share of the account, allowing for rounding
#: if weights are percentages, the largest sum for one day is in this range
_PER_CENT = (90.0, 100.5)
_LARGE_SPREAD = 0.25  #: standard deviation above which returns are percentages
_SMALL_SPREAD = 0.1  #: standard deviation below which returns are fractions
_TREND = 0.8  #: lag-1 autocorrelation above which numbers are levels, not returns
_FEW = 10


def weights_as_shares(
    table: RoleTable,
    weights: pd.Series,
    column: str,
    sums_of: Callable[[RoleTable, pd.Series], pd.Series],
) -> pd.Series:
    """Return weights as shares of the account. `sums_of` returns the daily sums of absolute
    weights. Raises DataError if the weights are neither shares nor percentages.
    """
    has_signs = table.table.cells[column].str.contains("%").any()
    are_shares = weights.abs().max() <= _MOST and not _NAMED.search(column)
    if has_signs or are_shares:
        _check_largest(table, weights, column)
        return weights

    largest = float(sums_of(table, weights).max())
    low, high = _PER_CENT
    if _NAMED.search(column) or low <= largest <= high:
        table.note(f"Weights are read as per cent: the largest sum of a day is {largest:.4g}.")
        return weights / 100.0
    _check_largest(table, weights, column)
    return weights


def _check_largest(table: RoleTable, weights: pd.Series, column: str) -> None:
    is_large = weights.abs() > _MOST
    if is_large.any():
        row = int(is_large.to_numpy().argmax())
        words = (
            f"{weights.iloc[row]:g} is more than the whole account; write fractions, such as 0.05 "
            "for 5 %"
        )
        table.refuse(row, column, words)


def per_cent_of_returns(table: RoleTable, role: str, column: str, numbers: pd.Series) -> pd.Series:
    """Return returns as fractions, and record the decision in a note. Raises DataError if the sizes
    do not show whether the returns are percentages, or if the numbers are levels.
    """
    if table.table.cells[column].str.contains("%").any() or role == "return fraction":
        return numbers
    if role == "return percent" or _NAMED.search(column):
        table.note(f"Returns of {column!r} are read as per cent, by its name.")
        return numbers / 100.0
    if role == "cumulative return":
        table.note(f"{column!r} is read as the return since the start, as a fraction.")
        return numbers

    _check_levels(table, column, numbers)
    spread = float(numbers.std(ddof=0))
    if spread <= _SMALL_SPREAD:
        table.note(f"Returns of {column!r} are read as fractions, by their size.")
        return numbers
    if spread >= _LARGE_SPREAD:
        table.note(f"Returns of {column!r} are read as per cent, by their size.")
        return numbers / 100.0
    raise DataError(
        f"{table.place}: column {column!r}: returns of this size may be fractions or per cent; "
        f"choose: --map return_fraction={column!r} or --map return_percent={column!r}"
    )


def _check_levels(table: RoleTable, column: str, numbers: pd.Series) -> None:
    values = numbers.to_numpy()
    if len(values) < _FEW or np.ptp(values[1:]) == 0 or np.ptp(values[:-1]) == 0:
        return
    # ranks, because a single large return correlates with its neighbours
    ranks = numbers.rank().to_numpy()
    trend = float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1])
    if trend > _TREND:
        raise DataError(
            f"{table.place}: column {column!r}: neighbouring values are alike, like account "
            f"values or returns since the start; choose: --map nav={column!r}, --map "
            f"cumulative_return={column!r} or --map"
            f" return_fraction={column!r}"
        )
