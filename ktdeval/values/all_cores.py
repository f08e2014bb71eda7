"""Computation on large arrays with all cores available to this process. Since numpy releases the
interpreter lock while it computes, threads suffice and nothing is copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Apply a function to each part, and return the results in the order of the parts. All threads
    have ended on return, so that the process can fork again. Raises whatever the function raises.
    """
    threads = min(cores(), len(parts))
    if threads < 2:
        return [function(part) for part in parts]

    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - costs a command start-up time

    with ThreadPoolExecutor(threads, "ktdeval-core") as pool:
        return list(pool.map(function, parts))
