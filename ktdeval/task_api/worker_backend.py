"""Workers: processes that share one piece of work through a store, and backends that start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

#: Variable that a backend sets if a worker's standard input is a pipe from the process that started
#: it: the worker then stops when that process has ended
WITH_PARENT = "KTDEVAL_WORKER_ENDS_WITH_STDIN"


@dataclass(frozen=True)
class WorkerJob:
    """Command that each worker of a job runs. Workers find their work, and each other, in a store
    that the command names; so any number of them may start, die and start again at any time.
    """

    arguments: tuple[str, ...]  #: of `ktdeval`, such as ("grid", "worker", "--out", …)
    workers: int  #: how many
    #: variables to set for each worker
    environment: Mapping[str, str] = field(default_factory=dict)
    #: names of this process's variables that workers on other machines need too, such as API keys
    inherited: tuple[str, ...] = ()
    logs: str | None = None  #: folder for the output of each worker; None: output is discarded
    #: True if workers may be forks of this process: it has loaded the shared data, and holds no
    #: thread, client or lock. Backends on other machines, or without forks, start new processes.
    may_fork: bool = False


@runtime_checkable
class RunningWorkers(Protocol):
    """Workers that were started."""

    def exit_codes(self) -> Sequence[int | None]:
        """Return how each worker ended: its exit code, None while it runs."""

    def stop(self) -> None:
        """Ask all workers to end after the steps that are under way."""

    def kill(self) -> None:
        """End all workers at once; finished steps are kept."""

    def close(self) -> None:
        """Release what the backend holds; workers that still run are ended."""


@runtime_checkable
class WorkersRunner(Protocol):
    """Execution backend that can start workers as processes, here or on other machines."""

    def start_workers(self, job: WorkerJob) -> RunningWorkers:
        """Start the workers of a job, and return without waiting. Raises KtdevalError."""
