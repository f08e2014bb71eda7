"""A grid's store made by hand: two models on one task, two windows and two seeds, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ktdeval.stores import LocalStore
from ktdeval.values import Value, encode_canonical
from ktdeval_grid.planning.plan import GridPlan, plan_of, systems
from ktdeval_grid.state.records import (
    GRID,
    GRID_VERSION,
    GridRecord,
    GridSystem,
    GridUnit,
    PrunedUnits,
    UnitDone,
    UnitFailed,
    done_key,
    failed_key,
)

MODELS = ("builtin/momentum", "builtin/reversal")
NOON = "2026-01-05T12:00:00+00:00"


def small_plan(**changes: Any) -> GridPlan:
    fields = {
        "name": "small",
        "models": list(MODELS),
        "tasks": ["blinded_open_research"],
        "windows": ["W1", "W2"],
        "seeds": 2,
    }
    return plan_of({**fields, **changes}, "plan.yaml")


def unit_id(system: int, index: int) -> str:
    return f"{system:02}{index:018}"


def units_of(system: int) -> tuple[GridUnit, ...]:
    """The four units of a system, by number."""
    cells = product(("W1", "W2"), (0, 1))
    return tuple(
        GridUnit(id=unit_id(system, index), task="blinded_open_research", window=window, seed=seed)
        for index, (window, seed) in enumerate(cells)
    )


def record_of(plan: GridPlan, pruned: Sequence[int] = ()) -> GridRecord:
    """The record of a small plan; of each system, the units with these numbers are pruned."""
    made = []
    for number, system in enumerate(systems(plan)):
        units = units_of(number)
        kept = tuple(unit for index, unit in enumerate(units) if index not in pruned)
        left_out = tuple(unit for index, unit in enumerate(units) if index in pruned)
        rules = ()
        if left_out:
            rules = (PrunedUnits(rule="by_hand", reason="nothing is learnt", units=left_out),)

        made.append(
            GridSystem(
                slug=system.slug,
                model=system.model.short,
                agent=system.agent.short,
                tool_protocol=None,
                price=None,
                units=kept,
                pruned=rules,
            )
        )

    return GridRecord(
        version=GRID_VERSION,
        suite="0",
        plan=plan,
        mask_key="5eed" * 8,
        snapshot="0" * 64,
        begun_at=NOON,
        systems=tuple(made),
    )


def done(unit: str, **changes: Any) -> UnitDone:
    fields = {
        "unit": unit,
        "system": "builtin-momentum_react",
        "worker": "w",
        "generation": 1,
        "seconds": 60.0,
        "steps": 3,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0.25,
        "finished_at": NOON,
    }
    return UnitDone(**{**fields, **changes})


def failure(unit: str, error: str, **changes: Any) -> UnitFailed:
    fields = {
        "unit": unit,
        "system": "builtin-momentum_react",
        "error": error,
        "worker": "w",
        "generation": 1,
        "requeued": 0,
        "launch": "0001",
    }
    return UnitFailed(**{**fields, **changes})


class HandMade:
    """A store with the record of a grid; what its units have come to is put in one by one."""

    def __init__(self, folder: Path, record: GridRecord) -> None:
        self.store = LocalStore(folder)
        self.record = record
        self._put(GRID, record)

    def finish(self, entry: UnitDone) -> None:
        self._put(done_key(entry.unit), entry)

    def fail(self, entry: UnitFailed) -> None:
        self._put(failed_key(entry.unit), entry)

    def _put(self, key: str, value: Value) -> None:
        self.store.replace(key, encode_canonical(value).encode())
