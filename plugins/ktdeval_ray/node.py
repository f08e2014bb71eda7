"""Runs on a node of a Ray cluster, where it starts and watches one worker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ktdeval.task_api import WITH_PARENT

_TAIL_BYTES = 65_536  #: number of final bytes of a worker's output that are kept for its log
#: seconds to wait for the current step, which may be waiting for a reply that is paid for
_PATIENCE_S = 180.0


@dataclass(frozen=True)
class NodeCommand:
    """A worker's command, as it is sent to a node."""

    arguments: tuple[str, ...]  #: arguments of `ktdeval`
    environment: Mapping[str, str]  #: variables to set
    #: variables of the launching process, such as API keys; the node's own variables take
    #: precedence
    inherited: Mapping[str, str] = field(repr=False)
    folder: str  #: working folder of the launching process; ignored if the node does not have it


@dataclass(frozen=True)
class WorkerEnd:
    """Exit code of a worker, and its last output."""

    code: int
    printed: str  #: end of the worker's output


def run_on_node(command: NodeCommand) -> WorkerEnd:
    """Run a worker to completion. If Ray cancels the task by an interrupt, the interrupt is passed
    on to the worker.
    """
    with tempfile.TemporaryFile() as log:
        process = _start(command, log)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = _interrupt_worker(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

        return WorkerEnd(code, _tail(log))


def _start(command: NodeCommand, log: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {**command.inherited, **os.environ, **command.environment, WITH_PARENT: "1"}
    folder = command.folder if Path(command.folder).is_dir() else None
    # The pipe ends with this process. So if Ray's process dies, the worker stops, and does not
    # compete with the worker that replaces it.
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "ktdeval", *command.arguments],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def _interrupt_worker(process: subprocess.Popen[bytes]) -> int:
    """Ask a worker to end after the current step, and return its exit code."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_PATIENCE_S)

    process.kill()
    return process.wait()


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TAIL_BYTES))
    return log.read().decode("utf-8", "replace")
