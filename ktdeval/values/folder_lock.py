"""Lock of a folder, which ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktdeval.errors import StoreError, explained
from ktdeval.values.temporary import try_lock


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder's lock, which ends with the process. Raises StoreError: another process holds
    it and this one is not to `wait`, or the folder can't be opened.
    """
    with explained(f"{folder}: can't open the folder"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    try:
        if wait:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        elif not try_lock(descriptor):
            raise StoreError(f"{folder}: another process writes it; wait until it has ended")

        yield
    finally:
        os.close(descriptor)
