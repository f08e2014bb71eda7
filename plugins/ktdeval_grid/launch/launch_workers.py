"""Workers of a launch: start them by a backend, pass signals on, and wait for their end. The
launching process computes nothing.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ktdeval.errors import PluginError, UsageError
from ktdeval.registry import Plugins, call_through
from ktdeval.task_api import RunningWorkers, WorkerJob, WorkersRunner

_TICK_S = 0.5


def start_workers(plugins: Plugins, runner: str, job: WorkerJob) -> RunningWorkers:
    """Start the workers of a job by an execution backend.

    Raises UsageError: the backend starts no workers; PluginError: it fails, or returns something
    else; KtdevalError.
    """
    backend = plugins.make_runner(runner)
    where = f"runner {runner} of plugin {plugins.owner('runners', runner)}"
    if not isinstance(backend, WorkersRunner):
        raise UsageError(
            f"--runner {runner}: starts no workers of a grid; name another, such as local"
        )

    workers = call_through(backend.start_workers, where, job)
    if not isinstance(workers, RunningWorkers):
        raise PluginError(f"{where}: start_workers() must return RunningWorkers")

    return workers


def wait_for(workers: RunningWorkers, on_tick: Callable[[], None] = lambda: None) -> list[int]:
    """Wait until all workers have ended; return their exit codes. `on_tick` is called twice a
    second, such as to show where the grid stands. The end of a process of this machine is noticed
    at once.

    On the first interrupt or termination signal, workers end after the steps under way; on the
    second, at once. Whatever happens, none is left. Raises KeyboardInterrupt after an interrupt.
    """
    signals = _Signals(workers)
    try:
        with signals.handled() as wait:
            codes = workers.exit_codes()
            while any(code is None for code in codes):
                on_tick()
                wait(_TICK_S)
                codes = workers.exit_codes()
    finally:
        workers.close()

    if signals.count:
        raise KeyboardInterrupt

    return [code for code in codes if code is not None]


class _Signals:
    """Interrupts and termination signals of a launching process."""

    def __init__(self, workers: RunningWorkers) -> None:
        self.count = 0
        self._workers = workers

    @contextmanager
    def handled(self) -> Iterator[Callable[[float], None]]:
        """Pass signals on to the workers; give what waits so many seconds, or until a signal: that
        of a child's end among them, where the system has it.
        """
        if threading.current_thread() is not threading.main_thread():
            yield time.sleep
            return

        before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, self._pass_on)

        try:
            if hasattr(signal, "SIGCHLD"):
                before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _do_nothing)
                with _waking() as wait:
                    yield wait
            else:
                yield time.sleep
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            self._workers.stop()
        elif self.count == 2:
            self._workers.kill()
        else:
            os._exit(130)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal that is to wake this process, and no more."""


@contextmanager
def _waking() -> Iterator[Callable[[float], None]]:
    """Give what waits so many seconds, or until a signal that has a handler. A signal that came
    before it waits is not lost: it stands in the pipe.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait(seconds: float) -> None:
        ready, _, _ = select.select([reading], [], [], seconds)
        if ready:
            os.read(reading, 4096)

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
