"""Concurrent requests to a store, since each request spends most of its time waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: maximum number of concurrent requests; one request to an object store takes tens of milliseconds
_AT_ONCE = 16


def at_once(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function that waits for a store to each item, and return the results in the order of
    the items. Raises whatever the function raises.
    """
    every = list(items)
    if len(every) < 2:
        return [function(item) for item in every]

    with ThreadPoolExecutor(min(_AT_ONCE, len(every)), "ktdeval-store") as pool:
        return list(pool.map(function, every))
