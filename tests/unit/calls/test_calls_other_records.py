"""Calls that one record of calls has of another's episodes: read by episode, taken over, gathered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktdeval.calls.records.call_log import LOG_FILE, CallLog, read_calls
from ktdeval.calls.records.database import (
    RECORD,
    CallDatabase,
    EpisodeRows,
    LogIdentity,
    count_calls,
    read_episode,
    read_identity,
    read_labels,
)
from ktdeval.calls.records.record import CallRecord
from support.providers.call_runs import call_of, entry_of, key_of

IDENTITY = LogIdentity("id", "2026-01-31T23:59:59Z")


def call(episode: str, word: str, attempt: int = 1, opening: int = 1) -> CallRecord:
    """A call of an episode that asked a word; 0.25 US dollars."""
    return call_of(word, episode=episode, attempt=attempt, opening=opening)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Record of two episodes and the fixed questions, which ask by turns; `both` answers two."""
    folder = tmp_path / "other"
    folder.mkdir()
    asked = [
        ("e1", "both"),
        ("canary", "fixed"),
        ("e2", "both"),
        ("e2", "second"),
        ("e1", "first"),
    ]

    with CallLog(folder) as log:
        for number, (episode, word) in enumerate(asked):
            log.record(call(episode, word, attempt=number + 1), entry_of(word))

    return folder / LOG_FILE


def attempts(calls: Sequence[CallRecord]) -> list[int]:
    return [each.attempt for each in calls]


def replies(rows: EpisodeRows) -> set[str]:
    return {row.key for row in rows.replies}


# ---- reading


@pytest.mark.parametrize(("episode", "count"), [("e1", 2), ("e2", 2), ("canary", 1), ("e3", 0)])
def test_calls_are_counted_by_episode(episode: str, count: int, other: Path) -> None:
    assert count_calls(other, episode) == count


def test_a_reply_stands_with_the_first_episode_of_those_that_are_asked_for(other: Path) -> None:
    found = read_labels(other, ["e2"])

    assert list(found) == ["e2"]
    assert replies(found["e2"]) == {key_of("both"), key_of("second")}


# ---- writing


def test_gathered_episodes_are_written_in_their_order(other: Path, tmp_path: Path) -> None:
    found = read_labels(other, ["e1", "e2"])
    path = tmp_path / "gathered.sqlite"

    with CallDatabase(path, RECORD) as gathered:
        gathered.write_episodes([found["e2"], found["e1"]])

        assert gathered.keys() == {key_of("both"), key_of("first"), key_of("second")}
        assert attempts(gathered.records("e1")) == [1, 5]
        assert [row.key for row in gathered.replies([key_of("first"), key_of("none")])] == [
            key_of("first")
        ]

    assert attempts(read_episode(path, "e2").calls) == [3, 4]
    assert count_calls(path, "canary") == 0


def test_identity_of_a_record_is_the_first_that_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / LOG_FILE
    with CallDatabase(path, RECORD) as record:
        assert read_identity(path) is None
        assert record.identity(IDENTITY) == IDENTITY
        assert record.identity(LogIdentity("another", "later")) == IDENTITY

    assert read_identity(path) == IDENTITY


def test_what_an_answer_without_a_price_has_cost_is_not_known(tmp_path: Path) -> None:
    with CallLog(tmp_path) as log:
        log.record(call("e1", "a"))
        log.record(call_of("b", episode="e1", cost_usd=None))
        log.record(call("e1", "c"))
        log.record(call_of("d", episode="e2", outcome="timeout", cost_usd=None))

        assert log.list_costs() == {"e1": None}


# ---- taking over


def test_taken_over_calls_replace_those_of_the_episode_and_are_paid_once(
    other: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    with CallLog(other.parent) as log:
        log.record(call("e1", "again", attempt=6, opening=3))

    with CallLog(own) as log:
        log.record(call("e1", "mine"))
        log.record(call("e4", "mine"))
        taken = log.take_over("e1", other.parent)

        assert attempts(taken) == [1, 5, 6]
        assert log.list_costs() == {"e1": 0.75, "e4": 0.25}
        assert log.reply(key_of("first")) == entry_of("first").reply
        assert log.reply(key_of("second")) is None
        assert log.new_opening("e1") == 4
        assert log.new_opening("e2") == 1

    assert [(each.episode, each.attempt) for each in read_calls(own)] == [
        ("e4", 1),
        ("e1", 1),
        ("e1", 5),
        ("e1", 6),
    ]
