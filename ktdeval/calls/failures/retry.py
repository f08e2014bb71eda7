"""Retries: which failures are temporary, how long to wait, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from tenacity import Future, RetryCallState, Retrying, retry_if_exception

from ktdeval.errors import ModelError

T = TypeVar("T")

Notify = Callable[[str, float, int, int, str], None]
"""Called before each wait: reason (a kind of ModelError), seconds, attempts so far, maximum number
of attempts, and a description of the failure with the provider's words.
"""

RETRYABLE = frozenset(
    {"timeout", "rate_limited", "overloaded", "server", "connection", "bad_response"}
)
"""Kinds of temporary failure; with any other, the same request would fail again."""

#: maximum attempts at a server that has never worked: its address is probably wrong, and more
#: attempts would only cost time or money
FIRST_CONTACTS = 3
_DOUBTFUL = frozenset({"server", "connection", "bad_response"})
"""Kinds of failure of a server that is absent, not the right one, or not set up."""


class OtherServer(ModelError):
    """Answer from a server that does not speak this API, such as a web page.

    A server that has worked before may return such an answer temporarily, through a proxy in front
    of it. A server that has never worked is the wrong one, so the request is not retried.
    """

    def __init__(self, message: str) -> None:
        super().__init__("bad_response", message)


def wait_text(kind: str, wait_s: float, attempt: int, attempts: int, problem: str) -> str:
    """Return in one line how long a call waits, and why. The arguments are those of `Notify`."""
    minutes, seconds = divmod(round(wait_s), 60)
    wait = f"{wait_s:.0f} s"
    if minutes:
        wait = f"{minutes} min {seconds} s"

    cause = kind.replace("_", " ")
    text = f"waiting {wait}: {cause}, attempt {attempt} of {attempts}"
    return f"{text} ({problem})" if problem else text


def always_known(_: ModelError) -> bool:
    """Treat every server as one that has worked before."""
    return True


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with full jitter, in addition to the wait that the provider requests.

    The wait before attempt n+1 is the time that the provider requested, plus a random time between
    0 and `base_s` x 2^(n-1) or `cap_s`, whichever is less. The jitter keeps calls that failed
    together from being retried together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog (2015), "full jitter".
    """

    max_retries: int  #: maximum number of attempts after the first
    #: maximum seconds of waiting per call, over all attempts. The call fails when the time is used
    #: up, or at once if the provider requests more than is left.
    max_wait_s: float
    base_s: float = 1.0  #: upper end of the first random wait
    cap_s: float = 60.0  #: upper end of any random wait
    #: source of the jitter, which never affects a result
    rng: random.Random = field(default_factory=random.Random, compare=False)

    def run(
        self,
        attempt: Callable[[], T],
        sleep: Callable[[float], None],
        notify: Notify,
        is_known: Callable[[ModelError], bool] = always_known,
    ) -> T:
        """Call `attempt` until it succeeds, or give up and raise its ModelError.

        `sleep` may raise an error to end the call. `is_known` returns whether the server that
        failed is known to work; a server that is not known to work gets fewer attempts.
        """
        attempts = 1 + self.max_retries

        def most(error: ModelError) -> int:
            """Return the maximum number of attempts for a call that fails with this error."""
            if is_known(error):
                return attempts
            return min(attempts, first_contacts(error) or attempts)

        def before_sleep(state: RetryCallState) -> None:
            error = _failure(state)
            notify(error.kind, state.upcoming_sleep, state.attempt_number, most(error), str(error))

        def gives_up(state: RetryCallState) -> bool:
            """Return whether no attempt is left, or the next attempt would come too late."""
            error = _failure(state)
            left = self.max_wait_s - state.idle_for
            requested = error.retry_after_s or 0.0
            return state.attempt_number >= most(error) or left <= 0 or requested > left

        retrying = Retrying(
            sleep=sleep,
            stop=gives_up,
            wait=self._wait_s,
            retry=retry_if_exception(is_retryable),
            before_sleep=before_sleep,
            reraise=True,
        )
        return retrying(attempt)

    def _wait_s(self, state: RetryCallState) -> float:
        """Return the seconds to wait before the next attempt."""
        # doubling a float without limit would overflow
        doublings = min(state.attempt_number - 1, 64)
        longest = min(self.cap_s, self.base_s * 2.0**doublings)
        # "Full jitter" (Brooker 2015)
        backoff = self.rng.uniform(0.0, longest)

        requested = _failure(state).retry_after_s or 0.0
        left = max(0.0, self.max_wait_s - state.idle_for)
        return min(requested + backoff, left)


def first_contacts(error: ModelError) -> int | None:
    """Return the number of attempts after which to give up on a server that has never worked,
    depending on the failure; None if the failure says nothing about the server.
    """
    if isinstance(error, OtherServer):
        return 1
    return FIRST_CONTACTS if error.kind in _DOUBTFUL else None


def is_retryable(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    return isinstance(error, ModelError) and error.kind in RETRYABLE


def _failure(state: RetryCallState) -> ModelError:
    # `is_retryable` ensures that only a ModelError leads to a wait
    return cast("ModelError", cast("Future", state.outcome).exception())
