"""Which failures are tried again, after how long, and when that ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls.retry import RETRYABLE, RetryPolicy
from ktdeval.errors import BudgetError, ModelError
from searching import examples
from tables import on_each_row


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

    def run(self, max_retries: int = 12, max_wait_s: float = 3600.0, seed: int = 0) -> str:
        policy = RetryPolicy(max_retries, max_wait_s, rng=random.Random(seed))
        return policy.run(self, self.waits.append, lambda *note: self.notes.append(note))


def failures(count: int, kind: str = "server", retry_after_s: float | None = None) -> list[ModelError]:
    return [ModelError(kind, f"failure {number}", retry_after_s) for number in range(count)]


def test_failures_that_may_pass_are_tried_again_and_each_wait_is_announced():
    kinds = sorted(RETRYABLE)
    attempts = Attempts(*(ModelError(kind, "not now") for kind in kinds))
    assert attempts.run(7) == "answer"
    assert attempts.made == 1 + len(kinds)
    announced = [(kind, made, most) for kind, _, made, most in attempts.notes]
    assert announced == [(kind, place, 8) for place, kind in enumerate(kinds, 1)]
    assert [wait for _, wait, _, _ in attempts.notes] == attempts.waits


@on_each_row
def test_the_last_failure_rises_when_there_is_no_point_in_another_attempt(planned, max_retries, last, made):
    planned = failures(*planned)
    attempts = Attempts(*planned)
    with pytest.raises(ModelError, match=last) as caught:
        attempts.run(max_retries)
    assert caught.value.kind == planned[0].kind
    assert (attempts.made, len(attempts.waits)) == (made, made - 1)


def test_waits_are_random_below_a_bound_that_doubles_up_to_the_cap():
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    played = [Attempts(*failures(len(bounds))) for _ in range(400)]
    for seed, attempts in enumerate(played):
        attempts.run(seed=seed)
    for bound, waits in zip(bounds, zip(*(attempts.waits for attempts in played), strict=True), strict=True):
        assert 0 <= min(waits) < 0.05 * bound
        assert 0.95 * bound < max(waits) <= bound
        assert 0.45 * bound < sum(waits) / len(waits) < 0.55 * bound


def test_calls_that_got_the_same_retry_after_do_not_come_back_together():
    waits = []
    for seed in range(50):
        attempts = Attempts(*failures(1, "rate_limited", retry_after_s=20.0))
        attempts.run(seed=seed)
        waits += attempts.waits
    assert all(20.0 <= wait <= 21.0 for wait in waits)
    assert len(set(waits)) == 50


wishes = st.lists(st.none() | st.floats(0, 200), max_size=30)


@examples(60)
@given(wishes, st.integers(0, 15), st.floats(0, 500), st.integers(0, 1000))
def test_whatever_fails_neither_attempts_nor_waits_exceed_what_was_set(wanted, max_retries, max_wait_s, seed):
    attempts = Attempts(*(ModelError("rate_limited", "slow down", wish) for wish in wanted))
    try:
        attempts.run(max_retries, max_wait_s, seed)
    except ModelError:
        assert attempts.made <= 1 + max_retries
    assert attempts.made <= 1 + max_retries
    assert sum(attempts.waits) <= max_wait_s * (1 + 1e-12)
    assert all(wait >= (wish or 0.0) for wish, wait in zip(wanted, attempts.waits, strict=False))


def test_the_end_of_the_run_ends_the_waiting():
    def sleep(seconds: float) -> None:
        raise BudgetError("over")

    attempts = Attempts(*failures(3))
    with pytest.raises(BudgetError):
        RetryPolicy(12, 3600.0).run(attempts, sleep, lambda *note: None)
    assert attempts.made == 1
