"""Opening of a grid: who resolves its plan, when it is resolved anew, and systems that can't be."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import ktdeval
from ktdeval.errors import BudgetError, StoreError
from ktdeval.registry import load_plugins
from ktdeval.stores import LocalStore
from ktdeval.testing import on_each_row
from ktdeval.values import encode_canonical
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.planning.plan import GridPlan, plan_of
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.records import GridRecord, needed_by
from ktdeval_grid.workers.open_grid import GridOpening, open_grid, read_record
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders
from support.runs.run_support import MASK_KEY, TASK


@pytest.fixture
def plan(market: Path) -> GridPlan:
    return plan_of(
        {
            "models": ["builtin/hold"],
            "tasks": [TASK],
            "windows": ["2024-03-01:2024-03-08"],
            "data": str(market),
            "options": {"limit": 1},
            "mask_key": MASK_KEY,
        },
        "plan",
    )


def never(_seconds: float) -> None:
    raise AssertionError("nobody else resolves the plan")


def opening_of(folder: Path, **changes: Any) -> GridOpening:
    place = open_place(folder)
    board = ClaimBoard(place.store, "", "w", 60.0)
    board.beats.beat()
    parts = OpenRunFolders(place, "w", load_plugins())
    fields = {"board": board, "parts": parts, "wait": never, "launch": "0002"}

    return GridOpening(place, **{**fields, **changes})


def begun(folder: Path, plan: GridPlan, **changes: Any) -> GridRecord:
    """A grid that launch 0001 resolved; of its system, and of itself, some fields are others."""
    record = open_grid(plan, opening_of(folder, launch="0001"))
    (system,) = record.systems
    system = structs.replace(system, problem=changes.pop("problem", None), units=())
    record = structs.replace(record, systems=(system,), **changes)
    LocalStore(folder).replace("grid.json", encode_canonical(record).encode())

    return record


def amendments(folder: Path) -> list[str]:
    plans = folder / "plans"
    return sorted(path.name for path in plans.iterdir()) if plans.exists() else []


def test_a_grid_that_has_not_begun_has_no_record(tmp_path: Path) -> None:
    assert read_record(open_place(tmp_path)) is None


def test_the_launch_that_resolved_a_grid_is_recorded(plan: GridPlan, tmp_path: Path) -> None:
    record = open_grid(plan, opening_of(tmp_path))

    assert record.launch == "0002"
    assert record == read_record(open_place(tmp_path))
    assert LocalStore(tmp_path).read("done/open.json") == b"{}\n"


# ---- when a plan is resolved anew


@pytest.mark.slow
@on_each_row(
    "before, opened, resolves",
    ({}, {}, False),
    ({"problem": "down"}, {}, True),
    # a worker of the same launch
    ({"problem": "down"}, {"launch": "0001"}, False),
    # the worker itself is refused
    ({"suite": "0.0.9"}, {}, False),
    ({"suite": "0.0.9"}, {"is_driven": True}, True),
    ({"suite": "0.0.9"}, {"is_driven": True, "launch": "0001"}, False),
    ({"code": {}}, {"is_driven": True}, False),
    ({}, {"is_driven": True}, False),
)
def test_a_plan_is_resolved_anew_where_a_later_launch_may_change_it(
    before: dict[str, Any], opened: dict[str, Any], resolves: bool, plan: GridPlan, tmp_path: Path
) -> None:
    record = begun(tmp_path, plan, **before)

    found = open_grid(plan, opening_of(tmp_path, **opened))

    assert amendments(tmp_path) == ["0001.json"] * resolves
    assert (found != record) is resolves

    if resolves:
        assert found.suite == ktdeval.__version__
        assert [system.problem for system in found.systems] == [None]
        assert len(found.systems[0].units) == 1


def test_a_plan_is_amended_whatever_its_launch(plan: GridPlan, tmp_path: Path) -> None:
    begun(tmp_path, plan)
    longer = structs.replace(plan, seeds=2)

    found = open_grid(longer, opening_of(tmp_path, launch="0001"))

    assert amendments(tmp_path) == ["0001.json"]
    assert [unit.seed for _, unit in found.units()] == [0, 1]

    open_grid(structs.replace(plan, seeds=3), opening_of(tmp_path))

    assert amendments(tmp_path) == ["0001.json", "0002.json"]


def test_who_found_out_how_a_model_takes_tools_stays(plan: GridPlan, tmp_path: Path) -> None:
    begun(tmp_path, plan)
    opening = opening_of(tmp_path)
    parts = OpenRunFolders(opening.place, "another", load_plugins())

    found = open_grid(structs.replace(plan, seeds=2), opening_of(tmp_path, parts=parts))

    assert found.systems[0].checked_by == "w"


# ---- several workers


def test_a_worker_waits_while_another_resolves_the_plan(plan: GridPlan, tmp_path: Path) -> None:
    other = opening_of(tmp_path).board
    claim = other.claim("open")

    assert claim is not None

    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        claim.release()

    record = open_grid(plan, opening_of(tmp_path, wait=wait))

    assert waits == [0.1]
    assert record.launch == "0002"


class Unlucky(OpenRunFolders):
    """Run folders of a worker that is taken over while it resolves."""

    def resolve(self, *asked: Any) -> Any:
        store = self.place.store
        store.create("claims/open/0002.json", store.read("claims/open/0001.json"))
        return super().resolve(*asked)


def test_a_worker_that_was_taken_over_leaves_the_plan_to_the_other(
    plan: GridPlan, tmp_path: Path
) -> None:
    parts = Unlucky(open_place(tmp_path), "w", load_plugins())

    def wait(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_grid(plan, opening_of(tmp_path, parts=parts, wait=wait))

    assert read_record(open_place(tmp_path)) is None
    assert not (tmp_path / "done" / "open.json").exists()


def test_a_plan_that_can_not_be_resolved_leaves_the_job_to_others(
    plan: GridPlan, tmp_path: Path
) -> None:
    faulty = structs.replace(plan, data=str(tmp_path / "none"))
    opening = opening_of(tmp_path / "grid")

    with pytest.raises(Exception, match="none"):
        open_grid(faulty, opening)

    assert read_record(opening.place) is None
    assert open_grid(plan, opening_of(tmp_path / "grid")).launch == "0002"


# ---- systems that can't be resolved


def test_a_model_whose_server_is_down_has_no_units_and_a_problem(
    plan: GridPlan, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    down = {"name": "openai_compatible/m", "base_url": f"http://127.0.0.1:{port}/v1", "label": "m"}
    two = plan_of(
        {
            "models": [down, "builtin/hold"],
            "tasks": [TASK],
            "windows": ["2024-03-01:2024-03-08"],
            "data": plan.data,
            "options": {"limit": 1, "cache": "run", "max_retries": 0, "max_wait_s": 0},
        },
        "plan",
    )

    record = open_grid(two, opening_of(tmp_path))

    first, second = record.systems

    assert (first.slug, first.model, first.agent) == ("m_react", "m", "react")
    assert first.problem is not None
    assert f"127.0.0.1:{port}" in first.problem
    assert "\n" not in first.problem
    assert (first.units, first.needed, first.checked_by) == ((), None, None)
    assert (second.problem, len(second.units)) == (None, 1)
    assert record.snapshot is not None  # that of the second
    assert len(record.mask_key) == 32


def test_limits_are_needed_of_a_budget_alone() -> None:
    assert needed_by(BudgetError("over", needed={"max_cost": 2.0})) == {"max_cost": 2.0}
    assert needed_by(StoreError("full")) is None
    assert needed_by(None) is None
