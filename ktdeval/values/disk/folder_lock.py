"""Lock on a folder, released when its process ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.values.disk.temporary import try_lock

# A child that a killed holder had just forked keeps the lock until it executes its own program.
_PATIENCE_S = 1.0
_PAUSE_S = 0.02


@contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder's lock, which is released when the process ends. Raises StoreError if the
    folder can't be opened, or if another process holds the lock and `wait` is not set.
    """
    with wrap_os_error(f"{folder}: can't open the folder"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    try:
        if wait:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        elif not _try_for_a_while(descriptor):
            raise StoreError(f"{folder}: another process writes it; wait until it has ended")

        yield
    finally:
        os.close(descriptor)


def _try_for_a_while(descriptor: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            return False

        time.sleep(_PAUSE_S)

    return True
