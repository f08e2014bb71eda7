"""Flag that ends a run, either because the user interrupts it or because no further call makes
sense.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ktdeval.errors import BudgetError, RunStop

_SLICE_S = 0.1

Fence = Callable[[], None]
"""Called before each effect of work that several processes share: a paid call, a write. Raises
FencedError if another process has taken the work over.
"""


def no_fence() -> None:
    """Let everything pass: the fence for work that no other process can take over."""


class StopSignal:
    """Flag that ends a run. It is checked between steps, before calls and while waiting.

    The class uses no lock, since a signal handler may set the flag at any time: assignments are
    atomic, and a wait is a series of short sleeps. `reason` is why the run stops by itself; it is
    None while the run continues, and after an interrupt.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a flag that is not set. `clock` returns monotonic seconds, and `sleep` lets them
        pass.
        """
        self._clock = clock
        self._sleep = sleep
        self.reason: RunStop | None = None
        self._interrupted = False
        self._deadline = float("inf")
        self._hours = 0.0

    def limit_hours(self, hours: float, began_s: float | None = None) -> None:
        """Stop the run with a BudgetError after `hours`, counted from now or from `began_s` on the
        flag's clock.
        """
        if began_s is None:
            began_s = self._clock()

        self._deadline = began_s + hours * 3600
        self._hours = hours

    def interrupt(self) -> None:
        """Stop the run on behalf of the user."""
        self._interrupted = True

    def stop(self, reason: RunStop) -> None:
        """Stop the run for a reason. Only the first reason counts."""
        self.reason = self.reason or reason

    def is_set(self) -> bool:
        """Return whether the run should end."""
        if self.reason is None and self._clock() >= self._deadline:
            self.reason = BudgetError(
                f"--max-hours {self._hours:g}: the time is over; raise it, or run the same command"
                " again to resume"
            )
        return self._interrupted or self.reason is not None

    def check(self) -> None:
        """Raise if the run is to end: the reason, or KeyboardInterrupt after an interrupt."""
        if not self.is_set():
            return
        if self.reason is not None:
            raise self.reason

        raise KeyboardInterrupt

    def wait(self, seconds: float) -> None:
        """Sleep for some seconds. Raises as `check` does if the run ends meanwhile."""
        deadline = self._clock() + seconds
        left = seconds
        while left > 0:
            self.check()
            self._sleep(min(left, _SLICE_S))
            left = deadline - self._clock()

        self.check()
