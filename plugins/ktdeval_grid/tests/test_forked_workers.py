"""Workers of a launch as forks of this process: how they end, are started again, and stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grid_store import HandMade, record_of, small_plan
from ktdeval.errors import StoreError
from ktdeval.task_api import WITH_PARENT, WorkerJob
from ktdeval_builtin.worker_processes import RESTARTS, WorkerProcesses
from ktdeval_grid.outputs.final_outputs_process import WaitingTables
from ktdeval_grid.state.layout import open_place

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux alone"),
    pytest.mark.usefixtures("alone"),
]


def replaced_by(monkeypatch: pytest.MonkeyPatch, worker: Callable[[], int]) -> None:
    """Run a function in the place of the command of a worker."""
    monkeypatch.setattr("ktdeval.cli.main.main", lambda _words: worker())


def job(folder: Path, workers: int = 2) -> WorkerJob:
    return WorkerJob(("grid", "worker"), workers=workers, logs=str(folder), may_fork=True)


def codes_of(workers: WorkerProcesses) -> list[int | None]:
    """Exit codes once all have ended."""
    codes: list[int | None] = [None]
    while None in codes:
        for worker in workers._workers:
            worker.process.wait()

        codes = list(workers.exit_codes())  # starts those again that were killed

    return codes


def wait_for_end_of_input() -> int:
    return len(os.read(0, 1))


@pytest.mark.slow
def test_forked_workers_print_to_their_logs_and_end_with_their_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker() -> int:
        print(os.environ[WITH_PARENT])
        print("late", file=sys.stderr)
        return 3

    replaced_by(monkeypatch, worker)
    workers = WorkerProcesses(job(tmp_path))

    assert codes_of(workers) == [3, 3]
    workers.close()
    for log in ("worker-1.log", "worker-2.log"):
        assert sorted((tmp_path / log).read_text().split()) == ["1", "late"]


@pytest.mark.slow
def test_a_killed_fork_is_started_again_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    replaced_by(monkeypatch, worker)
    workers = WorkerProcesses(job(tmp_path, 1))
    first = workers.pids

    assert codes_of(workers) == [-signal.SIGKILL]
    assert workers.pids != first
    assert workers._workers[0].restarts == RESTARTS
    workers.close()


@pytest.mark.exhaustive
def test_workers_see_their_parents_end_while_other_workers_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced_by(monkeypatch, wait_for_end_of_input)
    workers = WorkerProcesses(job(tmp_path, 3))
    os.close(workers._alive)  # as the end of this process would
    workers._is_closed = True

    assert codes_of(workers) == [0, 0, 0]
    os.close(workers._alive_read)
    workers.close()


@pytest.mark.slow
def test_stopped_workers_get_an_interrupt_and_killed_ones_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker() -> int:
        try:
            return wait_for_end_of_input()
        except KeyboardInterrupt:
            return 130

    replaced_by(monkeypatch, worker)
    stopped = WorkerProcesses(job(tmp_path, 1))
    stopped.stop()

    assert codes_of(stopped)[0] in (130, -signal.SIGINT, 1)
    stopped.close()

    killed = WorkerProcesses(job(tmp_path, 1))
    killed.kill()

    assert codes_of(killed) == [-signal.SIGKILL]
    killed.close()


# ---- tables and pages


def test_waiting_fork_makes_tables_only_when_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(small_plan())
    HandMade(tmp_path, record)
    place = open_place(tmp_path)
    replaced_by(monkeypatch, lambda: (tmp_path / "made").write_text("") or 0)

    with WaitingTables(place):
        pass

    assert not (tmp_path / "made").exists()

    with WaitingTables(place) as tables:
        tables(place, record)

    assert (tmp_path / "made").exists()


def test_a_waiting_fork_that_fails_says_why_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(small_plan())
    HandMade(tmp_path, record)
    place = open_place(tmp_path)

    def fail() -> int:
        print("note\nktdeval: error: no card\n is there", file=sys.stderr)
        return 2

    replaced_by(monkeypatch, fail)

    with (
        WaitingTables(place) as tables,
        pytest.raises(StoreError, match=r"^tables and pages: no card is there; make them by"),
    ):
        tables(place, record)
