"""Driver of a launch: record the launch, start workers, watch them, and report how the launch
ended.

The driver itself does no computation. Workers, which may be forks of the driver, open the grid, run
it, and make cards, tables and pages. If the driver dies, the same command resumes from the store.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.cli import plugin_words
from ktdeval.errors import BudgetError, EpisodeFailure, UsageError
from ktdeval.registry import Plugins
from ktdeval.stores import encode_value
from ktdeval.task_api import WorkerJob
from ktdeval.values import Address, Value, decode_json
from ktdeval_grid.launch.launch_display import LaunchWatcher
from ktdeval_grid.launch.launch_workers import start_workers, wait_for
from ktdeval_grid.planning.plan import GridPlan
from ktdeval_grid.state.layout import GridPlace
from ktdeval_grid.state.printed_status import failure_lines
from ktdeval_grid.state.records import (
    GRID,
    LAUNCHES,
    Launch,
    LaunchEnd,
    launch_end_key,
    launch_key,
)
from ktdeval_grid.state.status import GridStatus, look, now_utc, reader_of

LOGS = "logs"

_LOOK_S = 1.0  #: time between two looks at the store
_MAX_SHARE = 10  #: minimum pause after a look, as a multiple of the look's duration
_ERROR = re.compile(r"ktdeval: (?:error|stopped): (.*)")
_MAX_LOG_BYTES = 100_000  #: number of bytes of a worker's log that are searched for its error


class Request(Value, kw_only=True):
    """Instructions for a driver, in the form in which they are passed to a separate process."""

    plan: GridPlan
    out: Address
    workers: int
    runner: str
    only: Literal["all", "failed"] = "all"
    words: tuple[str, ...] = ()  #: words that began the launch on the command line


@dataclass(frozen=True)
class LaunchResult:
    """Result of a launch."""

    launch: str
    exit_code: int
    status: GridStatus | None  #: None if the grid could not be opened
    problems: tuple[str, ...]  #: one line for each kind of problem
    site: Path | None


class Driver:
    """A single launch of a grid."""

    def __init__(
        self, request: Request, place: GridPlace, plugins: Plugins, *, may_fork: bool = False
    ) -> None:
        self._may_fork = may_fork
        self._request = request
        self._place = place
        self._plugins = plugins
        self._next_look_s = 0.0
        self.launch = self._record_launch()
        self._reader = reader_of(place.store, f"driver-{self.launch.id}")

    def run(self, watcher: LaunchWatcher) -> LaunchResult:
        """Start workers, and watch them until they end.

        Raises KtdevalError; KeyboardInterrupt after an interrupt.
        """
        if self._place.store.exists(GRID):
            watcher.begin(self._reader.look())

        workers = start_workers(self._plugins, self._request.runner, self._job())
        codes = wait_for(workers, lambda: self._look_in_time(watcher))
        return self._make_result(codes, self._look(watcher))

    def _record_launch(self) -> Launch:
        """Record the launch under the next free number."""
        store = self._place.store
        known = [stat.key.rpartition("/")[2] for stat in store.list(LAUNCHES)]
        number = 1 + max((int(name[:4]) for name in known if name[:4].isdigit()), default=0)
        while True:
            launch = Launch(
                id=f"{number:04}",
                plan=self._request.plan,
                only=self._request.only,
                workers=self._request.workers,
                runner=self._request.runner,
                begun_at=now_utc().isoformat(timespec="seconds"),
                host=socket.gethostname(),
                pid=os.getpid(),
            )
            if store.create(launch_key(launch.id), encode_value(launch)):
                return launch
            number += 1

    @property
    def logs(self) -> Path:
        """Folder for the logs of this launch's workers."""
        return self._place.root / LOGS / self.launch.id

    def _job(self) -> WorkerJob:
        words = ["grid", "worker", "--out", str(self._place.root), "--launch", self.launch.id]
        words += plugin_words(self._request.plan.plugin)
        return WorkerJob(
            tuple(words),
            workers=self._request.workers,
            logs=str(self.logs),
            may_fork=self._may_fork,
        )

    def _look_in_time(self, watcher: LaunchWatcher) -> None:
        """Look once a second, or less often if a look takes long."""
        began_s = time.monotonic()
        if began_s < self._next_look_s:
            return

        self._look(watcher)
        took_s = time.monotonic() - began_s
        self._next_look_s = time.monotonic() + max(_LOOK_S, took_s * _MAX_SHARE)

    def _look(self, watcher: LaunchWatcher) -> GridStatus | None:
        """Show the grid's status and return it; None before the grid is opened."""
        if not self._place.store.exists(GRID):
            return None

        found, status = look(self._reader)
        watcher.show(found, status)
        return status

    def _make_result(self, codes: list[int], status: GridStatus | None) -> LaunchResult:
        problems = tuple(self._problems(codes, status))
        exit_code = _exit_code(codes, status)
        site = self._place.root / "site" / "index.html"
        if status is not None:
            total = status.total
            end = LaunchEnd(
                id=self.launch.id,
                ended_at=now_utc().isoformat(timespec="seconds"),
                exit_code=exit_code,
                done=total.done,
                failed=total.failed,
                left=total.left,
                stopped=problems[0] if problems and not total.failed else None,
            )
            self._place.store.create(launch_end_key(self.launch.id), encode_value(end))

        return LaunchResult(
            launch=self.launch.id,
            exit_code=exit_code,
            status=status,
            problems=problems,
            site=site if site.is_file() else None,
        )

    def _problems(self, codes: list[int], status: GridStatus | None) -> Iterator[str]:
        """Yield one line for each kind of failure, then the errors that made workers end early."""
        if status is not None:
            yield from failure_lines(status)
        if not any(codes):
            return

        is_told = status is not None and _is_told(status)
        for line in worker_errors(self.logs):
            if not is_told or not line.endswith(_RESUMES):
                yield line


def _is_told(status: GridStatus) -> bool:
    """Return whether the recorded failures and stops explain all remaining units."""
    return bool(status.failures) and status.total.left == status.total.stopped


#: End of the line that a worker prints if it reports only that units remain
_RESUMES = "run the same command again to resume"


def worker_errors(logs: Path) -> Iterator[str]:
    """Yield the last error that each worker printed, without duplicates."""
    seen: dict[str, None] = {}
    if not logs.is_dir():
        return

    for path in sorted(logs.glob("*.log")):
        with path.open("rb") as stream:
            stream.seek(max(path.stat().st_size - _MAX_LOG_BYTES, 0))
            text = stream.read().decode("utf-8", errors="replace")

        errors = _ERROR.findall(text)
        if errors:
            seen[errors[-1]] = None

    yield from seen


def _exit_code(codes: list[int], status: GridStatus | None) -> int:
    """Return 0 if every unit is done, 2 if the grid could not be opened, 3 if workers ended only
    because of a budget, and 1 otherwise.
    """
    if status is None:
        return 2
    if status.is_finished and not any(codes):
        return 0

    is_stopped = set(codes) <= {0, BudgetError.exit_code} and any(codes)
    return BudgetError.exit_code if is_stopped and not status.total.failed else 1


def check_result(result: LaunchResult) -> None:
    """Raise an error if a launch ended early.

    Raises EpisodeFailure if some units are not done; BudgetError if the launch ended only because
    of a budget; UsageError if the grid could not be opened.
    """
    if result.exit_code == 0:
        return

    first = result.problems[0] if result.problems else "workers ended early; see their logs"
    if result.status is None:
        raise UsageError(first)

    total = result.status.total
    kind = BudgetError if result.exit_code == BudgetError.exit_code else EpisodeFailure
    raise kind(
        f"{total.left + total.failed} of {total.planned} episodes are not done; run the same "
        f"command again to resume ({first})"
    )


def read_request(data: bytes) -> Request:
    """Parse a request from JSON. Raises StoreError."""
    return decode_json(data, Request, "request of a driver")
