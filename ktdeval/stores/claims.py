"""Claims of units of work by several workers over one store, with leases that expire.

Generation n of a claim is a file that `create` makes, so that one worker gets it. Another takes over
with generation n + 1 when the holder's heartbeat has stopped for a lease. The worker that comes back
later finds that generation, and knows that the unit is no longer its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktdeval.stores.beats import HolderId
from ktdeval.stores.store import Store
from ktdeval.values.jsonio import Closing
from ktdeval.values.typed import Value


class ClaimRecord(Value):
    """Content of a claim's file."""

    unit: str
    generation: int
    holder: HolderId
    released: bool = False


@dataclass(frozen=True)
class UnitState:
    """State of a unit: done or not, and its latest claim. `generation` is 0, and `holder` None, if
    it was never claimed (or its claims were compacted after it was done). `expired`: the holder's
    lease has run out by this observer's clock.
    """

    unit: str
    done: bool
    generation: int
    holder: HolderId | None
    released: bool
    expired: bool


class ClaimBoard(Closing):
    """Claims of one worker under `PREFIX/claims`, `PREFIX/done` and `PREFIX/beats`.

    `worker` is a name that no other living process uses. `previous_ended`: the caller knows that no
    earlier process of this name lives, so that its claims are taken over without waiting. `clock`
    is a monotonic clock in seconds. Safe for threads: two of them never get the same unit.
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
        raise NotImplementedError

    def start(self) -> None:
        """Begin the heartbeat, on a thread of its own until `close`."""

    def close(self) -> None:
        """End the heartbeat. Claims that were not released expire after a lease."""

    def claim(self, unit: str) -> Claim | None:
        """Claim a unit that is free, released or expired; None if it is done or another holds it."""

    def state(self, unit: str) -> UnitState:
        """Return the state of a unit."""
        raise NotImplementedError

    def done(self, unit: str, data: bytes) -> bool:
        """Record that a unit is done, and return True; False if it was already (then `data` is
        dropped).
        """
        raise NotImplementedError

    def is_done(self, unit: str) -> bool:
        """Return whether a unit is done."""
        raise NotImplementedError

    def done_data(self, unit: str) -> bytes:
        """Return what `done` recorded. Raises MissingKey."""
        raise NotImplementedError

    def done_units(self) -> Iterator[str]:
        """Yield the units that are done, by one listing."""
        raise NotImplementedError


class Claim:
    """A unit that this worker holds, until it is released, done or taken over. `previous` is the
    holder that it was taken over from, if any.
    """

    unit: str
    generation: int
    previous: HolderId | None

    def is_ours(self) -> bool:
        """Return whether nobody has taken the unit over: ask before each write that others see."""
        raise NotImplementedError

    def renew(self) -> bool:
        """Write this worker's heartbeat now; return `is_ours`."""
        raise NotImplementedError

    def release(self) -> None:
        """Let others claim the unit at once."""

    def finish(self, data: bytes) -> bool:
        """Record the unit as done if it is still ours; False if it was taken over, or done by
        another: then its result must be dropped.
        """
        raise NotImplementedError
