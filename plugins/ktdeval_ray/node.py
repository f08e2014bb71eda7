"""Process on a node of a Ray cluster: starts and watches one worker."""

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

_TAIL_BYTES = 65_536  #: of what a worker printed, kept for its log
_PATIENCE_S = 180.0  #: for the step under way, which may wait for a reply that is paid


@dataclass(frozen=True)
class NodeCommand:
    """A worker's command, as it is sent to a node."""

    arguments: tuple[str, ...]  #: of `ktdeval`
    environment: Mapping[str, str]  #: variables to set
    #: variables of the launching process, such as API keys: those of the node come first
    inherited: Mapping[str, str] = field(repr=False)
    folder: str  #: working folder of the launching process; left out where the node lacks it


@dataclass(frozen=True)
class WorkerEnd:
    """Exit of a worker."""

    code: int
    printed: str  #: the last that it printed


def run_on_node(command: NodeCommand) -> WorkerEnd:
    """Run a worker to its end. An interrupt, by which Ray cancels a task, is passed on to it."""
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
    # The pipe ends with this process: if Ray's process dies, the worker stops, and does not continue
    # next to the one that is started in its place.
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
    """Ask a worker to end after the step under way, and return its exit code."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_PATIENCE_S)

    process.kill()
    return process.wait()


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TAIL_BYTES))
    return log.read().decode("utf-8", "replace")
