"""Heartbeats of workers: who is alive, as each observer's own clock sees it.

A worker replaces one small file with a rising counter. An observer never compares clocks with it:
it notes on its own clock when it saw the counter change last, and calls the worker dead when that
was a lease ago.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ktdeval.errors import StoreError
from ktdeval.stores.store import MissingKey, Store, checked_key
from ktdeval.values.jsonio import Closing
from ktdeval.values.typed import Value, decode_json, encode_canonical

BEATS_PER_LEASE = 4


class HolderId(Value):
    """A process that holds claims or grants: the worker's name, and a number of this process
    alone.
    """

    worker: str
    session: str
    lease_s: float


class Beat(Value):
    """Content of a heartbeat."""

    session: str
    counter: int


@dataclass(frozen=True)
class _Seen:
    """A counter, and when the observer's clock saw it first."""

    counter: int | None
    at_s: float


class Heartbeats(Closing):
    """Heartbeat of this process under `PREFIX/beats`, and its view of those of others.

    `lease_s` is how long others wait after the last change of this worker's counter before they
    take over what it holds. `clock` is a monotonic clock in seconds; tests pass their own.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        worker: str,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not lease_s > 0:
            raise StoreError(f"lease of {lease_s} s: must be above 0")
        self.me = HolderId(worker=worker, session=uuid.uuid4().hex, lease_s=lease_s)
        self._store = store
        self._folder = f"{prefix}/beats" if prefix else "beats"
        self._key = self._key_of(worker)
        self._clock = clock
        self._counter = 0
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self) -> None:
        """Write the next heartbeat now. Raises StoreError."""

    def start(self) -> None:
        """Write a heartbeat, and further ones every quarter of a lease on a thread until `close`.

        A heartbeat that the store refuses is tried again at the next turn; others see this worker
        as dead once a whole lease has passed without one. Raises StoreError: the first one can't be
        written.
        """

    def close(self) -> None:
        """Stop the thread. What this process holds expires after a lease."""

    def is_expired(self, holder: HolderId) -> bool:
        """Return whether a holder's counter has not changed for its lease, on this observer's
        clock. The first look at a holder always returns False.
        """
        raise NotImplementedError

    def live_workers(self) -> int:
        """Return how many workers have a heartbeat that is not expired, this one included."""
        raise NotImplementedError

    def _key_of(self, worker: str) -> str:
        return checked_key(f"{self._folder}/{worker}.json")
