"""Heartbeats of workers: which workers are alive, according to each observer's own clock.

A worker repeatedly replaces one small file that contains a rising counter. An observer never
compares its clock with the worker's. Instead, it notes when it last saw the counter change, and
considers the worker dead once this was a whole lease ago.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ktdeval.errors import StoreError
from ktdeval.stores import Store, checked_key, encode_value, find_value
from ktdeval.values import Closing, Value

BEATS_PER_LEASE = 4


class HolderId(Value):
    """A process that holds claims or grants: worker name, and a number unique to the process."""

    worker: str
    session: str
    lease_s: float


class Beat(Value):
    """Contents of a heartbeat file."""

    holder: HolderId
    counter: int


@dataclass(frozen=True)
class _SeenCounter:
    """A counter (None: no heartbeat was found), and the time at which the observer's clock first
    saw it.
    """

    counter: int | None
    at_s: float


class Heartbeats(Closing):
    """Heartbeat of this process under `PREFIX/beats`, and its view of other processes' heartbeats.

    `worker` is a name that no other living process uses. `lease_s` is how long others wait after
    the last change of this worker's counter before they take over what it holds. `clock` is a
    monotonic clock in seconds; tests pass their own. `previous_ended` means that, as the caller
    knows, no earlier process with this name is alive, so the claims of such processes expire
    immediately.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        worker: str,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
        previous_ended: bool = False,
    ) -> None:
        if not lease_s > 0:
            raise StoreError(f"a lease of {lease_s} s: must be above 0")

        self.me = HolderId(worker=worker, session=uuid.uuid4().hex, lease_s=lease_s)
        self._store = store
        self._folder = below(prefix, "beats")
        self._key = self._key_of(worker)
        self._clock = clock
        self._previous_ended = previous_ended
        self._counter = 0
        self._seen: dict[tuple[str, str], _SeenCounter] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self) -> None:
        """Write the next heartbeat now. Raises StoreError."""
        with self._lock:
            self._counter += 1
            beat = Beat(holder=self.me, counter=self._counter)

        self._store.replace(self._key, encode_value(beat))

    def start(self) -> None:
        """Write a heartbeat, then another every quarter of a lease on a separate thread, until
        `close`.

        A heartbeat that the store rejects is retried on the next turn. Other workers consider this
        worker dead once a whole lease has passed without a heartbeat. Raises StoreError if the
        first heartbeat can't be written.
        """
        if self._thread is not None:
            return

        self.beat()
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        self._thread.start()

    def _keep_beating(self) -> None:
        while not self._ends.wait(self.me.lease_s / BEATS_PER_LEASE):
            with suppress(StoreError):
                self.beat()

    def close(self) -> None:
        """Stop the thread. This process's claims expire after one lease."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def is_expired(self, holder: HolderId) -> bool:
        """Return whether a holder's counter has not changed for the length of its lease, on this
        observer's clock. The first look at a holder starts the lease and returns False.
        """
        if holder.session == self.me.session:
            return False
        if holder.worker == self.me.worker and self._previous_ended:
            return True

        counter = self._counter_of(holder)
        now_s = self._clock()
        process = (holder.worker, holder.session)
        with self._lock:
            seen = self._seen.get(process)
            if seen is None or seen.counter != counter:
                self._seen[process] = _SeenCounter(counter, now_s)
                return False

        return now_s - seen.at_s >= holder.lease_s

    def _counter_of(self, holder: HolderId) -> int | None:
        """Return the counter of a holder's process; None if its worker has no heartbeat, or if the
        heartbeat belongs to another process.
        """
        beat = find_value(self._store, self._key_of(holder.worker), Beat)
        is_of_holder = beat is not None and beat.holder.session == holder.session
        return beat.counter if beat is not None and is_of_holder else None

    def _key_of(self, worker: str) -> str:
        return checked_key(f"{self._folder}/{worker}.json")


def below(prefix: str, name: str) -> str:
    """Return the key or folder `name` below a folder of keys, or below the store's root."""
    return f"{prefix}/{name}" if prefix else name
