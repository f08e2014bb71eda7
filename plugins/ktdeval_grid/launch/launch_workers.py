"""Workers of a launch: start them through an execution backend, forward signals, and wait for them
to end.

The launching process itself does no computation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import FrameType

from ktdeval.cli import handle_signals
from ktdeval.errors import PluginError, UsageError
from ktdeval.registry import Plugins, call_through
from ktdeval.task_api import RunningWorkers, WorkerJob, WorkersRunner

_TICK_S = 0.1


def start_workers(plugins: Plugins, runner: str, job: WorkerJob) -> RunningWorkers:
    """Start the workers for a job through an execution backend.

    Raises UsageError if the backend starts no workers; PluginError if it fails or returns something
    other than workers; KtdevalError.
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
    """Wait until all workers have ended, and return their exit codes.

    `on_tick` is called ten times a second, for example to update the display. On the first
    interrupt or termination signal, workers finish the steps in progress; on the second, they end
    immediately. When the function returns or raises, all workers have ended. Raises
    KeyboardInterrupt after an interrupt.
    """
    signals = _Signals(workers)
    try:
        with handle_signals(signals.pass_on):
            codes = workers.exit_codes()
            while any(code is None for code in codes):
                on_tick()
                time.sleep(_TICK_S)
                codes = workers.exit_codes()
    finally:
        workers.close()

    if signals.count:
        raise KeyboardInterrupt

    return [code for code in codes if code is not None]


class _Signals:
    """Interrupt and termination signals received by a launching process."""

    def __init__(self, workers: RunningWorkers) -> None:
        self.count = 0
        self._workers = workers

    def pass_on(self, _number: int, _frame: FrameType | None) -> None:
        """Forward a signal to the workers. The first signal stops them, and the second
        kills them.
        """
        self.count += 1
        if self.count == 1:
            self._workers.stop()
        elif self.count == 2:
            self._workers.kill()
        else:
            os._exit(130)
