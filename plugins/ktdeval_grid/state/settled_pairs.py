"""Pairs of systems whose order is settled by a plan's sequential rule.

Each pair of systems is compared on each task, window by window in plan order, at the looks that
were planned before the first unit ran. A look depends only on finished units. The first worker that
makes a look records it as `looks/<pair>-<number>.json`.

A system whose order relative to every other system is settled needs no more windows. If the plan
has `stop_when: settled`, its units after the last of these looks are not run.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from ktdeval.runner import SequentialRule, answer, last_look
from ktdeval.stores import Store, ValueFolder, encode_value, read_value
from ktdeval.values import Value, content_hash
from ktdeval_grid.state.grid_control import Control
from ktdeval_grid.state.records import GridRecord, GridSystem, GridUnit, UnitDone, done_key

LOOKS = "looks"
_DIGITS = 20  #: number of hash digits in a pair's name

Figures = Mapping[str, float | None]
"""Figure that the rule compares, by finished unit; None if undefined."""


class PairLook(Value):
    """A look at a pair of systems on a task."""

    task: str
    first: str  #: slug
    second: str  #: slug
    look: int  #: number of the look, from 1
    windows: int  #: number of windows on which the look is based
    #: first system's figure less the second's, median over seeds, by window in plan order
    differences: tuple[float, ...]
    statistic: float | None  #: null for `anytime`, which has no boundary
    boundary: (
        float | None
    )  #: minimum |statistic| at which the look settles the pair; null: no value settles it
    settled: bool
    #: 1: the first system has the larger figure; -1: the second has; 0: not settled
    sign: Literal[-1, 0, 1]

    @property
    def name(self) -> str:
        """Name of the look's record."""
        return f"{self.pair}-{self.look}"

    @property
    def pair(self) -> str:
        """Name of the look's pair."""
        return pair_name(self.task, self.first, self.second)


Looks = Mapping[str, PairLook]
"""Looks made in a grid, by name."""


@dataclass(frozen=True)
class SettledSystem:
    """A system whose order relative to every other system on a task is settled."""

    task: str
    system: str  #: slug
    look: int  #: number of the last look that settled one of the system's pairs, from 1
    windows: int  #: number of windows at that look

    @property
    def reason(self) -> str:
        """Why no more windows are run for the system."""
        return f"not run: settled at look {self.look}, after {self.windows} windows"


def pair_name(task: str, first: str, second: str) -> str:
    """Return the name of a pair, regardless of the order in which its systems are given."""
    return content_hash([task, *sorted((first, second))])[:_DIGITS]


@dataclass(frozen=True)
class SystemPair:
    """Two systems compared on a task."""

    task: str
    first: GridSystem
    second: GridSystem

    @property
    def name(self) -> str:
        """Name of the pair in the records of its looks."""
        return pair_name(self.task, self.first.slug, self.second.slug)


# ---- windows and blocks


def windows_by_task(record: GridRecord) -> dict[str, list[str]]:
    """Return the windows of each task that has any, in plan order."""
    windows: dict[str, dict[str, None]] = {}
    for _, unit in record.units():
        if unit.window is not None:
            windows.setdefault(unit.task, {})[unit.window] = None

    return {task: list(names) for task, names in windows.items()}


def blocks_of(record: GridRecord) -> dict[str, int]:
    """Return the block of each unit: 0 for windows before the first look, 1 for those before the
    second, and so on.

    Without a rule, or for tasks without windows, there is a single block.
    """
    rule = record.plan.settle
    if rule is None:
        return {}

    places = {}
    for task, names in windows_by_task(record).items():
        for place, name in enumerate(names):
            places[task, name] = bisect_right(rule.looks, place)

    return {unit.id: places.get((unit.task, unit.window or ""), 0) for _, unit in record.units()}


# ---- looks


def looks_to_make(record: GridRecord, figures: Figures, known: Looks) -> Iterator[PairLook]:
    """Yield the looks that the finished units allow and that are not recorded yet, in order."""
    rule = record.plan.settle
    if rule is None:
        return

    windows = windows_by_task(record)
    for pair in find_pairs(record):
        differences = _differences(pair, windows[pair.task], figures)
        for number, count in enumerate(rule.looks, 1):
            before = known.get(f"{pair.name}-{number}")
            if before is None:
                if len(differences) < count:
                    break

                before = _look(rule, number, pair, differences[:count])
                yield before

            if before.settled:
                break


def find_pairs(record: GridRecord) -> Iterator[SystemPair]:
    """Yield each pair of systems that share a task with windows, in plan order."""
    for task in windows_by_task(record):
        having = [system for system in record.systems if _has_task(system, task)]
        for first, second in combinations(having, 2):
            yield SystemPair(task, first, second)


def _has_task(system: GridSystem, task: str) -> bool:
    return any(unit.task == task for unit in system.units)


def _differences(pair: SystemPair, windows: Sequence[str], figures: Figures) -> list[float]:
    """Return the differences for the windows before the first one in which the figure for a seed is
    missing.
    """
    here = _units_by_cell(pair.first, pair.task)
    there = _units_by_cell(pair.second, pair.task)
    differences: list[float] = []
    for window in windows:
        cells = [cell for cell in here.keys() | there.keys() if cell[0] == window]
        gaps = []
        for cell in sorted(cells):
            one = figures.get(here.get(cell, ""))
            other = figures.get(there.get(cell, ""))
            if one is None or other is None:
                return differences

            gaps.append(one - other)

        if not gaps:
            return differences
        differences.append(statistics.median(gaps))

    return differences


def _units_by_cell(system: GridSystem, task: str) -> dict[tuple[str, int], str]:
    units = {}
    for unit in system.units:
        if unit.task == task and unit.window is not None:
            units[unit.window, unit.seed] = unit.id

    return units


def _look(
    rule: SequentialRule, number: int, pair: SystemPair, differences: Sequence[float]
) -> PairLook:
    """Make a look. No earlier look settled the pair, since otherwise this look would not be
    made.
    """
    found = answer(rule, differences)
    figures = last_look(rule, differences)
    is_settled = found.settled_at == number
    return PairLook(
        task=pair.task,
        first=pair.first.slug,
        second=pair.second.slug,
        look=number,
        windows=len(differences),
        differences=tuple(differences),
        statistic=None if figures is None else figures.statistic,
        boundary=None if figures is None else figures.boundary,
        settled=is_settled,
        sign=found.sign if is_settled else 0,
    )


# ---- what is settled


def find_settling_looks(looks: Looks) -> dict[str, PairLook]:
    """Return the looks that settled a pair, keyed by pair name."""
    return {look.pair: look for look in looks.values() if look.settled}


def settled_systems(record: GridRecord, looks: Looks, control: Control) -> list[SettledSystem]:
    """Return the systems whose pairs are all settled.

    Pairs with a system of a dropped model, which runs no more units, are ignored.
    """
    settling: dict[tuple[str, str], list[PairLook | None]] = {}
    decided = find_settling_looks(looks)
    for pair in find_pairs(record):
        for system, other in ((pair.first, pair.second), (pair.second, pair.first)):
            if not control.drops(record.model(other.model)):
                look = decided.get(pair.name)
                settling.setdefault((pair.task, system.slug), []).append(look)

    settled = []
    for (task, slug), pairs in settling.items():
        whole = [look for look in pairs if look is not None]
        if whole and len(whole) == len(pairs):
            last = max(whole, key=lambda look: look.look)
            settled.append(SettledSystem(task, slug, last.look, last.windows))

    return settled


def units_not_run(
    record: GridRecord, looks: Looks, control: Control, done: Iterable[str]
) -> dict[str, str]:
    """Return the units that are not run because the order of their system is settled, with the
    reason.

    The result is empty unless the plan has `stop_when: settled`.
    """
    if record.plan.settle is None or record.plan.stop_when != "settled":
        return {}

    windows = windows_by_task(record)
    settled = {(each.task, each.system): each for each in settled_systems(record, looks, control)}
    finished = set(done)
    reasons = {}
    for system, unit in record.units():
        found = settled.get((unit.task, system.slug))
        if found is None or unit.window is None or unit.id in finished:
            continue
        if windows[unit.task].index(unit.window) >= found.windows:
            reasons[unit.id] = found.reason

    return reasons


def steps_saved(record: GridRecord, unrun: Iterable[str], steps: Mapping[str, int]) -> int:
    """Return the number of decisions saved by units that are not run.

    The number of decisions in such a unit is taken from a finished unit with the same task and
    window or, without such a unit, from the mean over the task's finished units.
    """
    units = {unit.id: unit for _, unit in record.units()}
    by_window: dict[tuple[str, str | None], int] = {}
    by_task: dict[str, list[int]] = {}
    for unit_id, count in steps.items():
        unit = units.get(unit_id)
        if unit is not None:
            by_window[unit.task, unit.window] = count
            by_task.setdefault(unit.task, []).append(count)

    return sum(_steps_of(units[each], by_window, by_task) for each in unrun)


def mean_saved(
    record: GridRecord, unrun: Iterable[str], amounts: Mapping[str, float | None]
) -> float | None:
    """Return how much of some quantity is saved by units that are not run. Each unit is estimated
    by the mean over its system's finished units for the same task.

    `amounts`: the quantity for each finished unit. None if a required amount is unknown.
    """
    keys = {unit.id: (system.slug, unit.task) for system, unit in record.units()}
    known: dict[tuple[str, str], list[float | None]] = {}
    for unit_id, amount in amounts.items():
        if unit_id in keys:
            known.setdefault(keys[unit_id], []).append(amount)

    total = 0.0
    for unit_id in unrun:
        found = known.get(keys[unit_id], [])
        numbers = [amount for amount in found if amount is not None]
        if not found or len(numbers) < len(found):
            return None
        total += statistics.fmean(numbers)

    return total


def _steps_of(
    unit: GridUnit,
    by_window: Mapping[tuple[str, str | None], int],
    by_task: Mapping[str, Sequence[int]],
) -> int:
    if (unit.task, unit.window) in by_window:
        return by_window[unit.task, unit.window]

    known = by_task.get(unit.task)
    return round(statistics.mean(known)) if known else 0


def settled_lines(record: GridRecord, looks: Looks) -> Iterator[str]:
    """Yield one line for each settled pair."""
    rule = record.plan.settle
    if rule is None:
        return

    decided = find_settling_looks(looks)
    for pair in find_pairs(record):
        look = decided.get(pair.name)
        if look is None:
            continue

        above, below = look.first, look.second
        if look.sign < 0:
            above, below = below, above

        yield (
            f"settled at look {look.look} ({look.windows} of {rule.looks[-1]} windows of"
            f" {pair.task}): {rule.metric} of {above} is above that of {below}"
        )


# ---- records kept by a worker or an observer


class LookBook(ValueFolder[PairLook]):
    """The recorded looks of a grid, whose files never change."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, LOOKS, PairLook)

    def record(self, look: PairLook) -> None:
        """Record a look. If another worker has already recorded it, use that record."""
        key = f"{LOOKS}/{look.name}.json"
        if not self.store.create(key, encode_value(look)):
            look = read_value(self.store, key, PairLook)

        self.values[look.name] = look


@dataclass
class PairSettlement:
    """Looks made by a worker: it makes all looks that the finished units allow, and lists the units
    that are not run.
    """

    record: GridRecord
    store: Store
    _book: LookBook = field(init=False)
    _figures: dict[str, float | None] = field(default_factory=dict)
    _seen: int = -1  # number of finished units at the last look
    _basis: tuple[int, int, Control] | None = None  # what the last result of `look` is based on
    _unrun: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._book = LookBook(self.store)
        self._units = {unit.id for _, unit in self.record.units()}

    def look(self, done: Iterable[str], control: Control) -> dict[str, str]:
        """Make and record the looks that are due. Return the units that are not run, with the
        reason. Raises StoreError.
        """
        if self.record.plan.settle is None:
            return {}

        finished = self._units.intersection(done)
        if len(finished) != self._seen:
            self._read_figures(finished)
            self._book.read()
            for look in list(looks_to_make(self.record, self._figures, self._book.values)):
                self._book.record(look)

            self._seen = len(finished)

        basis = (len(finished), len(self._book.values), control)
        if basis != self._basis:
            self._unrun = units_not_run(self.record, self._book.values, control, finished)
            self._basis = basis

        return self._unrun

    def _read_figures(self, finished: Iterable[str]) -> None:
        for unit in finished:
            if unit not in self._figures:
                self._figures[unit] = read_value(self.store, done_key(unit), UnitDone).figure
