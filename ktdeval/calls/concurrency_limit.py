"""Fair queue of threads, and a limit on concurrent calls that adapts when a provider rejects calls.

The limit follows AIMD (additive increase, multiplicative decrease), as TCP does. Source: Chiu and
Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
networks", Computer Networks and ISDN Systems 17 (1989).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktdeval.values.disk.rollback import undone_on_error

_LOOK_AGAIN_S = 0.1  # maximum seconds until the thread at the head checks whether the run continues


class FairQueue:
    """Queue that admits threads one at a time, in order of arrival. `check` raises an error at the
    end of the run.

    Only the thread at the head polls; the others sleep until they reach the head. A thousand
    waiting threads therefore cost no more than one, no thread is overtaken, and at the end of a run
    the queue empties from its head. `lock` guards the state that `take` reads. To change that
    state, acquire `lock`, then call `wake_head`.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._check = check
        self._waiting: deque[threading.Event] = deque()

    def wait(self, take: Callable[[], float], on_wait: Callable[[], None] | None = None) -> None:
        """Wait for this thread's turn. If `check` or `take` raises an error, the thread leaves the
        queue.

        The thread at the head calls `take` under `lock`. `take` either takes the resource and
        returns 0, or returns the seconds until the next try; infinity means the next `wake_head`.
        `on_wait` is called once, without the lock, if the thread has to wait.
        """
        self._check()
        with self.lock:
            if not self._waiting and take() == 0:
                return

            turn = threading.Event()
            self._waiting.append(turn)

        with undone_on_error(lambda _: self._give_up(turn)):
            if on_wait is not None:
                on_wait()

            delay = self._look(turn, take)
            while delay != 0:
                turn.wait(None if delay is None else min(delay, _LOOK_AGAIN_S))
                self._check()
                delay = self._look(turn, take)

    def wake_head(self) -> None:
        """Let the thread at the head try again. The caller must have acquired `lock`."""
        if self._waiting:
            self._waiting[0].set()

    def _give_up(self, turn: threading.Event) -> None:
        with self.lock:
            self._leave(turn)

    def _look(self, turn: threading.Event, take: Callable[[], float]) -> float | None:
        """Call `take` if this thread is at the head. Return 0 on success, otherwise the seconds
        until the next try.

        None means that the thread is not at the head yet and sleeps until it is woken.
        """
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
        self.wake_head()


class AimdWindow:
    """Arithmetic of the limit, without threads or a clock. All times are seconds on the same clock.

    The limit starts at its maximum, `ceiling`, so a provider without limits is never slowed down.
    """

    def __init__(self, ceiling: int, gap_s: float = 0.0) -> None:
        self.running = 0  #: number of calls that have started but not ended
        #: no call starts before this time, as requested by the provider
        self.paused_until = -math.inf
        self._ceiling = ceiling
        self._gap_s = gap_s
        self._window = float(ceiling)
        self._next_start = -math.inf
        self._cut_at = -math.inf

    @property
    def limit(self) -> int:
        """Return the current maximum number of concurrent calls."""
        return int(self._window)

    def delay_s(self, now: float) -> float:
        """Return the seconds until a call may start; infinite if another call must end first."""
        if self.running >= self.limit:
            return math.inf
        return max(0.0, self.paused_until - now, self._next_start - now)

    def start(self, now: float) -> None:
        """Record the start of a call."""
        self.running += 1
        self._next_start = now + self._gap_s

    def note_throttling(self, now: float, retry_after_s: float | None, started_at: float) -> None:
        """Record that the provider rejected a call because there were too many calls.

        The limit is halved at most once per round: a call that started before the last cut says
        nothing about the limit since then.
        """
        if retry_after_s is not None:
            self.paused_until = max(self.paused_until, now + retry_after_s)
        if started_at > self._cut_at:
            self._window = max(1.0, self._window / 2)
            self._cut_at = now

    def note_success(self, started_at: float) -> None:
        """Record that the provider answered a call.

        Each answer adds 1 / limit, so a full round of answers raises the limit by one.
        """
        if started_at > self._cut_at:
            self._window = min(float(self._ceiling), self._window + 1 / self._window)


@dataclass(slots=True)
class CallSlot:
    """Permission to make one call to a provider.

    The caller records how the call ended. The limit adapts to this when the slot is released.
    """

    started_at: float = 0.0
    is_answered: bool = False
    #: True if the provider rejected the call because there were too many calls
    is_throttled: bool = False
    retry_after_s: float | None = None


class ProviderLimiter:
    """Slots for the calls of many threads to one provider, first come, first served.

    At most `ceiling` calls run at once, and their starts are at least `gap_s` apart. `check` raises
    an error when the run is over; `clock` is monotonic.
    """

    def __init__(
        self,
        ceiling: int,
        gap_s: float,
        check: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window = AimdWindow(ceiling, gap_s)
        self._queue = FairQueue(check)
        self._clock = clock

    @property
    def pause_s(self) -> float:
        """Return for how many more seconds the provider accepts no calls."""
        return max(0.0, self._window.paused_until - self._clock())

    @contextlib.contextmanager
    def slot(self, on_wait: Callable[[], None] | None = None) -> Iterator[CallSlot]:
        """Occupy a slot for the duration of one call. Raises whatever `check` raises.

        `on_wait` is called once if the call can't start immediately.
        """
        slot = CallSlot()

        def take() -> float:
            now = self._clock()
            delay = self._window.delay_s(now)
            if delay == 0:
                slot.started_at = now
                self._window.start(now)

            return delay

        self._queue.wait(take, on_wait)
        try:
            yield slot
        finally:
            with self._queue.lock:
                self._window.running -= 1
                if slot.is_answered:
                    self._window.note_success(slot.started_at)
                elif slot.is_throttled:
                    self._window.note_throttling(self._clock(), slot.retry_after_s, slot.started_at)

                self._queue.wake_head()
