"""Driver of a launch: its number and record, the workers that it starts, what it says of their end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grid_launches import request_of
from grid_store import HandMade, done, failure, unit_id
from ktdeval.errors import BudgetError, EpisodeFailure, UsageError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import load_plugins
from ktdeval.stores import LocalStore
from ktdeval.task_api import WorkerJob
from ktdeval.testing import on_each_row
from ktdeval_grid.launch.driver import Driver, LaunchResult, check_result, worker_errors
from ktdeval_grid.launch.launch_display import PlainWatcher
from ktdeval_grid.state.layout import GridPlace, open_place

PRUNED = [3]

GOES_ON = "1 of 6 episodes are not finished, 0 of them failed; run the same command again to resume"


class EndedWorkers:
    """Execution backend whose workers have ended before anyone looks; it keeps their job."""

    def __init__(self, codes: Sequence[int], printed: Sequence[str] = ()) -> None:
        self.codes = codes
        self.printed = printed
        self.jobs: list[WorkerJob] = []

    def start_workers(self, job: WorkerJob) -> EndedWorkers:
        self.jobs.append(job)
        assert job.logs is not None

        Path(job.logs).mkdir(parents=True)

        for number, text in enumerate(self.printed):
            Path(job.logs, f"worker-{number}.log").write_text(text)

        return self

    def run(self, *_: Any) -> Any:
        """Run no episode: a grid asks for workers alone."""

    def exit_codes(self) -> Sequence[int]:
        return self.codes

    def stop(self) -> None:
        """Nothing runs."""

    def kill(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""

    @hookimpl
    def ktdeval_runners(self) -> list[Spec]:
        return [Spec("ended", lambda: self, "ended workers")]


def driver_of(folder: Path, workers: EndedWorkers) -> Driver:
    plugins = load_plugins()
    plugins.add(workers, "ended")
    request = request_of(folder, runner="ended")
    return Driver(request, open_place(folder), plugins)


def launched(folder: Path, codes: Sequence[int], printed: Sequence[str] = ()) -> LaunchResult:
    return driver_of(folder, EndedWorkers(codes, printed)).run(PlainWatcher())


def finish(grid: HandMade, units: int) -> None:
    """Finish so many units of a grid, in the order of its plan."""
    for _, unit in list(grid.record.units())[:units]:
        grid.finish(done(unit.id))


def record_at(folder: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / key).read_text())
    return found


# ---- the record of a launch


@on_each_row(
    "before, number",
    ([], "0001"),
    (["0001"], "0002"),
    (["0001", "0001-end", "0003"], "0004"),
    (["by-hand"], "0001"),
)
def test_a_launch_has_the_number_after_the_highest(
    before: Sequence[str], number: str, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path)
    for name in before:
        store.create(f"launches/{name}.json", b"{}")

    assert driver_of(tmp_path, EndedWorkers([0])).launch.id == number


class LateStore(LocalStore):
    """A store in which another driver records a launch after each listing."""

    def list(self, prefix: str) -> Any:
        yield from super().list(prefix)
        self.create("launches/0001.json", b"{}")


def test_of_two_drivers_at_once_the_later_has_the_next_number(tmp_path: Path) -> None:
    place = GridPlace(LateStore(tmp_path), tmp_path)
    driver = Driver(request_of(tmp_path), place, load_plugins())

    assert driver.launch.id == "0002"


def test_workers_are_started_with_the_words_of_their_launch(tmp_path: Path) -> None:
    workers = EndedWorkers([0])

    driver_of(tmp_path, workers).run(PlainWatcher())

    assert workers.jobs == [
        WorkerJob(
            ("grid", "worker", "--out", str(tmp_path), "--launch", "0001"),
            workers=2,
            logs=str(tmp_path / "logs" / "0001"),
        )
    ]


# ---- how a launch ends


@on_each_row(
    "units, codes, exit_code",
    (6, [0, 0], 0),
    # a worker failed after its last unit
    (6, [0, 1], 1),
    # workers that ended well have left one
    (5, [0, 0], 1),
    (5, [3, 0], 3),
    (5, [3, 3], 3),
    (5, [3, 1], 1),
    (6, [3, 0], 3),
)
def test_the_exit_code_says_what_ended_the_workers(
    units: int, codes: Sequence[int], exit_code: int, grid: HandMade, tmp_path: Path
) -> None:
    finish(grid, units)

    assert launched(tmp_path, codes).exit_code == exit_code


def test_a_failed_unit_is_no_end_by_a_budget(grid: HandMade, tmp_path: Path) -> None:
    finish(grid, 5)
    grid.fail(failure(unit_id(1, 2), "the server is down"))

    assert launched(tmp_path, [3]).exit_code == 1


def test_a_grid_that_could_not_be_opened_has_no_status(tmp_path: Path) -> None:
    result = launched(tmp_path, [2], ["ktdeval: error: no task is called so\n"])

    assert (result.exit_code, result.status) == (2, None)
    assert result.problems == ("no task is called so",)
    assert not (tmp_path / "launches" / "0001-end.json").exists()

    with pytest.raises(UsageError, match=r"^no task is called so$"):
        check_result(result)


def test_what_ended_the_workers_early_is_recorded_where_no_unit_failed(
    grid: HandMade, tmp_path: Path
) -> None:
    finish(grid, 5)

    launched(tmp_path, [1], ["ktdeval: error: the disk is full\n"])

    end = record_at(tmp_path, "launches/0001-end.json")

    assert end["stopped"] == "the disk is full"


def test_a_launch_that_ran_to_its_end_has_nothing_to_tell(grid: HandMade, tmp_path: Path) -> None:
    finish(grid, 6)

    result = launched(tmp_path, [0, 0], ["ktdeval: error: tried again, and done\n"])

    check_result(result)

    assert (result.launch, result.problems, result.site) == ("0001", (), None)

    end = record_at(tmp_path, "launches/0001-end.json")
    assert (end["done"], end["left"], end["stopped"]) == (6, 0, None)


@pytest.mark.parametrize(
    ("codes", "kind", "printed", "words"),
    [
        ([1], EpisodeFailure, "ktdeval: error: the disk is full\n", "the disk is full"),
        ([3], BudgetError, "ktdeval: stopped: --max-cost 1: reached\n", "--max-cost 1: reached"),
        ([1], EpisodeFailure, "killed", "workers ended early; see their logs"),
    ],
)
def test_an_early_end_is_raised_with_the_count_and_the_first_problem(
    codes: Sequence[int],
    kind: type[Exception],
    printed: str,
    words: str,
    grid: HandMade,
    tmp_path: Path,
) -> None:
    finish(grid, 4)
    result = launched(tmp_path, codes, [printed])

    with pytest.raises(kind) as raised:
        check_result(result)

    assert str(raised.value) == (
        f"2 of 6 episodes are not done; run the same command again to resume ({words})"
    )


# ---- what workers printed


def test_unit_stopped_by_a_budget_is_not_reported_as_abandoned(
    grid: HandMade, tmp_path: Path
) -> None:
    finish(grid, 5)
    grid.fail(failure(unit_id(1, 2), "--max-cost 1: reached", needed={"max_cost": 2.0}))
    printed = [f"ktdeval: stopped: {GOES_ON}\n", "ktdeval: error: the disk is full\n"]

    result = launched(tmp_path, [3, 1], printed)

    label = "builtin-reversal_react blinded_open_research W2 seed 0"

    assert result.problems == (
        f"1 stopped: --max-cost 1: reached ({label})",
        "the disk is full",
    )


@pytest.mark.parametrize("fails", [False, True])
def test_that_units_are_left_is_told_where_no_stop_says_why(
    fails: bool, grid: HandMade, tmp_path: Path
) -> None:
    finish(grid, 4)
    if fails:  # it says nothing of the sixth unit
        grid.fail(failure(unit_id(1, 1), "the server is down"))

    result = launched(tmp_path, [1], [f"ktdeval: error: {GOES_ON}\n"])

    assert result.problems[-1] == GOES_ON
    assert len(result.problems) == 1 + fails


def test_errors_are_the_last_of_each_log_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ktdeval: error: first\nktdeval: stopped: last\nbye\n")
    (tmp_path / "b.log").write_text("ktdeval: stopped: last\n")
    (tmp_path / "c.log").write_text("nothing to tell\n")
    (tmp_path / "d.log").write_bytes(b"ktdeval: error: no \xff UTF-8\n")
    (tmp_path / "notes.txt").write_text("ktdeval: error: of another file\n")

    assert list(worker_errors(tmp_path)) == ["last", "no � UTF-8"]


def test_error_is_searched_in_the_last_hundred_thousand_bytes_of_a_log(
    tmp_path: Path,
) -> None:
    line = "ktdeval: error: down\n"
    (tmp_path / "near.log").write_text(line + "." * (100_000 - len(line)))
    (tmp_path / "far.log").write_text(line.replace("down", "up") + "." * 100_000)

    assert list(worker_errors(tmp_path)) == ["down"]


def test_without_a_folder_of_logs_there_is_no_error(tmp_path: Path) -> None:
    assert list(worker_errors(tmp_path / "none")) == []
