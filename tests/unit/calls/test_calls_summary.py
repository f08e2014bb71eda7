"""The figures of a run's money book that a card shows."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.calls.record import ANSWERED, CACHED, REFUSED, CallRecord, summarise_calls
from ktdeval.harness.messages import Usage


def call(key: str, outcome: str = ANSWERED, latency_s: float = 1.0, episode: str = "e1", **changes: Any) -> CallRecord:
    """A line of the book; an answer took 100 tokens in and 10 out for 0.5 USD."""
    if outcome in (ANSWERED, CACHED):
        changes = {"usage": Usage(100, 10), "cost_usd": 0.5 if outcome == ANSWERED else None, "served_by": "m-2026"} | changes
    return CallRecord(
        **{"at": "2026-01-02T03:04:05Z", "attempt": 1} | changes, episode=episode, key=key, outcome=outcome, latency_s=latency_s
    )


def summary(*records: CallRecord) -> dict[str, Any]:
    found = summarise_calls(records, {"e1", "e2"})
    assert found is not None
    return found


def test_each_failed_attempt_is_counted_under_its_own_kind_beside_the_answer_that_followed() -> None:
    made = summary(call("a", "rate_limited"), call("a", "server", attempt=2), call("a", attempt=3), call("b"), call("c", REFUSED))
    assert (made["requests"], made["attempts"], made["answered"], made["cached"]) == (3, 5, 2, 0)
    assert made["failed_attempts"] == {"rate_limited": 1, "refused": 1, "server": 1}


def test_a_reply_from_the_cache_costs_nothing_and_is_no_attempt() -> None:
    made = summary(call("a"), call("b", CACHED), call("b", CACHED, episode="e2"))
    assert (made["requests"], made["attempts"], made["cached"], made["paid_usd"]) == (3, 1, 2, 0.5)
    assert made["tokens"]["input_tokens"] == 100


def test_a_request_that_a_resumed_run_asks_again_is_one_request() -> None:
    made = summary(call("a"), call("a", CACHED))
    assert (made["requests"], made["served_by"]) == (1, {"m-2026": 1})


def test_what_was_paid_is_not_known_where_the_price_of_one_answer_is_not() -> None:
    assert summary(call("a"), call("b", cost_usd=None))["paid_usd"] is None
    assert summary(call("a"), call("b"))["paid_usd"] == 1.0


def test_money_held_for_attempts_without_an_answer_stands_apart() -> None:
    made = summary(call("a", "timeout", 120.0, held_usd=0.25), call("a", "bad_response", 3.5, held_usd=0.125), call("a"))
    assert (made["paid_usd"], made["possibly_paid_usd"], made["lost_s"]) == (0.5, 0.375, 123.5)


def test_latencies_are_those_of_answers_by_nearest_rank() -> None:
    made = summary(*(call(str(number), latency_s=float(number)) for number in range(1, 101)), call("x", "timeout", 500.0))
    assert made["latency_s"] == {"median": 50.0, "p90": 90.0, "p99": 99.0, "longest": 100.0}


@pytest.mark.parametrize(("seconds", "median"), [([3.0], 3.0), ([1.0, 2.0], 1.0), ([3.0, 1.0, 2.0], 2.0)])
def test_the_median_latency_of_a_few_calls_is_that_of_one_of_them(seconds: list[float], median: float) -> None:
    assert summary(*(call(str(place), latency_s=one) for place, one in enumerate(seconds)))["latency_s"]["median"] == median


def test_without_an_answer_there_is_no_latency() -> None:
    assert set(summary(call("a", "timeout"))["latency_s"].values()) == {None}


def test_calls_of_other_cards_do_not_count_and_those_of_the_run_itself_stand_apart() -> None:
    made = summary(call("a"), call("b", episode="another"), call("c", episode="check"), call("d", "server", episode="canary"))
    assert made["requests"] == 1
    assert made["checks"] == {"requests": 2, "attempts": 2, "paid_usd": 0.5, "possibly_paid_usd": 0.0}


def test_a_book_without_a_call_of_these_episodes_gives_no_summary() -> None:
    assert summarise_calls([call("a", episode="check")], {"e1"}) is None
    assert summarise_calls([], {"e1"}) is None
