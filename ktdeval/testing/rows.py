"""Tests on rows of a table, and loops that must not be empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

_MAX_ID = 60  # characters of a row's name


def on_each_row(names: str, *rows: Sequence[Any]) -> Callable[..., Any]:
    """Return a decorator that runs a test on each row. `names` are those of its arguments, joined by
    `, `; a row has a value for each.

    A row is named by its last text, which is mostly the expected message.

    Example:
        @on_each_row("text, total", ("1 + 1", 2), ("2 + 3", 5))
        def test_a_sum_is_read(text, total):
            assert sum(map(int, text.split(" + "))) == total
    """
    return pytest.mark.parametrize(names.split(", "), rows, ids=[_name_of(row) for row in rows])


def _name_of(row: Sequence[Any]) -> str:
    texts = [part for part in row if isinstance(part, str) and part]
    name = texts[-1] if texts else str(row[0])
    return name[:_MAX_ID]


def not_empty(values: Iterable[T], count: int | None = None) -> list[T]:
    """Return `values` as a list, for a loop that would test nothing if there were none.

    Raises AssertionError if there are none, or not as many as `count`.

    Example:
        not_empty(tiny_snapshot({"609001.SH": [10.0]}).codes)  # ['609001.SH']
    """
    listed = list(values)

    assert listed, "there is nothing to loop over, so nothing would be tested"

    if count is not None:
        assert len(listed) == count, f"{len(listed)} values to loop over, not {count}"

    return listed
