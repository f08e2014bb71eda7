"""Order in which a worker takes the units of a grid, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ktdeval.errors import UsageError
from ktdeval.values import derive_seed
from ktdeval_grid.state.records import GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.settled_pairs import blocks_of


@dataclass(frozen=True)
class Shard:
    """Units of a grid that a worker takes first: every `count`-th unit, starting with number
    `index` (counted from 1).
    """

    index: int = 1
    count: int = 1


@dataclass(frozen=True)
class UnitTurn:
    """A unit to be run, with its system."""

    system: str
    unit: GridUnit


def parse_shard(text: str) -> Shard:
    """Parse `i/n`, such as `2/8`. Raises UsageError."""
    index, _, count = text.partition("/")
    if not (index.isascii() and count.isascii() and index.isdigit() and count.isdigit()):
        raise UsageError(f"--shard {text}: expected i/n with i from 1 to n, such as 2/8")

    shard = Shard(int(index), int(count))
    if not 1 <= shard.index <= shard.count:
        raise UsageError(f"--shard {text}: i must be from 1 to n, such as 2/8")

    return shard


def turns_of(record: GridRecord, shard: Shard) -> list[UnitTurn]:
    """Return all units in the order in which a worker takes them: those in its own shard, then
    those in other shards, so that no worker is idle.

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

    first = (shard.index - 1) % max(len(mixed), 1)
    own = [turn for place, turn in enumerate(mixed) if place % shard.count == shard.index - 1]
    rotated = [*mixed[first:], *mixed[:first]]
    mine = {turn.unit.id for turn in own}
    return [*own, *(turn for turn in rotated if turn.unit.id not in mine)]


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
