"""Number of calls that a provider is asked at once: as many as it takes, found out from its refusals (AIMD, as TCP does).

Additive increase, multiplicative decrease: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
avoidance in computer networks", Computer Networks and ISDN Systems 17 (1989).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

from ktdeval.calls.fair_queue import FairQueue


class AimdWindow:
    """Arithmetic of the limit, without threads or a clock of its own; times are seconds on any one clock. `ceiling`: most calls at
    once; the limit begins there, so that a provider without limits is never held back; `gap_s`: shortest time between two starts.
    `running`: calls that have started and not ended; `paused_until`: no call starts before this time, because the provider said so.
    """

    def __init__(self, ceiling: int, gap_s: float = 0.0) -> None:
        self.running = 0
        self.paused_until = -math.inf
        self._ceiling = ceiling
        self._gap_s = gap_s
        self._window = float(ceiling)
        self._next_start = -math.inf
        self._cut_at = -math.inf

    @property
    def limit(self) -> int:
        """Most calls at once for now."""
        return int(self._window)

    def delay_s(self, now: float) -> float:
        """Seconds until a call may start: 0 at once, infinite when one has to end first."""
        if self.running >= self.limit:
            return math.inf
        return max(0.0, self.paused_until - now, self._next_start - now)

    def start(self, now: float) -> None:
        """A call starts."""
        self.running += 1
        self._next_start = now + self._gap_s

    def end(self) -> None:
        """A call has ended, however."""
        self.running -= 1

    def throttled(self, now: float, retry_after_s: float | None, started_at: float) -> None:
        """Record that the provider refused a call because there were too many. The limit is halved at most once a round: calls that
        were already under way at the last cut tell nothing about the limit since then.
        """
        if retry_after_s is not None:
            self.paused_until = max(self.paused_until, now + retry_after_s)
        if started_at > self._cut_at:
            self._window = max(1.0, self._window / 2)
            self._cut_at = now

    def succeeded(self, started_at: float) -> None:
        """Record that the provider answered a call; as many answers as the limit is high raise it by one."""
        if started_at > self._cut_at:
            self._window = min(float(self._ceiling), self._window + 1 / self._window)


class ProviderLimiter:
    """Slots for the calls of many threads to one provider, given in the order in which they were asked for. `ceiling`: most calls
    at once; `gap_s`: shortest time in seconds between the starts of two calls; `check`: called while waiting; raises when the run
    is over (`StopSignal.check`); `clock`: seconds, monotonic.
    """

    def __init__(self, ceiling: int, gap_s: float, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._window = AimdWindow(ceiling, gap_s)
        self._queue = FairQueue(check)
        self._clock = clock

    @property
    def limit(self) -> int:
        """Most calls at once for now: between 1 and the ceiling."""
        return self._window.limit

    @property
    def pause_s(self) -> float:
        """Seconds for which the provider still wants to be left alone; 0 when it does not."""
        return max(0.0, self._window.paused_until - self._clock())

    @contextlib.contextmanager
    def slot(self, on_wait: Callable[[], None] | None = None) -> Iterator[float]:
        """Hold a slot for the time of one call; gives the time of its start.

        Args:
            on_wait: called once where the call can't start at once.

        Raises:
            Whatever `check` raises.
        """
        started_at = 0.0

        def take() -> float:
            nonlocal started_at
            now = self._clock()
            if (delay := self._window.delay_s(now)) == 0:
                started_at = now
                self._window.start(now)
            return delay

        self._queue.wait(take, on_wait)
        try:
            yield started_at
        finally:
            with self._queue.lock:
                self._window.end()
                self._queue.changed()

    def throttled(self, retry_after_s: float | None, started_at: float) -> None:
        """Tell it of a call, started at `started_at`, that the provider refused because there were too many."""
        with self._queue.lock:
            self._window.throttled(self._clock(), retry_after_s, started_at)

    def succeeded(self, started_at: float) -> None:
        """Tell it of a call, started at `started_at`, that the provider answered."""
        with self._queue.lock:
            self._window.succeeded(started_at)
            self._queue.changed()
