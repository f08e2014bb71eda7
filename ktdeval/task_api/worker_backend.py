"""Workers, which are processes that share a job through a store, and the backends that
start them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

#: variable that a backend sets if a worker's standard input is a pipe from the process that started
#: it; the worker then stops when that process ends
WITH_PARENT = "KTDEVAL_WORKER_ENDS_WITH_STDIN"


@dataclass(frozen=True)
class WorkerJob:
    """Command that each worker of a job runs.

    Workers find their work and each other through a store that is named in the command. Any number
    of workers may therefore start, die and start again at any time.
    """

    arguments: tuple[str, ...]  #: arguments for `ktdeval`, such as ("grid", "worker", "--out", …)
    workers: int  #: number of workers
    #: environment variables to set for each worker
    environment: Mapping[str, str] = field(default_factory=dict)
    #: names of environment variables of this process that workers on other machines also need, such
    #: as API keys
    inherited: tuple[str, ...] = ()
    logs: str | None = None  #: folder for the output of each worker; None discards the output
    #: True if workers may be forked from this process, which has loaded the shared data and holds
    #: no threads, clients or locks; backends that run on other machines, or can't fork, start new
    #: processes
    may_fork: bool = False


@runtime_checkable
class RunningWorkers(Protocol):
    """Workers that have been started."""

    def exit_codes(self) -> Sequence[int | None]:
        """Return the exit code of each worker, or None for a worker that is still running."""

    def stop(self) -> None:
        """Ask all workers to stop after their current steps."""

    def kill(self) -> None:
        """Kill all workers immediately. Finished steps are kept."""

    def close(self) -> None:
        """Release the backend's resources. Workers that are still running are terminated."""


@runtime_checkable
class WorkersRunner(Protocol):
    """Execution backend that can start worker processes, here or on other machines."""

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start a job's workers without waiting for them. Raises KtdevalError."""
