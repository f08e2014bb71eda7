"""A grid's record made by hand: systems on one task and ten windows, compared at three looks."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from grid_store import record_of, small_plan
from ktdeval_grid.planning.plan import GridPlan
from ktdeval_grid.state.records import GridRecord, GridUnit

TASK = "blinded_open_research"
WINDOWS = tuple(f"W{number}" for number in range(1, 11))
RULE = {"metric": "total_return", "looks": [6, 8, 10], "effect": 0.01, "spending": "obrien-fleming"}


def plan_of_looks(**changes: Any) -> GridPlan:
    fields = {"windows": list(WINDOWS), "seeds": 1, "settle": RULE, "stop_when": "settled"}
    return small_plan(**{**fields, **changes})


def cell_id(system: int, place: int, seed: int = 0) -> str:
    return f"{system:02}{place:09}{seed:09}"


def record_of_looks(seeds: int = 1, **changes: Any) -> GridRecord:
    """A record of ten windows for each system, one unit for each seed."""
    record = record_of(plan_of_looks(seeds=seeds, **changes))
    systems = []
    for number, system in enumerate(record.systems):
        units = []
        for place, window in enumerate(WINDOWS):
            for seed in range(seeds):
                unit = cell_id(number, place, seed)
                units.append(GridUnit(id=unit, task=TASK, window=window, seed=seed))

        systems.append(structs.replace(system, units=tuple(units)))

    return structs.replace(record, systems=tuple(systems))
