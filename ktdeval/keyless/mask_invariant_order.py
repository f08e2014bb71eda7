"""Order the rows of a table by figures that no mask changes. Rule-based models use this order to
break ties in their own score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ktdeval.values.tie_breaking import group_by_place, places

Row = Mapping[str, Any]  # one row of a table, by column name

MASKED_FIGURES = frozenset({
    *("open", "high", "low", "close", "volume", "last_close"),
    *("open_cny", "high_cny", "low_cny", "close_cny", "last_close_cny", "volume_shares"),
    *("shares", "locked_shares"),
})  # fmt: skip
"""Columns that a mask may rescale (`rebase_prices`); all others that hold numbers break ties."""


def standing(rows: Sequence[Row], scores: Sequence[float] = ()) -> list[list[Row]]:
    """Return groups of rows, best first. Rows are ordered by `scores`, highest first (empty: all
    equal), then by the figures that no mask changes, with columns in alphabetical order and lower
    values first. Rows within a group are equal in all of them.
    """
    if not rows:
        return []

    # Sorted, so that the result does not depend on which row comes first.
    columns = sorted(set(chain.from_iterable(rows)) - MASKED_FIGURES)

    keys: list[Sequence[float]] = []
    if scores:
        keys.append(scores)

    for name in columns:
        keys.append([-_number_or_nan(row.get(name)) for row in rows])

    return group_by_place(rows, places(keys))


def places_of(groups: Iterable[Iterable[Row]]) -> Mapping[str, int]:
    """Return the rank of each stock, starting at 0 and shared within a group."""
    placed = {}
    for place, group in enumerate(groups):
        for row in group:
            placed[row["stock_id"]] = place
    return placed


def _number_or_nan(value: object) -> float:
    """Return a figure from a table; NaN for a word, a flag or an undefined value."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return math.nan
    return float(value)
