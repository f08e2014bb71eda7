"""Counts and statistics of model calls. An episode's counts must agree with the call log and with
the transcript.

A step that was interrupted runs again and takes its replies from the log. Each call record
therefore contains the step and how often the episode had been opened. The transcript shows the last
opening of each step. For each episode, this gives

    answered + cached - unused = replies in the transcript
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

from msgspec import Meta

from ktdeval.calls.records.record import ANSWERS, BATCHED, CACHED, NO_EPISODE, CallRecord
from ktdeval.harness.chat_messages import Usage
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical
from ktdeval.values.documents.typed_json import Value, to_plain

_Count = Annotated[int, Meta(ge=0)]
_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

_Request = tuple[int | None, str]  #: step, and the first digits of the request key


class EpisodeCalls(Value, frozen=True):
    """Calls of one episode, over all sessions of the run."""

    #: number of times that it was opened and made calls: once, and once more after each
    #: interruption
    openings: _Count
    attempts: _Count  #: number of attempts, including failed ones
    answered: _Count  #: number of attempts that were answered
    cached: _Count  #: replies taken from the reply cache, paid by earlier calls
    #: replies repeated for a step that was interrupted and ran again; not included in the two
    #: counts above
    repeated: _Count
    #: replies that its transcript does not contain: of a step that ran again and then got a
    #: different reply
    unused: _Count
    failed_attempts: dict[str, _Count]  #: attempts without a reply, by kind of failure
    tokens: dict[str, _Count]  #: tokens of the answered attempts
    sha256: _Sha256  #: hash of its rows in the run's call log, in order

    @property
    def replies(self) -> int:
        """Number of replies that its transcript must contain."""
        return self.answered + self.cached - self.unused


@dataclass(frozen=True)
class CallCounter:
    """Functions that count an episode's calls while the episode runs.

    The defaults count nothing, since a local model makes no calls.
    """

    #: called with the number of each step before it runs
    begin_step: Callable[[int], None] = lambda _step: None
    #: called before a step is journalled; returns once the step's calls are on disk
    settle: Callable[[], None] = lambda: None
    #: returns the counts so far; None if calls are not counted
    calls: Callable[[], EpisodeCalls | None] = lambda: None


def tally_calls(records: Iterable[CallRecord]) -> dict[str, EpisodeCalls]:
    """Return the counts of each episode (or `canary`, `check`) that made calls, keyed by its id."""
    rows: dict[str, list[CallRecord]] = {}
    for record in records:
        rows.setdefault(record.episode, []).append(record)
    return {episode: tally_episode(own) for episode, own in rows.items()}


def tally_episode(records: Sequence[CallRecord]) -> EpisodeCalls:
    """Return the counts of one episode, given all of its rows in order."""
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


def _count_cached(records: Iterable[CallRecord]) -> tuple[int, int]:
    """Return the number of cached replies to new requests, and the number of cached replies to
    requests of a repeated step.
    """
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


def _replies_of_last_openings(records: Sequence[CallRecord]) -> int:
    """Return the total number of replies that steps received the last time they were opened."""
    last: dict[int | None, int] = {}
    for record in records:
        last[record.step] = max(record.opening, last.get(record.step, 0))

    replies = [record for record in records if record.outcome in (*ANSWERS, CACHED)]
    return sum(record.opening == last[record.step] for record in replies)


def _records_digest(records: Iterable[CallRecord]) -> str:
    """Return the SHA-256 of records, with each record as a line of canonical JSON.

    A reply stored in a record is represented by its own SHA-256.
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

    `replies` is the number of replies in the transcript, and `errors` the number of errors by kind.
    """
    if calls.replies != replies:
        counted = f"{calls.answered} answered, {calls.cached} cached and {calls.unused} unused"
        return f"{counted} give {calls.replies} replies, the transcript has {replies}"

    # A call that failed after all retries has at least one failed attempt.
    for kind, failed in errors.items():
        attempts = calls.failed_attempts.get(kind, 0)
        if attempts < failed:
            return f"{attempts} attempts failed with {kind}, the transcript has {failed} such calls"

    return None


# ---- figures of a card


def call_figures(records: Iterable[CallRecord], episodes: Collection[str]) -> dict[str, JsonValue]:
    """Return `provenance.calls` of a card: statistics on the calls of the given episodes, over all
    sessions.

    `checks` contains the calls outside episodes, which serve the whole run. If a resumed run
    repeats a request, it counts once, and is answered again from the log.
    """
    own: list[CallRecord] = []
    checks: list[CallRecord] = []
    by_model: dict[str, list[CallRecord]] = {}
    for record in records:
        if record.episode in episodes:
            own.append(record)
            by_model.setdefault(record.model, []).append(record)
        elif record.episode in NO_EPISODE:
            checks.append(record)

    tallies = dict(sorted(tally_calls(own).items()))
    answers = [record for record in own if record.is_answered]
    failed = [record for record in own if record.outcome != CACHED and not record.is_answered]
    failed_kinds = Counter(record.outcome for record in failed)
    of_checks = _sums(checks)
    figures: dict[str, JsonValue] = {
        **_sums(own),
        "cached": sum(tally.cached for tally in tallies.values()),
        "repeated": sum(tally.repeated for tally in tallies.values()),
        "unused": sum(tally.unused for tally in tallies.values()),
        "failed_attempts": dict(sorted(failed_kinds.items())),
        "latency_s": _latencies(sorted(record.latency_s for record in answers)),
        "lost_s": round(math.fsum(record.latency_s for record in failed), 3),
        "checks": {name: of_checks[name] for name in _CHECK_FIGURES},
        "episodes": {episode: to_plain(tally) for episode, tally in tallies.items()},
    }
    if batched := sum(record.outcome == BATCHED for record in own):
        figures["batched"] = batched
    if len(by_model) > 1:
        figures["models"] = {model: _sums(by_model[model]) for model in sorted(by_model)}

    return figures


_CHECK_FIGURES = ("requests", "attempts", "paid_usd", "possibly_paid_usd")


def _sums(records: Sequence[CallRecord]) -> dict[str, JsonValue]:
    """Return the number of calls, their tokens and their cost in US dollars.

    `paid_usd` is None if the cost of any reply is unknown, since a partial sum would be too low.
    """
    requests = {(record.episode, record.key) for record in records}
    attempts = [record for record in records if record.outcome != CACHED]
    answers = [record for record in attempts if record.is_answered]
    tokens = sum((record.usage or Usage() for record in answers), Usage())
    known_costs = [record.cost_usd for record in answers if record.cost_usd is not None]
    paid_usd = None
    if len(known_costs) == len(answers):
        paid_usd = math.fsum(known_costs)

    return {
        "requests": len(requests),
        "attempts": len(attempts),
        "answered": len(answers),
        "tokens": tokens.to_json(),
        "paid_usd": paid_usd,
        "possibly_paid_usd": math.fsum(record.held_usd for record in attempts),
    }


def _latencies(ordered_s: Sequence[float]) -> dict[str, float | None]:
    """Return nearest-rank percentiles, so that each one is the latency of an actual call."""
    percents = {"median": 50, "p90": 90, "p99": 99, "longest": 100}
    if not ordered_s:
        return dict.fromkeys(percents)

    latencies: dict[str, float | None] = {}
    for name, percent in percents.items():
        rank = max(math.ceil(percent * len(ordered_s) / 100), 1)
        latencies[name] = round(ordered_s[rank - 1], 3)

    return latencies
