"""Workers: processes that share one piece of work through a store, and the backends that start
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

#: Variable that a backend sets if a worker's standard input is a pipe from the process that started
#: it: the worker then stops when that process ends
WITH_PARENT = "KTDEVAL_WORKER_ENDS_WITH_STDIN"


@dataclass(frozen=True)
class WorkerJob:
    """Command that each worker of a job runs. Workers find their work, and each other, in a store
    given in the command, so any number of workers may start, die and start again at any time.
    """

    arguments: tuple[str, ...]  #: arguments of `ktdeval`, such as ("grid", "worker", "--out", …)
    workers: int  #: number of workers
    #: environment variables to set for each worker
    environment: Mapping[str, str] = field(default_factory=dict)
    #: names of this process's environment variables that workers on other machines also need, such
    #: as API keys
    inherited: tuple[str, ...] = ()
    logs: str | None = None  #: folder for each worker's output; None: output is discarded
    #: True if workers may be forked from this process: it has loaded the shared data, and holds no
    #: thread, client or lock. Backends on other machines, or without forking, start new processes.
    may_fork: bool = False


@runtime_checkable
class RunningWorkers(Protocol):
    """Workers that have been started."""

    def exit_codes(self) -> Sequence[int | None]:
        """Return how each worker ended: its exit code, or None while it is running."""

    def stop(self) -> None:
        """Ask all workers to stop after their current steps."""

    def kill(self) -> None:
        """Kill all workers immediately; finished steps are kept."""

    def close(self) -> None:
        """Release the backend's resources; workers that are still running are terminated."""


@runtime_checkable
class WorkersRunner(Protocol):
    """Execution backend that can start workers as processes, here or on other machines."""

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start a job's workers, and return without waiting. Raises KtdevalError."""
