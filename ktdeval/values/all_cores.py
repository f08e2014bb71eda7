"""Work of large arrays on all cores of this process: numpy lets go of the interpreter while it
computes, so threads are enough and nothing is copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Return the results of a function, in the order of the parts. The threads have ended when it
    returns, so that the process can fork again. Raises what the function raises.
    """
    threads = min(cores(), len(parts))
    if threads < 2:
        return [function(part) for part in parts]

    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - costs a command start-up time

    with ThreadPoolExecutor(threads, "ktdeval-core") as pool:
        return list(pool.map(function, parts))
