"""A guard for loops of tests over values that may be none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def not_empty(values: Iterable[T], count: int | None = None) -> list[T]:
    """Return `values` as a list; fail where there are none, or other than `count` of them."""
    listed = list(values)

    assert listed, "there is nothing to loop over, so nothing would be tested"

    if count is not None:
        assert len(listed) == count, f"{len(listed)} values to loop over, not {count}"

    return listed
