"""Status of a grid, read only from its store.

For each model, the status contains the number of units that are done, running, failed and left,
their cost, and the expected end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import msgspec

from ktdeval.errors import UsageError
from ktdeval.runner import CANARY_CALLS, CHECK_CALLS
from ktdeval.stores import MissingKey, Store, ValueFolder, value_name
from ktdeval.values import Value, check_version, decode_json, stated_version
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.state.grid_control import Control, SeenControl, control_in_force
from ktdeval_grid.state.records import (
    DONE,
    FAILED,
    FORMAT,
    GRID,
    LAUNCHES,
    PAID,
    PLANS,
    GridRecord,
    GridSystem,
    GridUnit,
    UnitDone,
    UnitFailed,
    WorkerPaid,
)
from ktdeval_grid.state.settled_pairs import (
    LookBook,
    PairLook,
    mean_saved,
    settled_lines,
    steps_saved,
    units_not_run,
)

UnitState = Literal["running", "done", "failed", "stopped", "settled"]
"""State of a unit that has started or will not be run. `stopped`: a budget stopped the unit.
`settled`: its system's order is settled, so the unit need not be run.
"""

RECENT = 50  #: number of latest finished units from which a model's pace is measured
_CLAIMS = "claims"
_LEASE_S = 60.0  #: for an observer without claims
_NUMBER = re.compile(r"\b[0-9a-f]*\d[0-9a-f]*\b")


class Tally(Value):
    """Number of units by state, for one model or for all."""

    name: str  #: label of the model
    planned: int  #: number of units to be run
    done: int
    running: int
    failed: int  #: number that failed in this launch or, if none is running, in the last one
    stopped: int  #: number that a budget stopped in that launch; a larger budget lets them resume
    pruned: int  #: number of cells omitted by a rule; not included in `planned`
    #: cost of all answered calls as far as known, including those of unfinished units and of checks
    cost_usd: float
    uncosted: int  #: number of units, done or not, whose cost is unknown
    dropped: bool = False  #: whether the model was dropped with `grid ctl drop`
    settled: int = 0  #: number not run because the order of their system is settled
    eta_s: float | None = None  #: estimated seconds until the rest is done; null if unknown

    @property
    def left(self) -> int:
        """Number of units that are neither done, failed nor settled, including units stopped by a
        budget.
        """
        return self.planned - self.done - self.failed - self.settled


class FailureKind(Value):
    """Units that failed, or that a budget stopped, for the same reason."""

    error: str
    is_stopped: bool  #: whether a budget stopped them
    units: tuple[str, ...]  #: ids
    example: str  #: system and label of the first unit


class GridStatus(Value):
    """State of a grid."""

    name: str
    place: str
    mask_key: str
    paused: bool
    concurrency: int | None
    models: tuple[Tally, ...]
    total: Tally
    failures: tuple[FailureKind, ...]
    pruned: dict[str, str]  #: reason for each rule that omits units, keyed by the rule's name
    #: systems that could not be resolved and so have no units yet, with the reason
    unresolved: dict[str, str] = msgspec.field(default_factory=dict)
    #: limits that stopped units exceed, keyed by option, each with the minimum that lets all of
    #: them resume; null: no budget stopped a unit
    needed: dict[str, float] | None = None
    warnings: tuple[str, ...] = ()  #: one sentence each
    settled: tuple[str, ...] = ()  #: one line for each pair of systems whose order is settled
    #: number of decisions saved by units that are not run, estimated from finished units
    steps_saved: int = 0
    #: number of model calls saved by these units, estimated from their systems' finished episodes
    calls_saved: int = 0
    #: US dollars saved by these units; null if an amount is unknown
    usd_saved: float | None = None

    @property
    def is_finished(self) -> bool:
        """True if every unit is done or not needed."""
        return self.total.done + self.total.settled == self.total.planned and not self.unresolved


@dataclass(frozen=True)
class FoundGrid:
    """Contents of a grid's store at one point in time."""

    record: GridRecord
    control: Control
    done: Mapping[str, UnitDone]
    failed: Mapping[str, UnitFailed]
    running: frozenset[str]
    warnings: tuple[str, ...] = ()
    #: US dollars spent on calls, by system, then by unfinished unit, `canary` and `check`
    paid: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    #: looks at pairs of systems, by name
    looks: Mapping[str, PairLook] = field(default_factory=dict)

    @cached_property
    def unrun(self) -> Mapping[str, str]:
        """Units that are not run because their system's order is settled, with the reason."""
        return units_not_run(self.record, self.looks, self.control, self.done)

    def find_state(self, unit: str) -> UnitState | None:
        """Return a unit's state; None if the unit is waiting."""
        if unit in self.done:
            return "done"
        if unit in self.running:
            return "running"
        if unit in self.failed:
            return "stopped" if self.failed[unit].is_stopped else "failed"
        return "settled" if unit in self.unrun else None


@dataclass
class GridWatch:
    """Reads a grid repeatedly. Files that have not changed are read only once."""

    store: Store
    board: ClaimBoard
    _control: SeenControl | None = None

    def __post_init__(self) -> None:
        self._done = ValueFolder(self.store, DONE, UnitDone)
        self._failed = ValueFolder(self.store, FAILED, UnitFailed)
        self._paid = ValueFolder(self.store, PAID, WorkerPaid)
        self._looks = LookBook(self.store)

    def look(self) -> FoundGrid:
        """Read the current contents of the store. Raises UsageError if the store has no grid;
        StoreError.
        """
        record = load_record(self.store)
        units = {unit.id for _, unit in record.units()}
        done = self._done.read(units)
        running = frozenset(self._running(units - done.keys()))
        latest = _latest_launch(self.store)
        failed: dict[str, UnitFailed] = {}
        for unit, failure in self._failed.read(units).items():
            is_over = unit in done or unit in running or _is_stale(failure, latest)
            if not is_over:
                failed[unit] = failure

        before = None if self._control is None else self._control.control
        self._control = control_in_force(self.store, before)
        warnings = (self._control.warning,) if self._control.warning else ()
        paid = furthest_paid(self._paid.read().values())
        return FoundGrid(
            record=record,
            control=self._control.control,
            done=done,
            failed=failed,
            running=running,
            warnings=warnings,
            paid=paid,
            looks=self._looks.read(),
        )

    def _running(self, units: set[str]) -> Iterable[str]:
        """Yield the units held by live workers."""
        claimed = {stat.key.split("/")[1] for stat in self.store.list(_CLAIMS)}
        for unit in sorted(claimed & units):
            if self.board.holder(unit) is not None:
                yield unit


def _latest_launch(store: Store) -> int:
    """Return the number of the latest launch; 0 if workers were started without a launch."""
    names = [value_name(stat.key) for stat in store.list(LAUNCHES)]
    return max((int(name) for name in names if _is_number(name)), default=0)


def _is_stale(failure: UnitFailed, latest: int) -> bool:
    """Return whether a unit was stopped by a budget in an earlier launch.

    With the current budget, such a unit is waiting again.
    """
    is_earlier = _is_number(failure.launch) and int(failure.launch) < latest
    return failure.is_stopped and is_earlier


def _is_number(launch: str) -> bool:
    """Return whether a driver started a launch, in which case its id is a number."""
    return launch.isascii() and launch.isdigit()


def reader_of(store: Store, name: str = "observer") -> GridWatch:
    """Return a reader for a grid. Unlike a worker, it has no heartbeat."""
    return GridWatch(store, ClaimBoard(store, "", name, _LEASE_S))


def look(reader: GridWatch) -> tuple[FoundGrid, GridStatus]:
    """Return the current contents of a grid's store, and the grid's status.

    Raises UsageError if the store has no grid; StoreError.
    """
    found = reader.look()
    return found, summarise(found, reader.store.place, now_utc())


def load_record(store: Store) -> GridRecord:
    """Return a grid's current record.

    Raises UsageError if the store has no grid; StoreError if one of its files is malformed.
    """
    keys = [stat.key for stat in store.list(PLANS)]
    key = max(keys) if keys else GRID
    try:
        data = store.read(key)
    except MissingKey as error:
        raise UsageError(
            f"{store.place}: no grid here ({GRID} is missing); name the folder of a grid, or begin"
            " one by `ktdeval grid PLAN.yaml`"
        ) from error

    where = f"{store.place}: {key}"
    head = decode_json(data, dict[str, msgspec.Raw], where)
    version = stated_version(head, where)
    check_version(FORMAT, version, where, "use the ktdeval that began it, or choose another --out")
    return decode_json(data, GridRecord, where)


def summarise(found: FoundGrid, place: str, now: datetime | None = None) -> GridStatus:
    """Return the status of a grid.

    `now`: time from which the remaining time is estimated. If it is None, no end is estimated.
    """
    record = found.record
    by_model: dict[str, list[GridSystem]] = {}
    for system in record.systems:
        by_model.setdefault(system.model, []).append(system)

    models = []
    for name, systems in by_model.items():
        models.append(_tally(name, systems, found, now))

    pruned: dict[str, str] = {}
    unresolved: dict[str, str] = {}
    for system in record.systems:
        for part in system.pruned:
            pruned[part.rule] = part.reason

        if system.problem is not None:
            unresolved[system.slug] = system.problem

    return GridStatus(
        name=record.plan.name,
        place=place,
        mask_key=record.mask_key,
        paused=found.control.paused,
        concurrency=found.control.concurrency or record.plan.concurrency,
        models=tuple(models),
        total=_tally("total", record.systems, found, now),
        failures=tuple(failure_kinds(found)),
        pruned=pruned,
        unresolved=unresolved,
        needed=_find_limits_to_raise(found),
        warnings=found.warnings,
        settled=tuple(settled_lines(record, found.looks)),
        steps_saved=_steps_saved(found),
        calls_saved=_calls_saved(found),
        usd_saved=_usd_saved(found),
    )


def _steps_saved(found: FoundGrid) -> int:
    steps = {unit: entry.steps for unit, entry in found.done.items()}
    return steps_saved(found.record, found.unrun, steps)


def _calls_saved(found: FoundGrid) -> int:
    calls = {unit: entry.calls for unit, entry in found.done.items()}
    return round(mean_saved(found.record, found.unrun, calls) or 0.0)


def _usd_saved(found: FoundGrid) -> float | None:
    costs = {unit: entry.cost_usd for unit, entry in found.done.items()}
    return mean_saved(found.record, found.unrun, costs)


def _find_limits_to_raise(found: FoundGrid) -> dict[str, float] | None:
    """Return the limits exceeded by stopped units and systems, each with the smallest value that is
    sufficient for all of them; None if no budget stopped a unit or system.
    """
    stops = [failure.needed for failure in found.failed.values()]
    stops += [system.needed for system in found.record.systems]
    needed: dict[str, float] | None = None
    for limits in stops:
        if limits is None:
            continue

        needed = needed or {}
        for name, least in limits.items():
            needed[name] = max(least, needed.get(name, least))

    return needed


def furthest_paid(workers: Iterable[WorkerPaid]) -> dict[str, dict[str, float | None]]:
    """Return the cost of calls by system and unit, from the worker that has made the most progress.

    A worker that takes over a unit starts with the calls of the previous worker.
    """
    furthest: dict[str, dict[str, float | None]] = {}
    for worker in workers:
        for slug, paid in worker.usd.items():
            known = furthest.setdefault(slug, {})
            for unit, cost_usd in paid.items():
                before = known.get(unit, 0.0)
                is_known = before is not None and cost_usd is not None
                known[unit] = max(before or 0.0, cost_usd or 0.0) if is_known else None

    return furthest


def _costs(systems: Sequence[GridSystem], found: FoundGrid) -> list[float | None]:
    """Return the cost of each unit that made a call, and of each system's checks.

    Unknown costs are None.
    """
    costs: list[float | None] = []
    for system in systems:
        paid = dict(found.paid.get(system.slug, {}))
        for unit in system.units:
            so_far = paid.pop(unit.id, 0.0)
            if unit.id in found.done:
                costs.append(found.done[unit.id].cost_usd)
            elif unit.id in found.failed and so_far is not None:
                costs.append(max(so_far, found.failed[unit.id].cost_usd or 0.0))
            else:
                costs.append(so_far)

        costs += [paid[label] for label in (CANARY_CALLS, CHECK_CALLS) if label in paid]

    return costs


def _tally(
    name: str, systems: Sequence[GridSystem], found: FoundGrid, now: datetime | None
) -> Tally:
    units = [unit.id for system in systems for unit in system.units]
    pruned = [len(part.units) for system in systems for part in system.pruned]
    states = Counter(found.find_state(unit) for unit in units)
    left = len(units) - states["done"] - states["failed"] - states["settled"]
    eta_s = None
    if states["running"] and now is not None:
        finished_at = [found.done[unit].finished_at for unit in units if unit in found.done]
        eta_s = seconds_left(finished_at, left, now)

    costs = _costs(systems, found)
    known_costs = [cost for cost in costs if cost is not None]
    models = found.record.plan.models
    return Tally(
        name=name,
        planned=len(units),
        done=states["done"],
        running=states["running"],
        failed=states["failed"],
        stopped=states["stopped"],
        pruned=sum(pruned),
        cost_usd=math.fsum(known_costs),
        uncosted=sum(cost is None for cost in costs),
        dropped=any(model.short == name and found.control.drops(model) for model in models),
        eta_s=eta_s,
        settled=states["settled"],
    )


def seconds_left(finished_at: Sequence[str], left: int, now: datetime) -> float | None:
    """Return how many seconds the remaining units will take at the pace of the latest finished
    units.

    None if fewer than two units are finished. The pace is measured from the earliest of these units
    to now, so it falls while no unit finishes.
    """
    times = sorted(datetime.fromisoformat(text) for text in finished_at)[-RECENT:]
    if left == 0:
        return 0.0
    if len(times) < 2:
        return None

    elapsed_s = max((now - times[0]).total_seconds(), 0.0)
    return elapsed_s / (len(times) - 1) * left


def failure_kinds(found: FoundGrid) -> Iterator[FailureKind]:
    """Yield the reasons why units failed or were stopped, with the most frequent first.

    Texts that differ only in numbers are treated as one kind, represented by its first unit.
    """
    labels: dict[str, str] = {}
    kinds: dict[str, list[str]] = {}
    for system, unit in found.record.units():
        if unit.id in found.failed:
            labels[unit.id] = full_label(system, unit)
            kind = _NUMBER.sub("0", found.failed[unit.id].error)
            kinds.setdefault(kind, []).append(unit.id)

    for units in sorted(kinds.values(), key=len, reverse=True):
        first = units[0]
        failure = found.failed[first]
        yield FailureKind(
            error=failure.error,
            is_stopped=failure.is_stopped,
            units=tuple(units),
            example=labels[first],
        )


def full_label(system: GridSystem, unit: GridUnit) -> str:
    """Return text that identifies a unit within its grid."""
    return f"{system.slug} {unit.label}"


def now_utc() -> datetime:
    """Return the machine's current time in UTC."""
    return datetime.now(UTC)
