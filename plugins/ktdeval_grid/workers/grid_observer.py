"""A worker's view of a grid while it works: units that are done or failed, control, live workers.

Everything is read from the store, at most once a second while there is work, and less often if
listing takes long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ktdeval.stores import Stat, Store, ValueFolder, value_name
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.state.grid_control import Control, control_in_force
from ktdeval_grid.state.records import FAILED, UnitFailed

_LOOK_AGAIN_S = 1.0
_IDLE_LOOK_S = 0.1  #: interval for a worker that waits for another worker to finish
_MAX_SHARE = 20  #: minimum pause after a look, as a multiple of the look's duration
_BEATS = "beats"


class WorkerLiveness:
    """Workers whose heartbeat has changed within one lease period, by this observer's own clock."""

    def __init__(self, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}

    def look(self, beats: list[Stat]) -> list[str]:
        """Return the names of live workers. A worker seen for the first time is live."""
        now = self._clock()
        live = []
        for stat in beats:
            name = value_name(stat.key)
            version, since = self._seen.get(name, ("", now))
            if version != stat.version:
                since = now

            self._seen[name] = (stat.version, since)
            if now - since < self._lease_s:
                live.append(name)

        return live


@dataclass
class GridView:
    """A worker's view of its grid."""

    store: Store
    board: ClaimBoard
    liveness: WorkerLiveness
    launch: str  #: launch of this worker, for failure records
    done: set[str] = field(default_factory=set)  #: units and jobs that are done
    failed: dict[str, UnitFailed] = field(default_factory=dict)  #: last failures, by unit
    #: units that are not run because their system's order is settled, with the reason
    unrun: dict[str, str] = field(default_factory=dict)
    control: Control = field(default_factory=Control)
    workers: list[str] = field(default_factory=list)  #: live workers
    warn: Callable[[str], None] = lambda _: (
        None
    )  #: called with a warning if `control.json` can't be read
    _has_read_control: bool = False
    _warned: str = ""  #: the latest warning
    _earlier: frozenset[str] | None = None  #: versions of failures at the first look
    _next_look: float = 0.0
    _next_idle_look: float = 0.0

    def __post_init__(self) -> None:
        self._failures = ValueFolder(self.store, FAILED, UnitFailed)

    def look(self, at_once: bool = False, is_idle: bool = False) -> bool:
        """Read the store if it is time to do so, which is sooner for an idle worker. Return whether
        it was read.

        Raises StoreError.
        """
        began = time.monotonic()
        due = self._next_idle_look if is_idle else self._next_look
        if began < due and not at_once:
            return False

        self._read_control()
        self.done.update(self.board.done_units())
        self.workers = self.liveness.look(list(self.store.list(_BEATS)))
        self._read_failed()
        took = time.monotonic() - began
        ended = time.monotonic()
        self._next_look = ended + max(_LOOK_AGAIN_S, took * _MAX_SHARE)
        self._next_idle_look = ended + max(_IDLE_LOOK_S, took * _MAX_SHARE)
        return True

    def _read_control(self) -> None:
        """Read the control. If the file is malformed, warn once and keep the previous state."""
        before = self.control if self._has_read_control else None
        seen = control_in_force(self.store, before)
        self.control = seen.control
        self._has_read_control = True
        if seen.warning and seen.warning != self._warned:
            self.warn(seen.warning)

        self._warned = seen.warning

    def _read_failed(self) -> None:
        self.failed = self._failures.read()
        if self._earlier is None:
            self._earlier = frozenset(self._failures.versions.values())

    def has_failed(self, unit: str) -> bool:
        """Return whether a unit failed in this launch and is not to be retried.

        A failure recorded before this worker's first look belongs to an earlier launch, unless its
        record names this launch.
        """
        failure = self.failed.get(unit)
        if failure is None or self.control.may_try(unit, failure.requeued):
            return False
        if failure.launch == self.launch:
            return True

        return self._failures.versions.get(unit) not in (self._earlier or frozenset())

    def note_failure(self, failure: UnitFailed) -> None:
        """Add a failure of this worker to the view."""
        self.failed[failure.unit] = failure
