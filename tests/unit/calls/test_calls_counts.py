"""Counts of an episode's calls: attempts, answers, what was cached, repeated or not used."""

from __future__ import annotations

from typing import Any

import msgspec

from ktdeval.calls.records.call_counts import tally_episode, transcript_difference
from ktdeval.calls.records.record import BATCHED, CACHED, CallRecord
from ktdeval.harness.chat_messages import Reply, Usage
from ktdeval.testing import on_each_row
from support.providers.call_runs import call_of


def call(word: str, step: int, opening: int = 1, outcome: str = "answered") -> CallRecord:
    """A call of an episode; an answer took 10 tokens in and 2 out."""
    usage = None if outcome == "timeout" else Usage(10, 2)
    return call_of(word, episode="e", step=step, opening=opening, outcome=outcome, usage=usage)


def test_an_answer_that_a_later_opening_takes_from_the_cache_is_repeated() -> None:
    counts = tally_episode([call("a", 1), call("a", 1, opening=2, outcome=CACHED)])

    assert (counts.attempts, counts.answered) == (1, 1)
    assert (counts.cached, counts.repeated, counts.unused) == (0, 1, 0)
    assert counts.replies == 1


INTERRUPTED = [
    call("a", 1),
    call("b", 1, outcome="timeout"),
    call("b", 1, outcome="rate_limited"),
    call("b", 1, outcome="timeout"),
    call("b", 1),
    call("c", 2, outcome=CACHED),
    call("lost", 2),  # its step was interrupted, and then asked otherwise
    call("c", 2, opening=2, outcome=CACHED),
    call("d", 2, opening=2),
    call("e", 3, opening=2, outcome=BATCHED),
]


def test_calls_of_an_interrupted_episode_are_counted_by_their_fate() -> None:
    counts = tally_episode(INTERRUPTED)

    assert (counts.openings, counts.attempts, counts.answered) == (2, 8, 5)
    assert (counts.cached, counts.repeated, counts.unused) == (1, 1, 1)
    assert counts.failed_attempts == {"rate_limited": 1, "timeout": 2}
    assert counts.tokens == Usage(50, 10).to_json()
    assert counts.replies == 5  # a and b, then c, d and e


def test_the_hash_is_of_all_rows_in_their_order_with_their_replies() -> None:
    first = call("a", 1)
    second = call("b", 1)
    kept = msgspec.structs.replace(first, reply=Reply("half", finish_reason="length"))
    hashes = {
        tally_episode(records).sha256
        for records in ([first, second], [second, first], [kept, second], [first])
    }

    assert len(hashes) == 4
    assert tally_episode([first, second]).sha256 in hashes


@on_each_row(
    "replies, errors, difference",
    (5, {}, None),
    (5, {"rate_limited": 1, "timeout": 2}, None),
    (5, {"timeout": 1}, None),
    (4, {}, "5 answered, 1 cached and 1 unused give 5 replies, the transcript has 4"),
    (5, {"timeout": 3}, "2 attempts failed with timeout, the transcript has 3 such calls"),
    (5, {"server": 1}, "0 attempts failed with server, the transcript has 1 such calls"),
)
def test_transcript_holds_each_reply_and_only_attempted_failures(
    replies: int, errors: dict[str, int], difference: Any
) -> None:
    assert transcript_difference(tally_episode(INTERRUPTED), replies, errors) == difference
