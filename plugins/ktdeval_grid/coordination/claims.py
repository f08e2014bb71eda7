"""Claims on units of work by several workers that share one store, with leases that expire.

Generation n of a claim is a file written with `create`, so that only one worker gets it. When the
holder's heartbeat has stopped for the length of a lease, another worker takes over with generation
n + 1. If the old holder comes back later, it finds the newer generation and knows that it has lost
the unit.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from ktdeval.errors import FencedError
from ktdeval.stores import Store, StoreUnavailable, checked_key, encode_value, find_value
from ktdeval.values import Closing, Value
from ktdeval_grid.coordination.heartbeats import Heartbeats, HolderId, below

_GENERATION = re.compile(r"(\d{4,})\.json")


class ClaimRecord(Value):
    """Contents of a claim file. `earlier` contains the holders of earlier generations, latest
    first.
    """

    unit: str
    generation: int
    holder: HolderId
    earlier: list[HolderId]
    released: bool = False


class ClaimBoard(Closing):
    """Claims of one worker under `PREFIX/claims`, `PREFIX/done` and `PREFIX/beats`.

    The parameters are those of `Heartbeats`, and `beats` is an instance of that class. A unit is a
    key, such as an episode id or `card/MODEL/TASK`. Thread-safe: two threads never get the same
    unit.
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
        self.store = store
        self.beats = Heartbeats(store, prefix, worker, lease_s, clock, previous_ended)
        self.clock = clock
        self._claims = below(prefix, "claims")
        self._done = below(prefix, "done")
        self._ours: dict[
            str, Claim | None
        ] = {}  # units that threads of this process are claiming (None) or hold
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the heartbeat on its own thread, where it runs until `close`. Raises StoreError."""
        self.beats.start()

    def close(self) -> None:
        """Stop the heartbeat. Claims that were not released expire after a lease."""
        self.beats.close()

    def claim(self, unit: str) -> Claim | None:
        """Claim a unit that is free, released or expired. Returns None if the unit is done or
        another worker holds it.

        The first look at a holder starts its lease on this observer's clock, so an expired holder
        is detected only by asking again.
        """
        if not self._take(unit):
            return None

        claim = None
        try:
            claim = self._try_claim(unit)
        finally:
            self._settle(unit, claim)

        return claim

    def holder(self, unit: str) -> HolderId | None:
        """Return the holder of a unit. Returns None if the unit is done or was never claimed, or if
        it can be claimed again because it was released or because the holder's lease has expired by
        this observer's clock.
        """
        latest = self._latest(unit)
        if latest is None or latest.released or self.is_done(unit):
            return None
        return None if self.beats.is_expired(latest.holder) else latest.holder

    def record_done(self, unit: str, data: bytes) -> bool:
        """Record that a unit is done and return True. If it was already done, drop `data` and
        return False.
        """
        return self.store.create(self._done_key(unit), data)

    def is_done(self, unit: str) -> bool:
        """Return whether a unit is done."""
        return self.store.exists(self._done_key(unit))

    def done_data(self, unit: str) -> bytes:
        """Return the data recorded when the unit was done. Raises MissingKey."""
        return self.store.read(self._done_key(unit))

    def done_units(self) -> Iterator[str]:
        """Yield the units that are done, from a single listing."""
        for found in self.store.list(self._done):
            yield found.key.removeprefix(f"{self._done}/").removesuffix(".json")

    def _try_claim(self, unit: str) -> Claim | None:
        latest = self._latest(unit)
        if latest is not None and (not self._is_free(latest) or self.is_done(unit)):
            return None

        if latest is not None and self._is_of_this_process(latest):
            record = latest  # the claim had raised StoreUnavailable although the write succeeded
        else:
            record = self._next(unit, latest)
            if not self.store.create(self._key(unit, record.generation), encode_value(record)):
                return None

        # The unit may have been finished, and then released or compacted, after its claims were
        # listed.
        claim = Claim(self, record)
        if self.is_done(unit):
            claim.release()
            return None

        return claim

    def _next(self, unit: str, latest: ClaimRecord | None) -> ClaimRecord:
        """Return this process's claim that follows the latest claim."""
        generation = 1
        earlier: list[HolderId] = []
        if latest is not None:
            generation = latest.generation + 1
            earlier = [latest.holder, *latest.earlier]

        return ClaimRecord(unit=unit, generation=generation, holder=self.beats.me, earlier=earlier)

    def _is_free(self, latest: ClaimRecord) -> bool:
        """Return whether this process may claim a unit, given its latest claim."""
        return (
            latest.released
            or self._is_of_this_process(latest)
            or self.beats.is_expired(latest.holder)
        )

    def _is_of_this_process(self, latest: ClaimRecord) -> bool:
        return latest.holder.session == self.beats.me.session and not latest.released

    def _latest(self, unit: str) -> ClaimRecord | None:
        """Return the claim with the highest generation in the listing."""
        folder = f"{self._claims}/{checked_key(unit)}"
        generations = [
            int(match[1])
            for found in self.store.list(folder)
            if (match := _GENERATION.fullmatch(found.key.removeprefix(f"{folder}/")))
        ]
        if not generations:
            return None

        # None if an earlier version compacted the claim, or if it is missing from the listing
        return find_value(self.store, self._key(unit, max(generations)), ClaimRecord)

    def _take(self, unit: str) -> bool:
        """Reserve a unit against other threads of this process. Returns False if one of them is
        claiming or holding it.
        """
        with self._lock:
            is_free = unit not in self._ours
            if is_free:
                self._ours[unit] = None

        return is_free

    def _settle(self, unit: str, claim: Claim | None) -> None:
        """Record the claim that a thread obtained for its reserved unit, or None."""
        with self._lock:
            if claim is None:
                del self._ours[unit]
            else:
                self._ours[unit] = claim

    def _give_back(self, claim: Claim) -> None:
        """Let threads of this process claim a unit again, unless one of them already has."""
        with self._lock:
            if self._ours.get(claim.unit) is claim:
                del self._ours[claim.unit]

    def _key(self, unit: str, generation: int) -> str:
        return f"{self._claims}/{unit}/{generation:04}.json"

    def _done_key(self, unit: str) -> str:
        return f"{self._done}/{checked_key(unit)}.json"


class Claim:
    """A unit that this worker holds until it is released, done or taken over."""

    def __init__(self, board: ClaimBoard, record: ClaimRecord) -> None:
        self._board = board
        self._record = record
        self.unit = record.unit
        self.generation = record.generation
        self.earlier = tuple(record.earlier)  #: earlier holders, latest first
        self._may_be_recorded = False  # a call to `finish` failed, but its write may have succeeded
        self._is_lost = False
        self._asked_at_s = -math.inf  # when the store was last asked, on this observer's clock

    def is_ours(self) -> bool:
        """Return whether the unit is still this worker's. If it was taken over, threads of this
        process may claim it again.
        """
        is_ours = self._ask()
        if not is_ours:
            self._board._give_back(self)

        return is_ours

    def check(self, fresh_s: float = 0.0) -> None:
        """Raise FencedError if the unit was taken over. Call this before each effect, such as a
        paid call or a write.

        The store's answer remains valid for `fresh_s` seconds, a small part of a lease. A process
        that was paused for a whole lease therefore notices the elapsed time and asks again. The
        unit belongs to this thread until `release` or `finish`.
        """
        is_fresh = self._board.clock() - self._asked_at_s < fresh_s
        if self._is_lost or not (is_fresh or self._ask()):
            raise FencedError(
                f"{self._board.store.place}: another worker has taken {self.unit} over from"
                f" {self._board.beats.me.worker}, which sent no heartbeat for a whole lease"
            )

    def _ask(self) -> bool:
        """Ask the store whether the claim is still held. A lost claim stays lost."""
        # taken before the answer, so that a pause in between counts
        asked_at_s = self._board.clock()
        store = self._board.store
        is_taken_over = store.exists(self._board._key(self.unit, self.generation + 1))
        # if the claim's own file is missing, the unit is done and its claims were compacted
        is_ours = not is_taken_over and store.exists(self._board._key(self.unit, self.generation))
        self._asked_at_s = asked_at_s
        self._is_lost = self._is_lost or not is_ours
        return is_ours

    def release(self) -> None:
        """Let others claim the unit immediately. Does nothing if the unit was taken over."""
        if self.is_ours():
            released = msgspec.structs.replace(self._record, released=True)
            key = self._board._key(self.unit, self.generation)
            self._board.store.replace(key, encode_value(released))

        self._board._give_back(self)

    def finish(self, data: bytes) -> bool:
        """Record the unit as done if this worker still holds it. Returns False if another worker
        took it over or completed it, in which case this worker's result must be dropped. After
        StoreUnavailable, call this method again with the same data.
        """
        is_recorded = self.is_ours() and self._is_recorded(data)
        self._board._give_back(self)
        return is_recorded

    def _is_recorded(self, data: bytes) -> bool:
        try:
            if self._board.record_done(self.unit, data):
                return True
        except StoreUnavailable:
            self._may_be_recorded = True
            raise

        return self._may_be_recorded and self._board.done_data(self.unit) == data
