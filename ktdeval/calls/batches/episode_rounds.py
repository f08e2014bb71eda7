"""Rounds of calls: episodes that run side by side make their next calls together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ktdeval.calls.pending_call import WantedReply
from ktdeval.values.disk.rollback import undone_on_error

_CHECK_S = 1.0  #: seconds after which a waiting episode checks whether its run has ended

Send = Callable[[Sequence[WantedReply]], None]
"""Makes the calls of a round, and returns when all of them have ended."""


@dataclass(eq=False)
class _Round:
    """Calls that are sent together."""

    wanted: list[WantedReply] = field(default_factory=list)
    episodes: int = 0  #: number of episodes that wait for the round
    is_over: bool = False
    problem: BaseException | None = None  #: why the calls were not made

    def fail(self, problem: BaseException) -> None:
        """Record why the calls were not made."""
        self.problem = problem

    def leave(self, _: BaseException) -> None:
        """Count an episode that no longer waits."""
        self.episodes -= 1


class EpisodeRounds:
    """Meeting point for the episodes of a run, each of which has its own thread.

    An episode joins before it runs and leaves when it has ended. A round is sent when every episode
    that has joined is waiting for a reply; one of the waiting threads sends it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._episodes = 0
        self._next = _Round()

    def join(self, episodes: int = 1) -> None:
        """Add episodes before they run. No round is sent until each of them waits or has left."""
        with self._changed:
            self._episodes += episodes

    def leave(self) -> None:
        """Remove an episode that has ended."""
        with self._changed:
            self._episodes -= 1
            self._changed.notify_all()  # the round may now be complete

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Send no round inside the `with` block, so that further episodes may join."""
        self.join()
        try:
            yield
        finally:
            self.leave()

    def ask(self, wanted: Sequence[WantedReply], send: Send, check: Callable[[], None]) -> None:
        """Add the calls of one episode to the next round, and return when the round is over.

        `check` is called while waiting, and raises an error if the run has ended. An error raised
        by `send` is raised in each episode of the round.
        """
        own = self._wait(wanted, check)
        if own is None:
            return

        try:
            with undone_on_error(own.fail):
                send(own.wanted)
        finally:
            with self._changed:
                own.is_over = True
                self._changed.notify_all()

    def _wait(self, wanted: Sequence[WantedReply], check: Callable[[], None]) -> _Round | None:
        """Wait until the next round is over, and return None. If this thread is to send the round,
        return the round at once.
        """
        with self._changed:
            own = self._next
            own.wanted += wanted
            own.episodes += 1
            while not own.is_over:
                if own is self._next and own.episodes == self._episodes:
                    self._next = _Round()
                    return own

                self._changed.wait(_CHECK_S)
                with undone_on_error(own.leave):
                    check()

        if own.problem is not None:
            raise own.problem
        return None
