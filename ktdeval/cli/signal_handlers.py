"""Handling of interrupts and termination signals in processes that end between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SignalHandler = Callable[[int, FrameType | None], None]


@contextmanager
def handle_signals(handler: SignalHandler) -> Iterator[None]:
    """Pass interrupts and termination signals to a handler while the block runs.

    Only the main thread can do this; on other threads nothing changes.
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
