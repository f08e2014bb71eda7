"""Runner that starts the workers of a grid on a Ray cluster.

Ray only starts the command `ktdeval grid worker` on its nodes, and restarts it if a node is lost.
Open and finished work is recorded only in the grid's store: a grid resumes from that store, never
from Ray.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ktdeval.errors import UsageError
from ktdeval.task_api import EpisodeOutcome, EpisodeSpec, RunningWorkers, WorkerJob
from ktdeval.values import import_problem, install_command, make_folder
from ktdeval_ray.node import NodeCommand, WorkerEnd, run_on_node

#: variable with the address of the cluster, which Ray's own tools use as well
ADDRESS = "RAY_ADDRESS"
RESTARTS = 20  #: how often a worker is restarted if its node is lost
_LOST = 1  #: exit code of a worker that Ray could not run to its end


class RayRunner:
    """Starts workers on the cluster at `$RAY_ADDRESS`, or on this machine if the variable is not
    set.
    """

    def run(
        self,
        specs: Sequence[EpisodeSpec],  # noqa: ARG002 - none can be run
        execute: Callable[[EpisodeSpec], EpisodeOutcome],  # noqa: ARG002
        concurrency: int,  # noqa: ARG002
    ) -> NoReturn:
        """Raise UsageError, because a single run has one folder, which only one process may hold."""
        raise UsageError(
            "--runner ray: runs only grids, whose workers share a store; run `ktdeval grid "
            "PLAN.yaml --runner ray`, or leave --runner out"
        )

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start the workers of a job; see `ktdeval.task_api.WorkersRunner`. Raises UsageError if
        Ray is not installed, or if its cluster does not answer.
        """
        return RayWorkers(_ray(), job)


class RayWorkers:
    """Workers of a job on a cluster; see `ktdeval.task_api.RunningWorkers`."""

    def __init__(self, ray: ModuleType, job: WorkerJob) -> None:
        """Connect to the cluster, and start one task per worker, spread over the nodes."""
        self._ray = ray
        self._job = job
        self._is_own_connection = not ray.is_initialized()
        if self._is_own_connection:
            _connect(ray)

        # One worker keeps one processor busy. Tasks are retried only if a node or process is lost;
        # a worker that fails on its own returns its exit code.
        start = ray.remote(
            num_cpus=1, max_retries=RESTARTS, scheduling_strategy="SPREAD", max_calls=1
        )(run_on_node)
        command = NodeCommand(
            arguments=job.arguments,
            environment=dict(job.environment),
            inherited=_present(job.inherited),
            folder=str(Path.cwd()),
        )
        self._tasks = [start.remote(command) for _ in range(job.workers)]
        self._ends: dict[int, WorkerEnd] = {}

    def exit_codes(self) -> Sequence[int | None]:
        """Return the exit code of each worker; None while the worker is running."""
        waiting = [task for number, task in enumerate(self._tasks) if number not in self._ends]
        if waiting:
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
            for number, task in enumerate(self._tasks):
                if task in ready:
                    self._ends[number] = self._end_of(number, task)

        return [self._code(number) for number in range(len(self._tasks))]

    def stop(self) -> None:
        """Ask all workers to end after their current steps."""
        for task in self._running():
            self._ray.cancel(task, force=False)

    def kill(self) -> None:
        """End all workers at once; finished steps are kept."""
        for task in self._running():
            self._ray.cancel(task, force=True)

    def close(self) -> None:
        """End the workers that are still running, and disconnect from the cluster if this object
        connected to it.
        """
        self.kill()
        if self._is_own_connection:
            self._ray.shutdown()

    def _running(self) -> list[Any]:
        return [task for number, task in enumerate(self._tasks) if number not in self._ends]

    def _code(self, number: int) -> int | None:
        end = self._ends.get(number)
        return None if end is None else end.code

    def _end_of(self, number: int, task: Any) -> WorkerEnd:
        """Return how a finished task ended, and store what its worker printed."""
        try:
            end: WorkerEnd = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0]
            end = WorkerEnd(_LOST, f"Ray could not run this worker to its end: {reason}\n")

        if self._job.logs is not None:
            folder = Path(self._job.logs)
            make_folder(folder)
            (folder / f"worker-{number + 1}.log").write_text(end.printed, encoding="utf-8")

        return end


def _ray() -> ModuleType:
    """Return Ray. Raises UsageError if it can't be imported."""
    try:
        import ray  # noqa: PLC0415 - the extra `ray`

        module: ModuleType = ray
    except ImportError as error:
        raise UsageError(
            f"--runner ray: {import_problem(error, 'ray')}: {install_command('ray')}"
        ) from error

    return module


def _connect(ray: ModuleType) -> None:
    """Connect to the cluster at `$RAY_ADDRESS`, or start a cluster on this machine. Raises
    UsageError.
    """
    address = os.environ.get(ADDRESS)
    try:
        ray.init(
            address=address,
            log_to_driver=False,  # the output of workers would break up the table of the grid
            include_dashboard=False if address is None else None,
            configure_logging=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(
            f"--runner ray: no cluster answers at {address or 'this machine'} ({reason}); start"
            f" one by `ray start --head`, and name it by {ADDRESS}"
        ) from error


def _present(names: Sequence[str]) -> dict[str, str]:
    """Return those variables that workers also need and that are set in this process."""
    return {name: os.environ[name] for name in names if name in os.environ}
