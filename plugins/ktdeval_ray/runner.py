"""Backend that starts the workers of a grid on a Ray cluster.

Ray only starts the command `ktdeval grid worker` on its nodes, and restarts it if a node is lost. Open
and finished work is recorded only in the grid's store: a grid resumes from there, never from Ray.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ktdeval.errors import UsageError
from ktdeval.task_api import EpisodeOutcome, EpisodeSpec, RunningWorkers, WorkerJob
from ktdeval.values import install_command, make_folder
from ktdeval_ray.node import NodeCommand, WorkerEnd, run_on_node

ADDRESS = "RAY_ADDRESS"  #: variable with the address of the cluster, as of Ray's own tools
RESTARTS = 20  #: how often a worker is started again whose node was lost
_LOST = 1  #: exit code of a worker that Ray could not run to its end


class RayRunner:
    """Starts workers on the cluster of `$RAY_ADDRESS`, or on this machine where none is named."""

    def run(
        self,
        specs: Sequence[EpisodeSpec],  # noqa: ARG002 - none can be run
        execute: Callable[[EpisodeSpec], EpisodeOutcome],  # noqa: ARG002
        concurrency: int,  # noqa: ARG002
    ) -> NoReturn:
        """Raise UsageError: a single run has one folder, which one process holds."""
        raise UsageError(
            "--runner ray: runs only grids, whose workers share a store; run `ktdeval grid "
            "PLAN.yaml --runner ray`, or leave --runner out"
        )

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start the workers of a job; see `ktdeval.task_api.WorkersRunner`. Raises UsageError if
        Ray is not installed, or its cluster does not answer.
        """
        return RayWorkers(_ray(), job)


class RayWorkers:
    """Workers of a job on a cluster; see `ktdeval.task_api.RunningWorkers`."""

    def __init__(self, ray: ModuleType, job: WorkerJob) -> None:
        """Connect to the cluster, and start one task a worker, spread over the nodes."""
        self._ray = ray
        self._job = job
        self._is_own_connection = not ray.is_initialized()
        if self._is_own_connection:
            _connect(ray)

        # One worker keeps one processor busy. Only a lost node or process is retried: a
        # worker that fails by itself returns its exit code.
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
        """Return how each worker ended: its exit code, None while it runs."""
        waiting = [task for number, task in enumerate(self._tasks) if number not in self._ends]
        if waiting:
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
            for number, task in enumerate(self._tasks):
                if task in ready:
                    self._ends[number] = self._end_of(number, task)

        return [self._code(number) for number in range(len(self._tasks))]

    def stop(self) -> None:
        """Ask all workers to end after the steps that are under way."""
        for task in self._running():
            self._ray.cancel(task, force=False)

    def kill(self) -> None:
        """End all workers at once; finished steps are kept."""
        for task in self._running():
            self._ray.cancel(task, force=True)

    def close(self) -> None:
        """End workers that still run, and leave the cluster if it was entered here."""
        self.kill()
        if self._is_own_connection:
            self._ray.shutdown()

    def _running(self) -> list[Any]:
        return [task for number, task in enumerate(self._tasks) if number not in self._ends]

    def _code(self, number: int) -> int | None:
        end = self._ends.get(number)
        return None if end is None else end.code

    def _end_of(self, number: int, task: Any) -> WorkerEnd:
        """Return how a finished task ended, and keep what its worker printed."""
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
    """Return Ray. Raises UsageError if it is not installed."""
    try:
        import ray  # noqa: PLC0415 - the extra `ray`

        module: ModuleType = ray
    except ImportError as error:
        raise UsageError(
            f"--runner ray needs Ray, which is not installed: {install_command('ray')}"
        ) from error

    return module


def _connect(ray: ModuleType) -> None:
    """Connect to the cluster of `$RAY_ADDRESS`, or begin one of this machine. Raises UsageError."""
    address = os.environ.get(ADDRESS)
    try:
        ray.init(
            address=address,
            log_to_driver=False,  # what workers print would tear the table of the grid
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
    """Return the variables of this process that workers need too, where they are set."""
    return {name: os.environ[name] for name in names if name in os.environ}
