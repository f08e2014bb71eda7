"""Fair queue of waiting threads, and the number of a provider's calls at once, learnt from its refusals (AIMD, as in TCP).

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
from dataclasses import dataclass

_LOOK_AGAIN_S = 0.1


class FairQueue:
    """Queue that lets threads through one by one, in order of arrival; `check` raises when waiting makes no sense any more.

    Only the thread at the head polls whether its turn has come and whether the run still goes on; the others sleep until they
    are at the head. So a thousand waiting threads cost no more than one, none is overtaken, and the end of a run empties the
    queue from its head. `lock` guards the state that `take` reads: hold it to change that, and then call `changed`.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._check = check
        self._waiting: deque[threading.Event] = deque()

    def wait(self, take: Callable[[], float], on_wait: Callable[[], None] | None = None) -> None:
        """Wait for one's turn; whatever `check` or `take` raises, the thread has then left the queue.

        `take` is called with `lock` held, by the thread at the head: it takes what was waited for and returns 0, or returns the
        seconds after which to ask again (infinite: when something has changed). `on_wait` is called once, without the lock,
        where the thread has to wait.
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
        """Return 0 when it was this thread's turn, else the seconds until the next look: None when it has come to the head."""
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
    """Arithmetic of the limit, without threads or a clock of its own; times are seconds on any one clock.

    It begins at `ceiling`, most calls at once, so that a provider without limits is never held back.
    """

    def __init__(self, ceiling: int, gap_s: float = 0.0) -> None:
        self.running = 0  #: calls that have started and not ended
        self.paused_until = -math.inf  #: no call starts before this time, because the provider said so
        self._ceiling, self._gap_s = ceiling, gap_s
        self._window = float(ceiling)
        self._next_start = self._cut_at = -math.inf

    @property
    def limit(self) -> int:
        """Most calls at once for now."""
        return int(self._window)

    def delay_s(self, now: float) -> float:
        """Seconds until a call may start: 0 at once, infinite when one has to end first."""
        return math.inf if self.running >= self.limit else max(0.0, self.paused_until - now, self._next_start - now)

    def start(self, now: float) -> None:
        """Record the start of a call."""
        self.running += 1
        self._next_start = now + self._gap_s

    def throttled(self, now: float, retry_after_s: float | None, started_at: float) -> None:
        """Record that the provider refused a call because there were too many. The limit is halved at most once a round: calls
        that were already under way at the last cut say nothing about the limit since then.
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


@dataclass(slots=True)
class Slot:
    """Permission for one call to a provider; its holder sets how the call ended, which the limit learns from at its release."""

    started_at: float = 0.0
    is_answered: bool = False
    is_throttled: bool = False  #: refused because there were too many
    retry_after_s: float | None = None


class ProviderLimiter:
    """Slots for the calls of many threads to one provider, given in the order in which they were asked for.

    At most `ceiling` at once, their starts `gap_s` apart; `check` raises when the run is over; `clock` is monotonic.
    """

    def __init__(self, ceiling: int, gap_s: float, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._window = AimdWindow(ceiling, gap_s)
        self._queue = FairQueue(check)
        self._clock = clock

    @property
    def pause_s(self) -> float:
        """Seconds for which the provider still accepts no call; 0 when it does."""
        return max(0.0, self._window.paused_until - self._clock())

    @contextlib.contextmanager
    def slot(self, on_wait: Callable[[], None] | None = None) -> Iterator[Slot]:
        """Hold a slot during one call; `on_wait` is called once where it can't start at once. Raises what `check` raises."""
        held = Slot()

        def take() -> float:
            now = self._clock()
            if (delay := self._window.delay_s(now)) == 0:
                held.started_at = now
                self._window.start(now)
            return delay

        self._queue.wait(take, on_wait)
        try:
            yield held
        finally:
            with self._queue.lock:
                self._window.running -= 1
                if held.is_answered:
                    self._window.succeeded(held.started_at)
                elif held.is_throttled:
                    self._window.throttled(self._clock(), held.retry_after_s, held.started_at)
                self._queue.changed()
