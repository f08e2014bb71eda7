"""Names of workers: the machine's name plus the first number that no live process uses."""

from __future__ import annotations

import os
import re
import socket
from itertools import count

from ktdeval.errors import wrap_os_error
from ktdeval.values import Closing, try_lock
from ktdeval_grid.state.layout import GridPlace

_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")
_MAX_LETTERS = 40


class WorkerName(Closing):
    """Name reserved for this process until it closes the name or ends.

    A process that gets a name knows that no earlier process with that name is alive, since the lock
    on its folder ends with the process. Machines that share a grid must have different host names.
    """

    def __init__(self, place: GridPlace) -> None:
        """Take the first free name of this machine. Raises StoreError."""
        host = _UNSAFE.sub("-", socket.gethostname()).strip("-")[:_MAX_LETTERS] or "host"
        for number in count(1):
            self.name = f"{host}-{number}"
            folder = place.parts(self.name)
            with wrap_os_error(f"{folder}: can't make the worker's folder", "choose another --out"):
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
                if try_lock(self._lock):
                    return

                os.close(self._lock)

    def close(self) -> None:
        """Release the name for another process."""
        os.close(self._lock)
