"""Workers of a grid made by hand, in this process."""

from __future__ import annotations

from typing import Any

from grid_store import HandMade
from ktdeval.registry import load_plugins
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.workers.gather_runs import AtEnd, Gathering
from ktdeval_grid.workers.grid_observer import GridView, WorkerLiveness
from ktdeval_grid.workers.run_unit import UnitRunner
from ktdeval_grid.workers.worker_loop import Worker
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders


def board_of(grid: HandMade, name: str = "w") -> ClaimBoard:
    """Claims of a live worker."""
    board = ClaimBoard(grid.store, "", name, 60.0)
    board.beats.beat()
    return board


def worker_of(
    grid: HandMade, name: str = "w", at_end: AtEnd | None = None, **changes: Any
) -> Worker:
    """A worker that has looked at a grid once; `at_end`: its last job."""
    place = open_place(grid.store.root)
    board = board_of(grid, name)
    parts = OpenRunFolders(place, name, load_plugins())
    view = GridView(place.store, board, WorkerLiveness(60.0), "0001")
    runner = UnitRunner(grid.record, place, parts, view)
    gathering = Gathering(grid.record, place, board, view, runner.part, at_end)
    view.look(at_once=True)

    return Worker(grid.record, board, view, runner, gathering, **changes)
