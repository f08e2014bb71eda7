"""Workers as processes on this machine. If this process may fork, the workers are forks that share
what it has loaded. Otherwise each worker is a new Python process, since a fork of a process with
threads could hang.

The standard input of all workers is one pipe from this process, so that they stop when this process
ends for any reason. Each worker has its own session, so that Ctrl-C reaches it only once, through
`stop`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ktdeval.cli import CommandStreams, ForkedCommand, can_fork
from ktdeval.task_api import WITH_PARENT, WorkerJob
from ktdeval.values import make_folder

RESTARTS = 3  #: how often a worker that was killed by a signal is restarted
_PATIENCE_S = 5.0  #: seconds to wait before a worker that does not end is killed


@dataclass
class _WorkerProcess:
    """Process of one worker."""

    number: int
    process: subprocess.Popen[bytes] | ForkedCommand
    restarts: int = 0


class WorkerProcesses:
    """The worker processes of a job; see `ktdeval.task_api.RunningWorkers`."""

    def __init__(self, job: WorkerJob) -> None:
        """Start all workers."""
        self._job = job
        self._is_stopping = False
        if job.logs is not None:
            make_folder(Path(job.logs))

        # Nothing is ever written to the pipe: workers reach its end only when this process ends.
        self._alive_read, self._alive = os.pipe()
        self._is_closed = False
        self._workers = [
            _WorkerProcess(number, self._start(number)) for number in range(job.workers)
        ]

    def exit_codes(self) -> Sequence[int | None]:
        """Return the exit code of each worker; None if the worker is running. A worker that was
        killed by a signal, for example for lack of memory, is restarted here up to `RESTARTS`
        times.
        """
        for worker in self._workers:
            code = worker.process.poll()
            was_killed = code is not None and code < 0
            if was_killed and not self._is_stopping and worker.restarts < RESTARTS:
                worker.restarts += 1
                worker.process = self._start(worker.number)

        return [worker.process.poll() for worker in self._workers]

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def stop(self) -> None:
        """Ask all workers to end after their current steps."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill all workers at once."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.kill()

        for worker in self._workers:
            worker.process.wait()

    def close(self) -> None:
        """End the workers that are still running: first ask them to end, then kill them."""
        self.stop()
        if not self._is_closed:
            self._is_closed = True
            os.close(self._alive)
            os.close(self._alive_read)

        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(_PATIENCE_S)

        self.kill()

    def _start(self, number: int) -> subprocess.Popen[bytes] | ForkedCommand:
        job = self._job
        environment = {**job.environment, WITH_PARENT: "1"}
        with self._log(number) as log:
            if job.may_fork and can_fork():
                # A fork that kept the writing end open would never notice that this process has
                # ended.
                streams = CommandStreams(
                    self._alive_read, log.fileno(), log.fileno(), closed=(self._alive,)
                )
                return ForkedCommand(job.arguments, streams, environment)

            command = [sys.executable, "-m", "ktdeval", *job.arguments]
            return subprocess.Popen(  # noqa: S603 - our own command
                command,
                env={**os.environ, **environment},
                stdin=self._alive_read,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, number: int) -> IO[bytes]:
        """Open the file to which a worker prints."""
        if self._job.logs is None:
            return open(os.devnull, "ab")
        return (Path(self._job.logs) / f"worker-{number + 1}.log").open("ab")
