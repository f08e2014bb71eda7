"""Order in which workers take the units of a grid, and their shares of its concurrency."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ktdeval_grid.planning.plan import GridPlan, PlannedModel
from ktdeval_grid.state.records import GRID_VERSION, GridRecord, GridSystem, GridUnit
from ktdeval_grid.state.unit_order import (
    first_place_of,
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


def ids(record: GridRecord) -> list[str]:
    return [turn.unit.id for turn in turns_of(record)]


@pytest.mark.exhaustive
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_every_unit_has_one_turn(sizes: list[int]) -> None:
    record = record_of(*sizes)

    assert sorted(ids(record)) == sorted(unit.id for _, unit in record.units())


def test_systems_take_turns_and_tasks_come_in_order() -> None:
    order = ids(record_of(2, 3))
    systems = [name.partition("-")[0] for name in order]
    tasks = [seed for name, _, seed in (name.partition("-") for name in order) if name == "1"]

    assert systems == ["0", "1", "0", "1", "1"]
    assert tasks[-1] == "2"  # the only unit of the second task


@pytest.mark.slow
@given(st.integers(0, 50), st.integers(1, 9))
def test_shares_of_live_workers_sum_to_the_concurrency_of_the_grid(total: int, count: int) -> None:
    workers = [f"w-{number}" for number in range(count)]
    shares = [share_of(total, workers, worker) for worker in workers]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


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
