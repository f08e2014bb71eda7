"""Attempts after a failed one: which failures may pass, how long to wait, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ktdeval.errors import ModelError

T = TypeVar("T")

Notify = Callable[[str, float, int, int], None]
"""Told before each wait: why (a kind of ModelError), seconds, attempts made so far, most attempts that are made."""

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
        """Call `attempt` until it succeeds or there is no point in going on (then its ModelError); `sleep` may raise to end the
        call.
        """
        number, waited_s = 0, 0.0
        while True:
            number += 1
            try:
                return attempt()
            except ModelError as error:
                kind, wanted_s, left_s = error.kind, error.retry_after_s or 0.0, self.max_wait_s - waited_s
                if not is_retryable(error) or number > self.max_retries or left_s <= 0 or wanted_s > left_s:
                    raise
            wait_s = min(wanted_s + self.rng.uniform(0.0, min(self.cap_s, self.base_s * 2.0 ** min(number - 1, 64))), left_s)
            notify(kind, wait_s, number, 1 + self.max_retries)
            sleep(wait_s)
            waited_s += wait_s


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may get an answer later."""
    return isinstance(error, ModelError) and error.kind in RETRYABLE
