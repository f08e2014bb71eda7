"""Sums, counts and maxima over trailing windows of a [rows, N] array, in a number of passes logarithmic in the window.

A sum over 20 rows is that of two sums over 10, and so on: like pairwise summation, and unlike a difference of two running
totals, it forgets what left the window. A price that was a thousand times higher a year ago leaves no rounding behind.
"""

from __future__ import annotations

import numpy as np

from ktdeval.market.snapshot import BoolArray, FloatArray


def trailing_sum(values: FloatArray, width: int) -> FloatArray:
    """[rows - width + 1, N] sums over `width` consecutive rows; entry i covers rows i … i + width - 1.

    Args:
        values: [rows, N] finite numbers, at least `width` rows.
        width: rows of a window, at least 1; for 1 the result is `values` itself.
    """
    if width == 1:
        return values
    half = trailing_sum(values, width // 2)
    length = len(values) - width + 1
    total = half[:length] + half[width // 2 :][:length]
    if width % 2:
        total += values[width - 1 :]
    return total


def trailing_count(flags: BoolArray, width: int) -> FloatArray:
    """[rows - width + 1, N] number of True among `width` consecutive rows, as floats.

    Args:
        flags: [rows, N].
        width: rows of a window, 1 to 255.
    """
    return trailing_sum(flags.view(np.uint8), width).astype(np.float64)


def trailing_maximum(values: FloatArray, width: int) -> FloatArray:
    """[rows - width + 1, N] maxima over `width` consecutive rows.

    Args:
        values: [rows, N] numbers without NaN.
        width: rows of a window, at least 1.
    """
    size = 1
    while size * 2 <= width:
        values = np.maximum(values[: len(values) - size], values[size:])
        size *= 2
    # Two overlapping windows of a power of two: a maximum may count a row twice.
    return np.maximum(values[: len(values) - (width - size)], values[width - size :])


def filled_forward(values: FloatArray, before: FloatArray | None = None) -> FloatArray:
    """Every NaN of [rows, N] replaced by the last number above it in its column.

    Args:
        values: [rows, N].
        before: [N] what stands above the first row; NaN (the default) where nothing does.
    """
    # Missing places column by column: a run of them ends where the row does not follow on the one before.
    column, row = np.divmod(np.flatnonzero(np.isnan(values).T), len(values))
    if not len(row):
        return values
    begins = np.ones(len(row), dtype=bool)
    begins[1:] = (row[1:] != row[:-1] + 1) | (column[1:] != column[:-1])
    source = (row[begins] - 1)[np.cumsum(begins) - 1]
    filled = values.copy()
    filled[row, column] = values[source, column]
    above = source < 0
    filled[row[above], column[above]] = np.nan if before is None else before[column[above]]
    return filled
