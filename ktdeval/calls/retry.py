"""Retries: which failures may pass, how long to wait, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from tenacity import Future, RetryCallState, Retrying, retry_if_exception

from ktdeval.errors import ModelError

T = TypeVar("T")

Notify = Callable[[str, float, int, int], None]
"""Called before each wait: reason (a kind of ModelError), seconds, attempts so far, most attempts.
"""

RETRYABLE = frozenset(
    {"timeout", "rate_limited", "overloaded", "server", "connection", "bad_response"}
)
"""Kinds of temporary failure; with any other, the same request would fail again."""


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with full jitter, on top of the wait that the provider asks for.

    Before attempt n+1 it waits as long as the provider asked for, plus a random time between 0 and
    `base_s` x 2^(n-1) or `cap_s`, whichever is less. The jitter keeps calls that failed together
    from returning together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture
    Blog (2015), "full jitter".
    """

    max_retries: int  #: most attempts after the first
    #: most seconds of waiting per call, over all its attempts. The call fails when they are used
    #: up, or at once if the provider asks for more than is left.
    max_wait_s: float
    base_s: float = 1.0  #: upper end of the first random wait
    cap_s: float = 60.0  #: upper end of any random wait
    #: source of the jitter; it never changes a result
    rng: random.Random = field(default_factory=random.Random, compare=False)

    def run(self, attempt: Callable[[], T], sleep: Callable[[float], None], notify: Notify) -> T:
        """Call `attempt` until it succeeds, or give up and raise its ModelError.

        `sleep` may raise to end the call. Almost every call succeeds at once, so the first attempt
        is made without the machinery of retries.
        """
        try:
            return attempt()
        except ModelError as error:
            if not is_retryable(error):
                raise
            failures = [error]

        attempts = 1 + self.max_retries

        def try_again() -> T:
            """Fail as the first attempt did, then go on with further ones."""
            if failures:
                raise failures.pop()
            return attempt()

        def before_sleep(state: RetryCallState) -> None:
            notify(_failure(state).kind, state.upcoming_sleep, state.attempt_number, attempts)

        retrying = Retrying(
            sleep=sleep,
            stop=self._gives_up,
            wait=self._wait_s,
            retry=retry_if_exception(is_retryable),
            before_sleep=before_sleep,
            reraise=True,
        )
        return retrying(try_again)

    def _gives_up(self, state: RetryCallState) -> bool:
        """Whether no attempt is left, or the next one would come too late."""
        if state.attempt_number > self.max_retries:
            return True

        left = self.max_wait_s - state.idle_for
        requested = _failure(state).retry_after_s or 0.0
        return left <= 0 or requested > left

    def _wait_s(self, state: RetryCallState) -> float:
        """Return the seconds to wait before the next attempt."""
        doublings = min(state.attempt_number - 1, 64)  # a float can't double without end
        longest = min(self.cap_s, self.base_s * 2.0**doublings)
        # "Full jitter" (Brooker 2015)
        backoff = self.rng.uniform(0.0, longest)

        requested = _failure(state).retry_after_s or 0.0
        left = max(0.0, self.max_wait_s - state.idle_for)
        return min(requested + backoff, left)


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ModelError) and error.kind in RETRYABLE


def _failure(state: RetryCallState) -> ModelError:
    # `is_retryable` lets only ModelErrors reach a wait
    return cast("ModelError", cast("Future", state.outcome).exception())
