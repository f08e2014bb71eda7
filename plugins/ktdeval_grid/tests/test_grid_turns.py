"""Order in which workers take the units of a grid, and their shares of its concurrency."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import UsageError
from ktdeval_grid.planning.plan import GridPlan, PlannedModel
from ktdeval_grid.state.records import GRID_VERSION, GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.unit_order import (
    Shard,
    first_place_of,
    parse_shard,
    share_of,
    shares_of_providers,
    turns_of,
)


def record_of(*sizes: int) -> GridRecord:
    """A grid whose systems have so many units each, of two tasks."""
    systems = []
    for number, size in enumerate(sizes):
        units = []
        for seed in range(size):
            task = "first" if seed < size / 2 else "second"
            units.append(GridUnit(id=f"{number}-{seed}", task=task, window="W1", seed=seed))

        system = GridSystem(
            slug=f"system-{number}",
            model=f"model-{number}",
            agent="react",
            tool_protocol=None,
            price=None,
            units=tuple(units),
        )
        systems.append(system)

    return GridRecord(
        version=GRID_VERSION,
        suite="0",
        plan=GridPlan(models=(PlannedModel(name="builtin/hold"),), tasks=("first", "second")),
        mask_key="0" * 32,
        snapshot=None,
        begun_at="2026-01-01T00:00:00+00:00",
        systems=tuple(systems),
    )


def ids(record: GridRecord, shard: Shard | None = None) -> list[str]:
    return [turn.unit.id for turn in turns_of(record, shard or Shard())]


@pytest.mark.exhaustive
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 6))
def test_shards_part_all_units_and_each_goes_on_with_those_of_others(
    sizes: list[int], count: int
) -> None:
    record = record_of(*sizes)
    every = ids(record)

    assert sorted(every) == sorted(unit.id for _, unit in record.units())

    firsts = []

    for index in range(1, count + 1):
        order = ids(record, Shard(index, count))
        assert sorted(order) == sorted(every)
        own = len(every[index - 1 :: count])
        firsts += order[:own]

    assert sorted(firsts) == sorted(every)


def test_a_worker_begins_with_every_second_unit_from_its_own_on() -> None:
    every = ids(record_of(5))
    first = ids(record_of(5), Shard(1, 2))
    second = ids(record_of(5), Shard(2, 2))

    assert first == [every[place] for place in (0, 2, 4, 1, 3)]
    assert second == [every[place] for place in (1, 3, 2, 4, 0)]


@pytest.mark.slow
@given(st.integers(0, 50), st.integers(1, 9))
def test_shares_of_live_workers_sum_to_the_concurrency_of_the_grid(total: int, count: int) -> None:
    workers = [f"w-{number}" for number in range(count)]
    shares = [share_of(total, workers, worker) for worker in workers]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/2", "1/0", "-1/2", "1/2/3", "²/3"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 2/8"):
        parse_shard(text)


def test_a_shard_is_read() -> None:
    assert parse_shard("2/8") == Shard(2, 8)


@pytest.mark.slow
@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 5))
def test_places_of_all_workers_belong_to_providers_in_turn(
    total: int, count: int, providers: int
) -> None:
    workers = [f"w-{number}" for number in range(count)]
    names = [f"p-{number}" for number in range(providers)]
    sums = dict.fromkeys(names, 0)

    for worker in workers:
        places = share_of(total, workers, worker)
        first = first_place_of(total, workers, worker)
        for name, share in shares_of_providers(names, first, places).items():
            sums[name] += share

    assert sum(sums.values()) == total
    assert max(sums.values()) - min(sums.values()) <= 1
