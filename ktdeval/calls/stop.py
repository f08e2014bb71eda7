"""Flag that ends a run: an interrupt by the user, or a reason why no further call makes sense."""

from __future__ import annotations

import time
from collections.abc import Callable

from ktdeval.errors import BudgetError, RunStop

_SLICE_S = 0.1


class StopSignal:
    """Flag that is set once and read between steps, before calls and while waiting. No lock, so that a signal handler may set it
    at any moment: assignments are atomic, and waiting is done in short slices. `reason`: why the run stops by itself; None
    while it goes on, and after an interrupt.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """A run that goes on. `clock`: seconds, monotonic."""
        self._clock = clock
        self.reason: RunStop | None = None
        self._interrupted = False
        self._deadline = float("inf")
        self._hours = 0.0

    def limit_hours(self, hours: float) -> None:
        """Let the run end, as by a budget, `hours` from now."""
        self._deadline, self._hours = self._clock() + hours * 3600, hours

    def interrupt(self) -> None:
        """Stop on behalf of the user."""
        self._interrupted = True

    def stop(self, reason: RunStop) -> None:
        """Stop for a reason; the first one counts."""
        self.reason = self.reason or reason

    def is_set(self) -> bool:
        """Whether the run is to end."""
        if self.reason is None and self._clock() >= self._deadline:
            self.reason = BudgetError(f"--max-hours {self._hours:g}: they are over; raise it or run the same command again")
        return self._interrupted or self.reason is not None

    def check(self) -> None:
        """Return while the run goes on; raise KeyboardInterrupt where the user interrupted it, else the reason to stop."""
        if self.is_set():
            raise KeyboardInterrupt if self.reason is None else self.reason

    def wait(self, seconds: float) -> None:
        """Sleep, unless the run ends. Raises KeyboardInterrupt, RunStop: as `check`."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _SLICE_S))
        self.check()
