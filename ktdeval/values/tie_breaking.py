"""Rule for all ties: equal names are distinguished by figures that no mask changes, and never by a
label.

A label is a code, a handle, or a position in a list that is determined by a mask or a code. Callers
pass the sort keys, followed by the tie-breaking figures. Names that are equal in all of them share
a rank and are chosen together: choosing the first n takes whole groups, or splits the remainder
equally within a group.
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
    """Return the 0-based rank of each of N items by its figures. `keys` ([N] each) are ordered by
    importance, most important first. Larger figures are better, and undefined values (NaN or None)
    rank last. Items that are equal in all keys share the smallest of their ranks: 0, 1, 1, 3.
    """
    given = iter(keys)
    first = list(islice(given, 1))
    placed = _places(first)
    # Additional keys matter only for items that tie in the first key, and usually none do.
    if len(set(placed)) == len(placed):
        return placed

    return _places([*first, *given])


def _places(keys: Sequence[Figures]) -> list[int]:
    # One row per key; + 0.0 makes -0.0 equal to 0.0.
    table = np.array([np.asarray(key, dtype=np.float64) for key in keys]) + 0.0
    table = np.where(np.isnan(table), -np.inf, table)
    order = np.lexsort(-table[::-1])  # lexsort's last key is its primary key
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (table[:, order[1:]] != table[:, order[:-1]]).any(axis=0)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    placed: list[int] = found.tolist()

    return placed


def group_by_place(items: Sequence[Item], placed: Sequence[int]) -> list[list[Item]]:
    """Return the items grouped by rank, best group first. Within a group, items keep their input
    order, but this order has no meaning.
    """
    groups: dict[int, list[Item]] = {}
    for place, item in zip(placed, items, strict=True):
        if place in groups:
            groups[place].append(item)
        else:
            groups[place] = [item]
    return [groups[place] for place in sorted(groups)]


def whole_groups(groups: Iterable[Sequence[Item]], most: int) -> Iterator[Sequence[Item]]:
    """Yield the first groups as long as they contain at most `most` items in total. No group is
    split.
    """
    left = most
    for group in groups:
        left -= len(group)
        if left < 0:
            return

        yield group


def first_of(groups: Iterable[Sequence[Item]], most: int) -> list[Item]:
    """Return the items of the first whole groups, at most `most` items in total."""
    return list(chain.from_iterable(whole_groups(groups, most)))
