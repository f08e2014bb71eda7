"""Work of a build spread over processes that inherit the board as it was read, so that nothing large is sent between them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from ktdeval.errors import StoreError

Result = TypeVar("Result")

_MOST_WORKERS = 8

_jobs: Sequence[Callable[[], Any]] = ()
"""Jobs of the pool that is open; processes forked from this one have them without being sent them."""


def usable_workers() -> int:
    """Return how many processes a build uses: as many as there are processors; one where processes can't inherit memory safely."""
    if sys.platform != "linux":  # elsewhere libraries may not be used after a fork
        return 1
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


def run_jobs(jobs: Sequence[Callable[[], Result]], workers: int) -> Iterator[Result]:
    """Yield the results of jobs, in their order."""
    if workers < 2 or len(jobs) < 2:
        for job in jobs:
            yield job()
        return
    global _jobs
    _jobs = jobs
    context = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context, initializer=_begin_worker) as pool:
            try:
                yield from pool.map(_run_job, range(len(jobs)))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool as error:
        raise StoreError("a process of the build was killed, most likely for want of memory; nothing was written") from error
    finally:
        _jobs = ()


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector of reference cycles from walking over a large board again and again: JSON has no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the build, and says so once


def _run_job(place: int) -> Any:
    return _jobs[place]()
