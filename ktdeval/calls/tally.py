"""Counts of an episode's calls, tied to its rows in the record of calls and to the replies in its transcript.

A step that a kill cut off runs again, and its replies are given again from the record. Each call therefore says which step asked,
and at which opening of the episode: the last opening of a step is the one that its transcript tells of. So for each episode

    answered + cached - unused = replies in the transcript
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Protocol

from msgspec import Meta

from ktdeval.harness.messages import Usage
from ktdeval.jsonio import dumps_canonical
from ktdeval.typed import Value

_Count = Annotated[int, Meta(ge=0)]
_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

_Request = tuple[int | None, str]  #: A step, and the first digits of what it asked

ANSWERED = "answered"
CACHED = "cached"
REFUSED = "refused"
"""Outcomes of a call next to the kinds of `ModelError`: answered, taken from the cache, or ended in a `ProviderError`."""


class Row(Protocol):
    """A row of the record of calls (`ktdeval.calls.record.CallRecord`)."""

    @property
    def episode(self) -> str:
        """Id of the episode that asked."""

    @property
    def key(self) -> str:
        """First digits of the request's key."""

    @property
    def outcome(self) -> str:
        """What became of the attempt."""

    @property
    def usage(self) -> Usage | None:
        """Tokens of the reply."""

    @property
    def step(self) -> int | None:
        """Step that asked."""

    @property
    def opening(self) -> int:
        """How often the episode had been opened by then."""

    def to_row(self) -> tuple[Any, ...]:
        """Return its values as they are stored, that of a kept reply last."""


class EpisodeCalls(Value, frozen=True):
    """Calls of one episode, all sessions of the run together."""

    openings: _Count  #: how often it was opened and asked: once, and once more after each interruption
    attempts: _Count  #: attempts made, those that failed included
    answered: _Count  #: attempts that were answered
    cached: _Count  #: answers of earlier calls of others, taken from the reply cache
    repeated: _Count  #: answers given once more to a step that was interrupted and ran again; in neither count before
    unused: _Count  #: answers that its transcript does not hold: of a step that ran again and was then answered otherwise
    failed_attempts: dict[str, _Count]  #: attempts without an answer, by kind
    tokens: dict[str, _Count]  #: tokens of the answered attempts
    sha256: _Sha256  #: of its rows in the run's record of calls, in their order

    @property
    def replies(self) -> int:
        """Replies that its transcript must hold."""
        return self.answered + self.cached - self.unused


@dataclass(frozen=True)
class CallCounter:
    """Counting of an episode's calls by its steps, while it runs; by default nothing is counted, as of a model of this machine."""

    begin_step: Callable[[int], None] = lambda _step: None  #: called with the number of each step before it runs
    settle: Callable[[], None] = lambda: None  #: called before a step is journalled: its calls are on disk once it returns
    calls: Callable[[], EpisodeCalls | None] = lambda: None  #: returns the counts so far; None where nothing is counted


def tally_calls(records: Iterable[Row]) -> dict[str, EpisodeCalls]:
    """Return the counts of each episode (or `canary`, `check`) that made calls, by its name in the record."""
    rows: dict[str, list[Row]] = {}
    for record in records:
        rows.setdefault(record.episode, []).append(record)
    return {episode: tally_episode(own) for episode, own in rows.items()}


def tally_episode(records: Sequence[Row]) -> EpisodeCalls:
    """Return the counts of one episode from all of its rows, in their order; none of them is of an episode that asked nothing."""
    attempts = [record for record in records if record.outcome != CACHED]
    answers = [record for record in attempts if record.outcome == ANSWERED]
    failed = Counter(record.outcome for record in attempts if record.outcome != ANSWERED)
    cached = repeated = 0
    first_openings: dict[_Request, int] = {}
    for record in records:
        if record.outcome not in (ANSWERED, CACHED):
            continue
        first = first_openings.setdefault((record.step, record.key), record.opening)
        if record.outcome == CACHED and record.opening > first:
            repeated += 1
        elif record.outcome == CACHED:
            cached += 1
    return EpisodeCalls(
        openings=len({record.opening for record in records}),
        attempts=len(attempts),
        answered=len(answers),
        cached=cached,
        repeated=repeated,
        unused=len(answers) + cached - _replies_of_last_openings(records),
        failed_attempts=dict(sorted(failed.items())),
        tokens=sum((record.usage or Usage() for record in answers), Usage()).to_json(),
        sha256=_digest(records),
    )


def _replies_of_last_openings(records: Sequence[Row]) -> int:
    """Return the number of replies that steps were given at the opening that finished them, or may finish them yet."""
    last: dict[int | None, int] = {}
    for record in records:
        last[record.step] = max(record.opening, last.get(record.step, 0))
    return sum(record.outcome in (ANSWERED, CACHED) and record.opening == last[record.step] for record in records)


def _digest(records: Iterable[Row]) -> str:
    """Return the SHA-256 of records, each as a line of canonical JSON; of a reply that is kept with its call, its own SHA-256."""
    digest = sha256()
    for record in records:
        *values, reply = record.to_row()
        kept = None if reply is None else sha256(reply).hexdigest()
        digest.update(dumps_canonical([*values, kept]).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def transcript_difference(calls: EpisodeCalls, replies: int, errors: Mapping[str, int]) -> str | None:
    """Return how an episode's counts differ from its transcript, which holds so many `replies`, and `errors` by kind."""
    if calls.replies != replies:
        counted = f"{calls.answered} answered, {calls.cached} cached and {calls.unused} unused"
        return f"{counted} give {calls.replies} replies, the transcript has {replies}"
    for kind, failed in errors.items():
        if calls.failed_attempts.get(kind, 0) < failed:
            return f"{calls.failed_attempts.get(kind, 0)} attempts failed with {kind}, the transcript has {failed} calls that did"
    return None
