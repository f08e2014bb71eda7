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
"""Called before each wait with its reason (a kind of ModelError), seconds, attempts made so far, most attempts that are made."""

RETRYABLE = frozenset({"timeout", "rate_limited", "overloaded", "server", "connection", "bad_response"})
"""Kinds of failure that may pass by themselves; any other would come again with the same request."""


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with full jitter, and the provider's own wish as its floor. Before attempt n+1 it waits as long as the
    provider asked for, and then a random part of `base_s` x 2^(n-1), at most of `cap_s`: so calls that failed together do not come
    back together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog (2015), "full jitter".
    """

    max_retries: int  #: most attempts after the first
    #: most seconds of waiting between all attempts of a call together; when they are used up, so is the call. A provider that asks
    #: for more than is left ends the call at once.
    max_wait_s: float
    base_s: float = 1.0  #: upper end of the first random wait
    cap_s: float = 60.0  #: upper end of any random wait
    #: where the jitter comes from; it never changes a result
    rng: random.Random = field(default_factory=random.Random, compare=False)

    def run(self, attempt: Callable[[], T], sleep: Callable[[float], None], notify: Notify) -> T:
        """Call `attempt` until it succeeds, or give up and raise its ModelError; `sleep` may raise to end the call."""

        def before_sleep(state: RetryCallState) -> None:
            notify(_failure(state).kind, state.upcoming_sleep, state.attempt_number, 1 + self.max_retries)

        retrying = Retrying(
            sleep=sleep,
            stop=self._gives_up,
            wait=self._wait_s,
            retry=retry_if_exception(is_retryable),
            before_sleep=before_sleep,
            reraise=True,
        )
        return retrying(attempt)

    def _gives_up(self, state: RetryCallState) -> bool:
        left = self.max_wait_s - state.idle_for
        return state.attempt_number > self.max_retries or left <= 0 or (_failure(state).retry_after_s or 0.0) > left

    def _wait_s(self, state: RetryCallState) -> float:
        backoff = self.rng.uniform(0.0, min(self.cap_s, self.base_s * 2.0 ** min(state.attempt_number - 1, 64)))
        return min((_failure(state).retry_after_s or 0.0) + backoff, max(0.0, self.max_wait_s - state.idle_for))


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may get an answer later."""
    return isinstance(error, ModelError) and error.kind in RETRYABLE


def _failure(state: RetryCallState) -> ModelError:
    return cast("ModelError", cast("Future", state.outcome).exception())  # only such failures are waited after
