"""Which failures are tried again, after how long, and when that ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.calls.retry import RETRYABLE, RetryPolicy
from ktdeval.errors import BudgetError, ModelError


class Attempts:
    """Attempts that fail as scheduled and then succeed; what was waited for between them."""

    def __init__(self, *failures: ModelError) -> None:
        self.failures = list(failures)
        self.made = 0
        self.waits: list[float] = []
        self.notes: list[tuple[str, float, int, int]] = []

    def __call__(self) -> str:
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    def run(self, policy: RetryPolicy) -> str:
        return policy.run(self, self.waits.append, lambda *note: self.notes.append(note))


def policy(max_retries: int = 12, max_wait_s: float = 3600.0, seed: int = 0) -> RetryPolicy:
    return RetryPolicy(max_retries, max_wait_s, rng=random.Random(seed))


def failures(count: int, kind: str = "server", retry_after_s: float | None = None) -> list[ModelError]:
    return [ModelError(kind, f"failure {number}", retry_after_s) for number in range(count)]


@pytest.mark.parametrize("kind", sorted(RETRYABLE))
def test_a_failure_that_may_pass_is_tried_again(kind):
    attempts = Attempts(*failures(3, kind))
    assert attempts.run(policy()) == "answer"
    assert (attempts.made, len(attempts.waits)) == (4, 3)


@pytest.mark.parametrize("kind", ["bad_request", "a_kind_of_a_plugin"])
def test_a_failure_that_would_come_again_is_not_tried_again(kind):
    attempts = Attempts(*failures(1, kind))
    with pytest.raises(ModelError, match="failure 0"):
        attempts.run(policy())
    assert (attempts.made, attempts.waits) == (1, [])


def test_the_last_failure_rises_when_all_attempts_are_used_up():
    attempts = Attempts(*failures(9))
    with pytest.raises(ModelError, match="failure 3") as caught:
        attempts.run(policy(max_retries=3))
    assert caught.value.kind == "server"
    assert (attempts.made, len(attempts.waits)) == (4, 3)


def test_without_retries_there_is_one_attempt():
    attempts = Attempts(*failures(1))
    with pytest.raises(ModelError):
        attempts.run(policy(max_retries=0))
    assert attempts.made == 1


def test_waits_are_random_below_a_bound_that_doubles_up_to_the_cap():
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    seen: list[list[float]] = [[] for _ in bounds]
    for seed in range(400):
        attempts = Attempts(*failures(len(bounds)))
        attempts.run(policy(seed=seed))
        for waits, wait in zip(seen, attempts.waits, strict=True):
            waits.append(wait)
    for waits, bound in zip(seen, bounds, strict=True):
        assert 0 <= min(waits) < 0.05 * bound
        assert 0.95 * bound < max(waits) <= bound
        assert 0.45 * bound < sum(waits) / len(waits) < 0.55 * bound


def test_retry_after_is_a_floor_of_the_wait_and_calls_that_got_the_same_do_not_come_back_together():
    waits = []
    for seed in range(50):
        attempts = Attempts(*failures(1, "rate_limited", retry_after_s=20.0))
        attempts.run(policy(seed=seed))
        waits += attempts.waits
    assert all(20.0 <= wait <= 21.0 for wait in waits)
    assert len(set(waits)) == 50


def test_a_provider_that_asks_for_more_than_may_be_waited_ends_the_call_at_once():
    attempts = Attempts(*failures(5, "rate_limited", retry_after_s=86_400.0))
    with pytest.raises(ModelError, match="failure 0"):
        attempts.run(policy())
    assert attempts.waits == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 200)), max_size=30), st.integers(0, 15), st.floats(0, 500), st.integers(0, 1000))
def test_whatever_fails_neither_attempts_nor_waits_exceed_what_was_set(wishes, max_retries, max_wait_s, seed):
    attempts = Attempts(*(ModelError("rate_limited", "slow down", wish) for wish in wishes))
    try:
        attempts.run(policy(max_retries, max_wait_s, seed))
    except ModelError:
        assert attempts.made <= 1 + max_retries
    assert attempts.made <= 1 + max_retries
    assert sum(attempts.waits) <= max_wait_s * (1 + 1e-12)
    for wish, wait in zip(wishes, attempts.waits, strict=False):
        assert wait >= (wish or 0.0)


def test_each_wait_is_announced_with_its_reason_and_the_attempts_made_so_far():
    attempts = Attempts(ModelError("server", "a"), ModelError("rate_limited", "b", 5.0))
    attempts.run(policy(max_retries=7))
    kinds = [(kind, attempt, attempts_) for kind, _, attempt, attempts_ in attempts.notes]
    assert kinds == [("server", 1, 8), ("rate_limited", 2, 8)]
    assert [wait for _, wait, _, _ in attempts.notes] == attempts.waits


def test_the_end_of_the_run_ends_the_waiting():
    def sleep(seconds: float) -> None:
        raise BudgetError("over")

    attempts = Attempts(*failures(3))
    with pytest.raises(BudgetError):
        policy().run(attempts, sleep, lambda *note: None)
    assert attempts.made == 1
