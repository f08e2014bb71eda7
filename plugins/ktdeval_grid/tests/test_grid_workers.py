"""Processes of a launch: how they are started, waited for and stopped, and what one is told to do."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grid_store import small_plan
from ktdeval.errors import PluginError, UsageError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import Plugins, load_plugins
from ktdeval.stores import LocalStore
from ktdeval.task_api import WorkerJob
from ktdeval.values import encode_canonical
from ktdeval_grid.launch.launch_workers import _Signals, start_workers, wait_for
from ktdeval_grid.state.records import Launch, launch_key
from ktdeval_grid.workers.worker_command import _options, _report_line, stopping_on_signals
from ktdeval_grid.workers.worker_session import GridSession, WorkerOptions, WorkerReport

JOB = WorkerJob(("grid", "worker"), workers=1)


class Workers:
    """Workers whose exit codes are known after some looks; it keeps what was asked of them."""

    def __init__(self, *codes: Sequence[int | None]) -> None:
        self.codes = list(codes)
        self.asked: list[str] = []

    def exit_codes(self) -> Sequence[int | None]:
        return self.codes.pop(0)

    def stop(self) -> None:
        self.asked.append("stop")

    def kill(self) -> None:
        self.asked.append("kill")

    def close(self) -> None:
        self.asked.append("close")


class Backends:
    """A plugin with an execution backend that starts workers, one that starts none, and others."""

    def __init__(self, workers: Any) -> None:
        self.workers = workers

    def run(self, *_: Any) -> Any:
        """Run no episode."""

    @hookimpl
    def ktdeval_runners(self) -> list[Spec]:
        starting = type(
            "Starting", (), {"run": self.run, "start_workers": lambda _self, _job: self.workers}
        )
        alone = type("Alone", (), {"run": self.run})
        return [Spec("starting", starting, "starts"), Spec("alone", alone, "starts none")]


def plugins_of(workers: Any) -> Plugins:
    plugins = load_plugins()
    plugins.add(Backends(workers), "backends")
    return plugins


# ---- starting


def test_workers_are_those_that_the_backend_starts() -> None:
    workers = Workers([0])

    assert start_workers(plugins_of(workers), "starting", JOB) is workers


def test_a_backend_that_starts_no_workers_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match=r"^--runner alone: starts no workers of a grid; name"):
        start_workers(plugins_of(None), "alone", JOB)


def test_a_backend_that_starts_something_else_is_named_with_its_plugin() -> None:
    with pytest.raises(
        PluginError, match=r"^runner starting of plugin backends: .* must return RunningWorkers$"
    ):
        start_workers(plugins_of([]), "starting", JOB)


# ---- waiting


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were to be waited, which pass at once."""
    waits: list[float] = []
    monkeypatch.setattr("ktdeval_grid.launch.launch_workers.time.sleep", waits.append)
    return waits


def test_workers_are_looked_at_until_all_have_ended(no_sleep: list[float]) -> None:
    workers = Workers([None, None], [0, None], [0, 3])
    ticks: list[int] = []

    codes = wait_for(workers, lambda: ticks.append(len(workers.codes)))

    assert codes == [0, 3]
    assert ticks == [2, 1]
    assert no_sleep == [0.1, 0.1]
    assert workers.asked == ["close"]


def test_workers_are_let_go_where_a_look_fails() -> None:
    workers = Workers([None])

    def fail() -> None:
        raise UsageError("no grid")

    with pytest.raises(UsageError):
        wait_for(workers, fail)

    assert workers.asked == ["close"]


def test_a_first_signal_stops_workers_and_a_second_kills_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers()
    signals = _Signals(workers)
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)

    for _ in range(3):
        signals.pass_on(signal.SIGINT, None)

    assert workers.asked == ["stop", "kill"]
    assert ended == [130]


def test_handlers_of_signals_are_those_of_before_once_workers_have_ended(
    no_sleep: list[float],
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    during: list[Any] = []
    workers = Workers([None], [0])

    wait_for(workers, lambda: during.append(signal.getsignal(signal.SIGTERM)))

    assert during[0] not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_launch_whose_workers_were_stopped_ends_by_an_interrupt(no_sleep: list[float]) -> None:
    workers = Workers([None], [0])

    def interrupt() -> None:
        handler: Any = signal.getsignal(signal.SIGTERM)
        handler(signal.SIGTERM, None)

    with pytest.raises(KeyboardInterrupt):
        wait_for(workers, interrupt)

    assert workers.asked == ["stop", "close"]


# ---- what a worker is told


def test_a_worker_of_a_file_has_its_plan_and_a_launch_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("models: [builtin/hold]\ntasks: [t]\n")

    options = _options(path, "lab", None)

    assert (options.plan.name, options.out, options.launch) == ("plan", "lab", None)
    assert (options.only_failed, options.lease_s) == (False, 60.0)


@pytest.mark.parametrize("only", ["all", "failed"])
def test_a_worker_of_a_launch_has_the_plan_that_was_recorded(only: Any, tmp_path: Path) -> None:
    launch = Launch(
        id="0007",
        plan=small_plan(),
        workers=1,
        runner="local",
        begun_at="2026-01-05T12:00:00+00:00",
        host="here",
        pid=1,
        only=only,
    )
    LocalStore(tmp_path).create(launch_key("0007"), encode_canonical(launch).encode())

    options = _options(None, str(tmp_path), "0007")

    assert (options.plan, options.launch) == (small_plan(), "0007")
    assert options.only_failed is (only == "failed")


@pytest.mark.parametrize(("plan", "launch"), [(Path("p.yaml"), "0001"), (None, None)])
def test_a_worker_is_told_a_plan_or_a_launch(plan: Path | None, launch: str | None) -> None:
    with pytest.raises(UsageError, match=r"^name a plan, PLAN.yaml, or a launch, --launch ID; one"):
        _options(plan, "lab", launch)


def test_a_worker_says_how_much_of_the_grid_is_done() -> None:
    report = WorkerReport(Path("lab"), "node-1", planned=8, done=5, failed=1, problems=())

    assert _report_line(report) == "worker node-1: 5 of 8 episodes of the grid are done"


def test_a_first_signal_stops_a_session_and_a_second_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    session = GridSession(WorkerOptions(small_plan(), str(tmp_path)), load_plugins())
    before = signal.getsignal(signal.SIGTERM)

    with stopping_on_signals(session):
        handler: Any = signal.getsignal(signal.SIGTERM)
        handler(signal.SIGTERM, None)
        assert session.is_stopping
        assert ended == []
        handler(signal.SIGTERM, None)

    assert ended == [130]
    assert signal.getsignal(signal.SIGTERM) == before
