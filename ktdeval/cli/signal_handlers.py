"""Handling of interrupts and termination signals in processes that can stop between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SignalHandler = Callable[[int, FrameType | None], None]


@contextmanager
def handle_signals(handler: SignalHandler) -> Iterator[None]:
    """While the block runs, pass interrupts and termination signals to a handler.

    Only the main thread can do this. On other threads, this has no effect.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handler)

    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
