"""A process that works on a grid: its name, heartbeat and open parts, from start to end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.calls import BATCHES
from ktdeval.errors import BudgetError, EpisodeFailure, KtdevalError, StoreError
from ktdeval.registry import Plugins
from ktdeval.stores import Store, value_name
from ktdeval_grid.coordination.claims import ClaimBoard
from ktdeval_grid.planning.plan import GridPlan, batched_systems
from ktdeval_grid.state.layout import GridPlace, open_place
from ktdeval_grid.state.records import FAILED, GridRecord, UnitFailed, needed_by
from ktdeval_grid.workers.gather_runs import AtEnd, Gathering
from ktdeval_grid.workers.grid_observer import GridView, WorkerLiveness
from ktdeval_grid.workers.open_grid import GridOpening, check_code, open_grid, read_record
from ktdeval_grid.workers.run_unit import UnitRunner
from ktdeval_grid.workers.shared_budget import grid_allowance
from ktdeval_grid.workers.worker_loop import Worker
from ktdeval_grid.workers.worker_names import WorkerName
from ktdeval_grid.workers.worker_run_folders import OpenRunFolders

LEASE_S = 60.0


@dataclass(frozen=True)
class WorkerOptions:
    """Settings for a single worker of a grid."""

    plan: GridPlan
    out: str  #: place of the grid
    only_failed: bool = False  #: run only units that failed before this worker started
    lease_s: float = LEASE_S  #: silence after which other workers take over a worker's claims
    launch: str | None = None  #: id shared by a launch's workers; None: a separate launch


@dataclass(frozen=True)
class WorkerReport:
    """Result of a single worker of a grid."""

    place: Path
    name: str
    planned: int  #: number of units in the grid
    done: int  #: number of units done by all workers
    failed: int  #: number of failed units, not counting units stopped by a budget
    #: why systems or jobs were given up here, and why units failed; one line each
    problems: tuple[str, ...]
    is_stopped: bool = False  #: whether work ended here only because of a budget
    settled: int = 0  #: number of units not run because their system's order is settled


class GridSession:
    """A process that works on a grid. `stop` ends it between steps."""

    def __init__(
        self, options: WorkerOptions, plugins: Plugins, at_end: AtEnd | None = None
    ) -> None:
        self._options = options
        self._plugins = plugins
        self._at_end = at_end
        self._stopping = threading.Event()
        self._worker: Worker | None = None
        self._launch = options.launch or uuid.uuid4().hex

    @property
    def is_stopping(self) -> bool:
        """True if the session was stopped."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End after the steps in progress. Safe in a signal handler and on any thread."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.stop()

    def run(self) -> WorkerReport:
        """Work on the grid until nothing is left to do.

        Raises KtdevalError; KeyboardInterrupt after `stop`.
        """
        options = self._options
        place = open_place(options.out)
        with ExitStack() as stack:
            name = stack.enter_context(WorkerName(place)).name
            _check_batches(options.plan, place, name)
            board = ClaimBoard(place.store, "", name, options.lease_s, previous_ended=True)
            board.start()
            stack.callback(board.close)
            allowance = grid_allowance(options.plan, place, board.beats)
            parts = stack.enter_context(OpenRunFolders(place, name, self._plugins, allowance))
            only = failed_units(place.store) if options.only_failed else None
            opening = GridOpening(
                place,
                board,
                parts,
                self._wait,
                self._launch,
                is_driven=options.launch is not None,
            )
            record = open_grid(options.plan, opening)
            while True:
                check_code(record, self._plugins)
                report = self._work(record, place, board, parts, only)
                latest = read_record(place)
                if latest is None or latest == record:  # the plan was not amended in the meantime
                    return report

                record = latest

    def _work(
        self,
        record: GridRecord,
        place: GridPlace,
        board: ClaimBoard,
        parts: OpenRunFolders,
        only: frozenset[str] | None,
    ) -> WorkerReport:
        """Work on the grid as defined by one of its records."""
        view = GridView(place.store, board, WorkerLiveness(self._options.lease_s), self._launch)
        view.warn = _warn
        runner = UnitRunner(record, place, parts, view)
        gathering = Gathering(record, place, board, view, runner.part, self._at_end)
        worker = Worker(record, board, view, runner, gathering, only)
        self._worker = worker
        try:
            if self._stopping.is_set():  # stopped before a worker existed
                raise KeyboardInterrupt

            worker.work()
        finally:
            self._worker = None
            _settle(parts)

        view.look(at_once=True)
        return _worker_report(record, place, worker, parts.worker)

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise KeyboardInterrupt


def _check_batches(plan: GridPlan, place: GridPlace, name: str) -> None:
    """Raise StoreError if another worker has batches for this grid, which only that worker can
    collect.
    """
    if not batched_systems(plan):
        return

    for other in place.workers():
        if other != name and next(place.parts(other).glob(f"*/{BATCHES}"), None) is not None:
            raise StoreError(
                f"{place.root}: its batches are those of the worker {other}, and a grid with"
                " --batch has one worker; wait until that one has ended, and run the same command"
                " on its machine"
            )


def _warn(sentence: str) -> None:
    click.echo(f"ktdeval: warning: {sentence}", err=True)


def _settle(parts: OpenRunFolders) -> None:
    """Close all parts, and give back what their calls have drawn but not used."""
    parts.close()
    if parts.allowance is not None:
        parts.allowance.give_back_all()


def failed_units(store: Store) -> frozenset[str]:
    """Return the units with a failure record."""
    return frozenset(value_name(stat.key) for stat in store.list(FAILED))


def _worker_report(record: GridRecord, place: GridPlace, worker: Worker, name: str) -> WorkerReport:
    units = {unit.id for _, unit in record.units()}
    ended = []
    for unit, failure in worker.view.failed.items():
        if unit in units and unit not in worker.view.done:
            ended.append(failure)

    failed = [failure for failure in ended if not failure.is_stopped]
    problems = [
        f"{system.slug}: {system.problem}"
        for system in record.systems
        if system.problem is not None
    ]
    problems += [f"{slug}: {problem}" for slug, problem in worker.runner.stopped.items()]
    problems += [f"{job}: {problem}" for job, problem in worker.gathering.problems.items()]
    problems += [f"{failure.system}: {failure.error}" for failure in failed]
    return WorkerReport(
        place=place.root,
        name=name,
        planned=len(units),
        done=len(units & worker.view.done),
        failed=len(failed),
        settled=len(units & worker.view.unrun.keys()),
        problems=tuple(" ".join(line.split()) for line in problems),
        is_stopped=_only_budgets(record, ended, worker.runner.stopped.values()),
    )


def _only_budgets(
    record: GridRecord, ended: Iterable[UnitFailed], stops: Iterable[KtdevalError]
) -> bool:
    """Return whether only budgets ended units, ended the work here, or kept systems from being
    resolved.
    """
    needed = [needed_by(stop) for stop in stops]
    needed += [failure.needed for failure in ended]
    for system in record.systems:
        if system.problem is not None:
            needed.append(system.needed)

    return bool(needed) and None not in needed


def check_report(report: WorkerReport) -> None:
    """Raise an error if the work is not complete.

    Raises BudgetError if the work ended only because of a budget; EpisodeFailure if a unit is not
    done for another reason, or if a system or job was given up.
    """
    left = report.planned - report.done - report.settled
    if not left and not report.problems:
        return

    message = (
        f"{left} of {report.planned} episodes are not finished, {report.failed} of them failed"
    )
    if report.problems:
        message += f"; {report.problems[0]}"

    kind = BudgetError if report.is_stopped and not report.failed else EpisodeFailure
    raise kind(f"{message}; run the same command again to resume")
