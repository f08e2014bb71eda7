"""One-to-one alignment of expected with predicted calls that is best in several respects, the first counting most, exactly.

The respects of a pair are folded into one whole number whose digits are far enough apart that no sum of the later ones outweighs
a unit of an earlier one; the assignment problem is then solved on whole numbers, so nothing is rounded. Python's integers have no
largest value, which a solver on floating-point numbers would need here.

Source of the solver: shortest augmenting paths with potentials (Jonker and Volgenant 1987, Computing 38; Crouse 2016, IEEE
Transactions on Aerospace and Electronic Systems 52(4)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import nlargest
from math import lcm

Pair = tuple[int, int]
Merits = Sequence[Fraction]


def align(rows: int, merits: Mapping[Pair, Merits]) -> dict[int, int]:
    """Align each of `rows` rows with at most one column, and each column with at most one row.
    `merits`: (row, column) -> merits of the pair, all of one length and at least 0; pairs that are absent can't be aligned. Of all
    alignments the one with the largest sum of first merits is taken, among those the one with the largest sum of second merits, and
    so on; among equals rows take columns of low number, row 0 before row 1. Returns row -> column for the rows that are aligned.
    """
    columns = sorted({column for _, column in merits})
    if not columns:
        return {}
    weights = _weights(rows, columns, merits)
    kept = _kept_columns(rows, weights)
    table = [[weights.get((row, column), 0) for column in kept] for row in range(rows)]
    chosen = assign(table)
    return {row: kept[place] for row, place in enumerate(chosen) if place is not None and (row, kept[place]) in merits}


def _weights(rows: int, columns: Sequence[int], merits: Mapping[Pair, Merits]) -> dict[Pair, int]:
    """Each pair's merits and its place among equals as one whole number."""
    length = len(next(iter(merits.values())))
    scales = [lcm(*(pair[place].denominator for pair in merits.values())) for place in range(length)]
    largest = [max(int(pair[place] * scale) for pair in merits.values()) for place, scale in enumerate(scales)]
    base = len(columns) + 1
    rank = {column: len(columns) - place for place, column in enumerate(columns)}
    weights = {}
    for (row, column), pair in merits.items():
        weight = 0
        for value, scale, most in zip(pair, scales, largest, strict=True):
            weight = weight * (rows * most + 1) + int(value * scale)
        weights[row, column] = weight * base**rows + rank[column] * base ** (rows - 1 - row)
    return weights


def _kept_columns(rows: int, weights: Mapping[Pair, int]) -> list[int]:
    """Columns that can matter: of each row the best `rows`, since the other rows take at most one less."""
    by_row: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for (row, column), weight in weights.items():
        by_row[row].append((weight, column))
    return sorted({column for of_row in by_row for _, column in nlargest(rows, of_row)})


def assign(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """Choose for each row a column of its own, or none, so that the sum of the chosen weights is largest.
    `weights`: one row of whole numbers, at least 0, for each row of the problem; all rows of one length. Returns the column chosen
    for each row, or None; a row may be given a column of weight 0.
    """
    count = len(weights)
    columns = len(weights[0]) if count else 0
    # Each row has a column of weight 0 to itself in addition, so that all rows always find one.
    costs = [[-weight for weight in row] + [0] * count for row in weights]
    owner: list[int | None] = [None] * (columns + count)
    row_price, column_price = [0] * count, [0] * (columns + count)
    for row in range(count):
        _augment(row, costs, owner, row_price, column_price)
    chosen: list[int | None] = [None] * count
    for column, taken_by in enumerate(owner[:columns]):
        if taken_by is not None:
            chosen[taken_by] = column
    return chosen


def _augment(
    start: int, costs: Sequence[Sequence[int]], owner: list[int | None], row_price: list[int], column_price: list[int]
) -> None:
    """Bring one more row into the assignment along the cheapest chain of exchanges; changes the last three lists."""
    distance: list[int | None] = [None] * len(owner)
    came_from = [start] * len(owner)
    done: list[int] = []
    waiting = set(range(len(owner)))
    row, reached = start, 0
    while True:
        for column in waiting:
            through = reached + costs[row][column] - row_price[row] - column_price[column]
            known = distance[column]
            if known is None or through < known:
                distance[column], came_from[column] = through, row
        reached, column = min((known, column) for column in waiting if (known := distance[column]) is not None)
        waiting.remove(column)
        done.append(column)
        next_row = owner[column]
        if next_row is None:
            break
        row = next_row
    row_price[start] += reached
    for closed in done:
        saved = reached - (distance[closed] or 0)
        column_price[closed] -= saved
        held_by = owner[closed]
        if held_by is not None:
            row_price[held_by] += saved
    _exchange(column, start, owner, came_from)


def _exchange(column: int, start: int, owner: list[int | None], came_from: Sequence[int]) -> None:
    """Hand columns over along the chain that ends in `column`."""
    while True:
        row = came_from[column]
        freed = next((other for other, taken_by in enumerate(owner) if taken_by == row), None)
        owner[column] = row
        if row == start or freed is None:
            return
        column = freed
