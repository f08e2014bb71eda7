"""Processes that ask entrants, one per decision. Each is killed at its deadline, with all its child
processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from ktdeval.errors import os_reason
from ktdeval_live.deciding.step import DueDecision, Problem
from ktdeval_live.record.folder import LiveFolder

_MAX_SAID = 300
_GRACE_S = 5.0
"""Time after the deadline at which a process ends itself, in case the step that started it was
killed.
"""


class ProcessAsker:
    """Asks by running `ktdeval live ask` with additional options, in a new process for each
    decision.
    """

    def __init__(self, test: LiveFolder, options: Sequence[str]) -> None:
        self._test = test
        self._options = options
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._has_ended = False

    def __call__(self, due: DueDecision, limit_s: float) -> Problem | None:
        """Ask an entry, allowing `limit_s` seconds; return why there is no record, or None."""
        # -P prevents imports of modules in the folder from which a scheduler starts.
        words = [sys.executable, "-P", "-m", "ktdeval", "live", "ask", str(self._test.path)]
        words += [due.entry.entrant.name, due.entry.market, due.session.day, *self._options]
        words += ["--limit-s", str(limit_s + _GRACE_S)]
        try:
            process = self._start(words)
        except OSError as error:
            return "failed", f"no process could be started: {os_reason(error)}"

        try:
            _, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return "deadline", f"took longer than {limit_s:.0f} s"
        finally:
            self._forget(process)

        if process.returncode:
            line = " ".join(said.split()) or f"the process ended with {process.returncode}"
            return "failed", line[-_MAX_SAID:]
        return None

    def end(self) -> None:
        """Kill all running processes. After an interrupt, none of them may continue to ask."""
        with self._lock:
            self._has_ended = True
            for process in self._running:
                _kill(process)

    def _start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._has_ended:
                raise OSError("the step was interrupted")
            process = subprocess.Popen(  # noqa: S603 - our own command, without a shell
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def _forget(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            _kill(process)  # including child processes left behind by the process
            self._running.discard(process)
        process.wait()


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process with its child processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_after(limit_s: float) -> None:
    """Kill this process and its child processes after a number of seconds."""
    timer = threading.Timer(limit_s, _end_this)
    timer.daemon = True
    timer.start()


def _end_this() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
