"""What a worker sees of a grid: live workers, failures of this launch and of earlier ones; names of
workers; bytes that a grid takes.
"""

from __future__ import annotations

import os
from pathlib import Path

from grid_store import failure
from ktdeval.stores import Stat
from ktdeval.values import encode_canonical
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.state.grid_control import change_control, requeue_units
from ktdeval_grid.state.layout import bytes_kept, open_place
from ktdeval_grid.state.records import failed_key
from ktdeval_grid.workers.grid_observer import GridView, WorkerLiveness
from ktdeval_grid.workers.worker_names import WorkerName


def test_a_worker_lives_while_its_heartbeat_changes_within_a_lease() -> None:
    now = [0.0]
    liveness = WorkerLiveness(10.0, lambda: now[0])

    assert liveness.look([Stat("beats/a.json", 1, "1"), Stat("beats/b.json", 1, "1")]) == ["a", "b"]

    now[0] = 9.0
    assert liveness.look([Stat("beats/a.json", 1, "2"), Stat("beats/b.json", 1, "1")]) == ["a", "b"]

    now[0] = 11.0
    assert liveness.look([Stat("beats/a.json", 1, "2"), Stat("beats/b.json", 1, "1")]) == ["a"]


def test_a_name_is_free_again_only_when_its_process_has_closed_it(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    first = WorkerName(place)
    second = WorkerName(place)

    assert first.name != second.name

    first.close()

    with WorkerName(place) as third:
        assert third.name == first.name

    second.close()


def test_a_file_of_two_names_takes_its_bytes_once(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "ledger").write_bytes(os.urandom(100_000))
    once = bytes_kept(tmp_path)
    os.link(tmp_path / "parts" / "ledger", tmp_path / "run")

    assert bytes_kept(tmp_path) == once >= 100_000


def view_of(folder: Path, launch: str) -> GridView:
    place = open_place(folder)
    board = ClaimBoard(place.store, "", "worker", 60.0)
    return GridView(place.store, board, WorkerLiveness(60.0), launch)


def fail(folder: Path, unit: str, launch: str, requeued: int = 0) -> None:
    failed = failure(unit, "no", worker="other", launch=launch, requeued=requeued)
    open_place(folder).store.replace(failed_key(unit), encode_canonical(failed).encode())


def test_units_failed_in_an_earlier_launch_are_retried_but_not_in_this_one(
    tmp_path: Path,
) -> None:
    fail(tmp_path, "of-an-earlier-launch", "1")
    fail(tmp_path, "of-this-launch", "2")
    view = view_of(tmp_path, "2")
    view.look(at_once=True)

    assert not view.has_failed("of-an-earlier-launch")
    assert view.has_failed("of-this-launch")
    assert not view.has_failed("never-tried")

    fail(tmp_path, "of-an-earlier-launch", "3")  # by a worker that was started on its own
    view.look(at_once=True)

    assert view.has_failed("of-an-earlier-launch")


def test_a_requeued_unit_is_tried_again_once(tmp_path: Path) -> None:
    fail(tmp_path, "unit", "1")
    change_control(open_place(tmp_path).store, requeue_units(("unit",)))
    view = view_of(tmp_path, "1")
    view.look(at_once=True)

    assert not view.has_failed("unit")

    fail(tmp_path, "unit", "1", requeued=1)
    view.look(at_once=True)

    assert view.has_failed("unit")


def test_a_worker_goes_on_while_the_control_is_malformed_and_warns_once(tmp_path: Path) -> None:
    view = view_of(tmp_path, "1")
    warnings: list[str] = []
    view.warn = warnings.append
    control = tmp_path / "control.json"
    control.write_text('{"paused": true}')
    view.look(at_once=True)
    control.write_text('{"paused": ')

    for _ in range(3):
        view.look(at_once=True)

    assert view.control.paused
    assert len(warnings) == 1
    assert "control.json" in warnings[0]

    control.write_text('{"concurrency": 2}')
    view.look(at_once=True)

    assert (view.control.paused, view.control.concurrency) == (False, 2)

    control.write_text("{")
    view.look(at_once=True)

    assert view.control.concurrency == 2
    assert len(warnings) == 2
