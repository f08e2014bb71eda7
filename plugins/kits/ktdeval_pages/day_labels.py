"""Choose which days a chart labels below its axis, so that dates do not overlap."""

from __future__ import annotations

from itertools import pairwise

MAX_DATES = 4
#: minimum distance of two dates as a fraction of the axis: a date takes a fifth of the narrowest
#: chart; the first label begins at its day, the others are centred
_MIN_DISTANCE = 0.32


def dated_positions(days: int) -> list[int]:
    """Return the positions of the days to label, among `days` (at least one): the first, the last
    and as many evenly spaced days between them, up to four, as fit.

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
