"""Failures of calls: what an adapter of another plugin is given, which are tried again, after how long, and when that ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls import Caller, ContentFiltered, http_error, json_reply, network_error
from ktdeval.calls.retry import RetryPolicy
from ktdeval.errors import ModelError, ProviderError
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


# -- errors of HTTP, for adapters of other plugins


KEY = "mine-0123456789abcdef"
CALLER = Caller("mine", "m-1", "https://mine.example/v1", ("MINE_API_KEY",), (KEY,), {"e17": 402})


def test_codes_of_a_server_mean_what_its_adapter_says() -> None:
    assert "no quota" in str(http_error(400, b'{"code": "E17"}', {}, CALLER))
    with pytest.raises(ProviderError, match="no quota"):
        json_reply(b'{"error": {"code": "E17"}}', CALLER)
    assert isinstance(http_error(400, b'{"error": {"code": "content_filter"}}', {}, CALLER), ContentFiltered)


def test_without_a_whole_response_it_is_a_timeout_a_connection_or_a_bad_response() -> None:
    assert network_error(CALLER, "", is_timeout=True).kind == "timeout"
    lost = network_error(CALLER, f"getaddrinfo failed for {KEY}")
    assert (lost.kind, "is the address right?" in str(lost), KEY in str(lost)) == ("connection", True, False)
    for content in (b"", b"<html>", b"[1]", b'{"cut": '):
        with pytest.raises(ModelError) as caught:
            json_reply(content, CALLER)
        assert caught.value.kind == "bad_response"
    assert json_reply(b'{"a": 1}', CALLER) == {"a": 1}
