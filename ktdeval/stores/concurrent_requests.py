"""Concurrent requests to a store: each spends most of its time waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 16  #: maximum at once; a request to an object store takes tens of milliseconds


def at_once(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function that waits for a store to each item, and return the results in the order of
    the items. Raises what the function raises.
    """
    every = list(items)
    if len(every) < 2:
        return [function(item) for item in every]

    with ThreadPoolExecutor(min(_AT_ONCE, len(every)), "ktdeval-store") as pool:
        return list(pool.map(function, every))
