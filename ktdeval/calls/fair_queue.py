"""A queue of threads that wait for something scarce: first come, first served, and over when the run is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

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
