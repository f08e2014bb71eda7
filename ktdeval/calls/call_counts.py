"""Counts of an episode's calls, which must agree with the record of calls and the transcript.

A step that was interrupted runs again, and takes its replies from the record. Each call therefore
states its step and how often the episode had been opened. The transcript shows the last opening of
each step. So for each episode

    answered + cached - unused = replies in the transcript
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Protocol

from msgspec import Meta

from ktdeval.harness.chat_messages import Usage
from ktdeval.values.strict_json import dumps_canonical
from ktdeval.values.typed_json import Value

_Count = Annotated[int, Meta(ge=0)]
_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

_Request = tuple[int | None, str]  #: Step, and first digits of the request's key

ANSWERED = "answered"
BATCHED = "batched"
CACHED = "cached"
REFUSED = "refused"
"""Outcomes of a call: answered, answered by the provider's batch interface, taken from the cache, or
ended in a `ProviderError`.

Any other outcome is a kind of `ModelError`.
"""
ANSWERS = frozenset({ANSWERED, BATCHED})  #: Outcomes of an attempt that the provider answered


class CallRow(Protocol):
    """A row of the record of calls (`ktdeval.calls.record.CallRecord`)."""

    @property
    def episode(self) -> str:
        """Id of the episode that asked."""

    @property
    def key(self) -> str:
        """First digits of the request's key."""

    @property
    def outcome(self) -> str:
        """Outcome of the attempt."""

    @property
    def usage(self) -> Usage | None:
        """Tokens of the reply."""

    @property
    def step(self) -> int | None:
        """Step that asked."""

    @property
    def opening(self) -> int:
        """How often the episode had been opened, this opening included."""

    def to_row(self) -> tuple[Any, ...]:
        """Return the values as they are stored; the last one is the reply, if it has one."""


class EpisodeCalls(Value, frozen=True):
    """Calls of one episode, all sessions of the run together."""

    #: how often it was opened and asked: once, and once more after each interruption
    openings: _Count
    attempts: _Count  #: attempts made, those that failed included
    answered: _Count  #: attempts that were answered
    cached: _Count  #: answers of earlier calls of others, taken from the reply cache
    #: answers given once more to a step that was interrupted and ran again; in neither count before
    repeated: _Count
    #: answers that its transcript does not hold: of a step that ran again and was then answered
    #: otherwise
    unused: _Count
    failed_attempts: dict[str, _Count]  #: attempts without an answer, by kind
    tokens: dict[str, _Count]  #: tokens of the answered attempts
    sha256: _Sha256  #: of its rows in the run's record of calls, in their order

    @property
    def replies(self) -> int:
        """Replies that its transcript must hold."""
        return self.answered + self.cached - self.unused


@dataclass(frozen=True)
class CallCounter:
    """Functions that count an episode's calls while it runs.

    The defaults count nothing: a model on this machine makes no calls.
    """

    #: called with the number of each step before it runs
    begin_step: Callable[[int], None] = lambda _step: None
    #: called before a step is journalled; returns when the step's calls are on disk
    settle: Callable[[], None] = lambda: None
    #: returns the counts so far; None if nothing is counted
    calls: Callable[[], EpisodeCalls | None] = lambda: None


def tally_calls(records: Iterable[CallRow]) -> dict[str, EpisodeCalls]:
    """Return the counts of each episode (or `canary`, `check`) that made calls, by its id."""
    rows: dict[str, list[CallRow]] = {}
    for record in records:
        rows.setdefault(record.episode, []).append(record)
    return {episode: tally_episode(own) for episode, own in rows.items()}


def tally_episode(records: Sequence[CallRow]) -> EpisodeCalls:
    """Return the counts of one episode from all of its rows, in their order."""
    attempts = [record for record in records if record.outcome != CACHED]
    answers = [record for record in attempts if record.outcome in ANSWERS]
    failed = Counter(record.outcome for record in attempts if record.outcome not in ANSWERS)
    tokens = sum((record.usage or Usage() for record in answers), Usage())
    cached, repeated = _count_cached(records)

    return EpisodeCalls(
        openings=len({record.opening for record in records}),
        attempts=len(attempts),
        answered=len(answers),
        cached=cached,
        repeated=repeated,
        unused=len(answers) + cached - _replies_of_last_openings(records),
        failed_attempts=dict(sorted(failed.items())),
        tokens=tokens.to_json(),
        sha256=_records_digest(records),
    )


def _count_cached(records: Iterable[CallRow]) -> tuple[int, int]:
    """Return the numbers of cached replies to new requests, and to requests of a repeated step."""
    cached = 0
    repeated = 0
    first_openings: dict[_Request, int] = {}
    for record in records:
        if record.outcome not in (*ANSWERS, CACHED):
            continue

        first = first_openings.setdefault((record.step, record.key), record.opening)
        if record.outcome in ANSWERS:
            continue
        if record.opening > first:
            repeated += 1
        else:
            cached += 1

    return cached, repeated


def _replies_of_last_openings(records: Sequence[CallRow]) -> int:
    """Return the number of replies that each step received at its last opening, summed."""
    last: dict[int | None, int] = {}
    for record in records:
        last[record.step] = max(record.opening, last.get(record.step, 0))

    replies = [record for record in records if record.outcome in (*ANSWERS, CACHED)]
    return sum(record.opening == last[record.step] for record in replies)


def _records_digest(records: Iterable[CallRow]) -> str:
    """Return the SHA-256 of records, each as a line of canonical JSON.

    A reply stored in the record is represented by its own SHA-256.
    """
    digest = sha256()
    for record in records:
        *values, reply = record.to_row()
        reply_hash = None
        if reply is not None:
            reply_hash = sha256(reply).hexdigest()

        line = dumps_canonical([*values, reply_hash]) + "\n"
        digest.update(line.encode("utf-8", "surrogatepass"))

    return digest.hexdigest()


def transcript_difference(
    calls: EpisodeCalls, replies: int, errors: Mapping[str, int]
) -> str | None:
    """Return how an episode's counts differ from its transcript; None if they agree.

    `replies` and `errors` (by kind) are the numbers in the transcript.
    """
    if calls.replies != replies:
        counted = f"{calls.answered} answered, {calls.cached} cached and {calls.unused} unused"
        return f"{counted} give {calls.replies} replies, the transcript has {replies}"

    # A call that failed for good has one failed attempt or more.
    for kind, failed in errors.items():
        attempts = calls.failed_attempts.get(kind, 0)
        if attempts < failed:
            return (
                f"{attempts} attempts failed with {kind}, the transcript"
                f" has {failed} calls that did"
            )

    return None
