"""A fair queue of threads that wait, and how many calls a provider is asked at once, found out from its refusals (AIMD, as TCP).

Additive increase, multiplicative decrease: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
avoidance in computer networks", Computer Networks and ISDN Systems 17 (1989).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

_LOOK_AGAIN_S = 0.1


class FairQueue:
    """Lets threads through one by one, in the order in which they came. Only the thread at the head looks again and again, whether
    its turn has come and whether the run still goes on; the others sleep until they are at the head. So a thousand waiting threads
    cost no more than one, none is overtaken, and the end of a run empties the queue from its head. `check`: raises when waiting
    makes no sense any more. `lock`: guards whatever `take` looks at; hold it to change that, and then call `changed`.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._check = check
        self._waiting: deque[threading.Event] = deque()

    def wait(self, take: Callable[[], float], on_wait: Callable[[], None] | None = None) -> None:
        """Wait for one's turn.

        Args:
            take: called with `lock` held, by the thread at the head. Takes what was waited for and returns 0, or returns the
                seconds after which to ask again (infinite: when something has changed).
            on_wait: called once, without the lock, where the thread has to wait.

        Raises:
            Whatever `check` or `take` raises; the thread has then left the queue.
        """
        self._check()
        with self.lock:
            if not self._waiting and take() == 0:
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            if on_wait is not None:
                on_wait()
            while (delay := self._look(turn, take)) != 0:
                turn.wait(None if delay is None else min(delay, _LOOK_AGAIN_S))
                self._check()
        except BaseException:
            with self.lock:
                self._leave(turn)
            raise

    def changed(self) -> None:
        """Let the head look again. Call it with `lock` held."""
        if self._waiting:
            self._waiting[0].set()

    def _look(self, turn: threading.Event, take: Callable[[], float]) -> float | None:
        """0 when it was this thread's turn, else when to look again: None when it has come to the head."""
        with self.lock:
            turn.clear()
            if self._waiting[0] is not turn:
                return None
            delay = take()
            if delay == 0:
                self._leave(turn)
            return delay

    def _leave(self, turn: threading.Event) -> None:
        self._waiting.remove(turn)
        self.changed()


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
