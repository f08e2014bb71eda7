"""Order in which a worker takes the units of a grid, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ktdeval.values import derive_seed
from ktdeval_grid.state.records import GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.settled_pairs import blocks_of


@dataclass(frozen=True)
class UnitTurn:
    """A unit to be run, with its system."""

    system: str
    unit: GridUnit


def turns_of(record: GridRecord) -> list[UnitTurn]:
    """Return all units in the order in which a worker takes them.

    Systems take turns, so that a slow system does not hold up the others. Within a system, units
    are ordered by task, and randomly within a task. The random order is seeded by the mask key,
    since the plan's order is public: with that order, the first episode seen by an endpoint would
    come from the first window under any mask. If the plan compares systems at looks, the windows of
    an earlier look come first, again in random order.
    """
    blocks = blocks_of(record)
    columns = [_hidden_order(system, record.mask_key, blocks) for system in record.systems]
    mixed: list[UnitTurn] = []
    for row in zip_longest(*columns):
        mixed.extend(turn for turn in row if turn is not None)

    return mixed


def _hidden_order(system: GridSystem, mask_key: str, blocks: Mapping[str, int]) -> list[UnitTurn]:
    tasks = {unit.task: place for place, unit in reversed(list(enumerate(system.units)))}

    def place(unit: GridUnit) -> tuple[int, int, int]:
        return tasks[unit.task], blocks.get(unit.id, 0), derive_seed(mask_key, unit.id, "turn")

    return [UnitTurn(system.slug, unit) for unit in sorted(system.units, key=place)]


def share_of(total: int, workers: Sequence[str], worker: str) -> int:
    """Return how many of `total` concurrent episodes a live worker may run. The shares of all live
    workers sum to `total`.
    """
    names = sorted({*workers, worker})
    each, left = divmod(total, len(names))
    return each + (names.index(worker) < left)


def first_place_of(total: int, workers: Sequence[str], worker: str) -> int:
    """Return the number, counted from 0, of a worker's first slot among the grid's `total` slots,
    which `share_of` divides among the workers.
    """
    before = sorted(name for name in {*workers, worker} if name < worker)
    return sum(share_of(total, workers, name) for name in before)


def shares_of_providers(providers: Iterable[str], first: int, places: int) -> dict[str, int]:
    """Return how many of a worker's slots belong to each provider that has work left.

    The grid's slots are assigned to the providers in turn. `first`: number of the worker's first
    slot.
    """
    names = sorted(set(providers))
    shares = dict.fromkeys(names, 0)
    for place in range(first, first + places):
        if names:
            shares[names[place % len(names)]] += 1

    return shares


def tasks_of(units: Iterable[GridUnit]) -> list[str]:
    """Return the distinct tasks of units, in order."""
    return list(dict.fromkeys(unit.task for unit in units))
