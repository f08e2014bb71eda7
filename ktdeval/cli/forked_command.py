"""Commands in forked child processes, which inherit what this process has imported and loaded.

A forked child has a copy of everything in its parent's memory, but only the thread that called
fork. A process therefore only forks if it has no other threads, and before it opens clients,
databases or locks (`can_fork`).
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

T = TypeVar("T")


def can_fork() -> bool:
    """Return whether forking this process is safe: on Linux, and without other threads."""
    return sys.platform == "linux" and threading.active_count() == 1


@dataclass(frozen=True)
class CommandStreams:
    """File descriptors with which a forked command starts."""

    stdin: int
    stdout: int
    stderr: int
    #: descriptors that only this process needs, such as the other end of a pipe; the child closes
    #: them
    closed: tuple[int, ...] = ()
    #: read end of a pipe: the command starts once a byte arrives, and never if the pipe is closed
    #: first
    begins_after: int | None = None


class ForkedCommand:
    """Command that runs in a forked child process, in its own session. It has the methods of
    `subprocess.Popen`.
    """

    def __init__(
        self,
        words: Sequence[str],
        streams: CommandStreams,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the command. `environment`: variables to set in addition to this process's
        environment.
        """
        self._words = tuple(words)
        self._process = multiprocessing.get_context("fork").Process(
            target=_run_command, args=(self._words, streams, dict(environment or {}))
        )
        with _signals_held():
            self._process.start()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None  # the process has been started
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, which is negative after a signal. None while the command is
        running.
        """
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the command to end, and return the exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._words, timeout or 0.0)

        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the command immediately."""
        self.send_signal(signal.SIGKILL)


_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Block signals during a fork. Until the child has installed its own handlers, it would handle
    signals as its parent does.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_command(
    words: Sequence[str], streams: CommandStreams, environment: Mapping[str, str]
) -> None:
    """Run a command in the forked child, as if in a newly started process."""
    from ktdeval.cli.main import main  # importing this module loads every option

    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)

    for number in streams.closed:
        os.close(number)
    if streams.begins_after is not None:
        is_wanted = bool(os.read(streams.begins_after, 1))
        os.close(streams.begins_after)
        if not is_wanted:
            return

    _open_streams(streams)
    _draw_anew()
    os.environ.update(environment)
    sys.argv[:] = ["ktdeval", *words]
    try:
        code = main(words)
    except Exception:
        sys.excepthook(*sys.exc_info())
        _print_no_more()  # prevent multiprocessing from printing the error again, with secrets
        raise

    sys.exit(code)


def _print_no_more() -> None:
    """Discard anything that is printed to standard error from now until the child exits."""
    sys.stderr.flush()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends


def _open_streams(streams: CommandStreams) -> None:
    """Set up the three standard streams as in a new process, without writing text that is still
    buffered in the parent.
    """
    given = (streams.stdin, streams.stdout, streams.stderr)
    for place, number in enumerate(given):
        os.dup2(number, place)
    for number in set(given):
        if number > 2:
            os.close(number)

    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - as above


def _draw_anew() -> None:
    """Reseed the process's random generators, whose state forked children would otherwise share.
    Our own code does not use them, but a library used by a plugin may.
    """
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


class ForkedCall(Generic[T]):
    """Function call that runs in a forked child process, in parallel with this process."""

    def __init__(self, function: Callable[[], T]) -> None:
        """Start the call. Its result must be picklable."""
        self._function = function
        context = multiprocessing.get_context("fork")
        self._answer, answer = context.Pipe(duplex=False)
        self._process = context.Process(target=_answer, args=(answer, function))
        self._process.start()
        answer.close()

    def result(self) -> T:
        """Wait for the result. If the child does not return one, for example because of an error,
        the function is called in this process, which then raises the error.
        """
        try:
            found: T = self._answer.recv()
        except EOFError:
            return self._function()
        finally:
            self._answer.close()
            self._process.join()

        return found


def _answer(answer: Connection, function: Callable[[], object]) -> None:
    """Send the result of a function. An error is not sent: the waiting process repeats the call and
    raises the error itself.
    """
    try:
        answer.send(function())
    except (Exception, KeyboardInterrupt):
        _print_no_more()
        raise
