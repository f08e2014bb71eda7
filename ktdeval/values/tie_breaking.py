"""Rule for all ties: equal names are distinguished by figures that no mask changes, never by a
label.

A label is a code, a handle, or a position in a list that a mask or a code decides. Callers give the
sort keys, then the figures that break ties. Names equal in all of them share a rank and are chosen
together: a choice of the first n takes whole groups, or shares the remainder equally among a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Figures = Sequence[float | None] | npt.NDArray[np.float64]
Item = TypeVar("Item")


def places(keys: Iterable[Figures]) -> list[int]:
    """Return the place of each of N items from 0, the best, by its figures: `keys` ([N] each), the
    most important first, larger is better, and undefined (NaN or None) is last. Items that are
    equal in all keys share the first of their places: 0, 1, 1, 3.
    """
    given = iter(keys)
    first = list(islice(given, 1))
    placed = _places(first)
    # Further keys matter only for items that the first one leaves equal: most often none.
    if len(set(placed)) == len(placed):
        return placed

    return _places([*first, *given])


def _places(keys: Sequence[Figures]) -> list[int]:
    # One row a key; + 0.0 makes -0.0 equal to 0.0.
    table = np.array([np.asarray(key, dtype=np.float64) for key in keys]) + 0.0
    table = np.where(np.isnan(table), -np.inf, table)
    order = np.lexsort(-table[::-1])  # the last key of lexsort counts first
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (table[:, order[1:]] != table[:, order[:-1]]).any(axis=0)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    placed: list[int] = found.tolist()

    return placed


def group_by_place(items: Sequence[Item], placed: Sequence[int]) -> list[list[Item]]:
    """Return the items by place, the best group first; within a group as they came, which says
    nothing.
    """
    groups: dict[int, list[Item]] = {}
    for place, item in zip(placed, items, strict=True):
        if place in groups:
            groups[place].append(item)
        else:
            groups[place] = [item]
    return [groups[place] for place in sorted(groups)]


def whole_groups(groups: Iterable[Sequence[Item]], most: int) -> Iterator[Sequence[Item]]:
    """Yield the first groups for as long as they hold at most `most` items together; none is
    cut.
    """
    left = most
    for group in groups:
        left -= len(group)
        if left < 0:
            return

        yield group


def first_of(groups: Iterable[Sequence[Item]], most: int) -> list[Item]:
    """Return the items of the first whole groups, at most `most`."""
    return list(chain.from_iterable(whole_groups(groups, most)))
