"""Chooses which days a chart labels below its axis, so that dates do not overlap."""

from __future__ import annotations

from itertools import pairwise

MAX_DATES = 4
#: minimum distance between two dates as a fraction of the axis; on the narrowest chart, a date
#: takes up a fifth of the axis, and only the first label begins at its day while the others are
#: centred
_MIN_DISTANCE = 0.32


def dated_positions(days: int) -> list[int]:
    """Return the positions of the days to label among `days`, which must be at least 1. The first
    and last days are always labelled, and evenly spaced days between them as far as they fit, up to
    four labels in total.

    Example:
        dated_positions(5)  # [0, 2, 4]
    """
    last = days - 1
    for count in range(MAX_DATES, 2, -1):
        positions = [round(last * index / (count - 1)) for index in range(count)]
        distances = [right - left for left, right in pairwise(positions)]
        if min(distances) >= _MIN_DISTANCE * last and min(distances) > 0:
            return positions

    return sorted({0, last})
