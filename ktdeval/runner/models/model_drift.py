"""Drift of a model during a run, measured by asking a few fixed questions at its start and end.

Without notice, a provider may change the model behind a name, for all or part of the traffic. A
model can be recognised by its habits: which number it picks at random, how it names things, how it
rates something, which errors it makes in arithmetic. The questions therefore have no correct
answer, or an answer that models miss in different ways. Answers are short enough to compare.

In each round, a question is asked twice, with the run's call parameters. Two answers in the same
round differ only by chance; this noise is the benchmark for the difference between the rounds. Let
d be the distance between two answers (`distance`), averaged over questions:

    value  = mean d(answer at the start, answer at the end)  over the four such pairs of a question
    noise  = mean d(two answers of one round)                over the two such pairs of a question
    excess = value - noise

`excess` is an unbiased estimate of the energy distance between the rounds' answer distributions.
For answers that are either equal or different, this is half the sum of squared differences between
their probabilities. If the model has not changed, the expected value is 0 at any temperature. A
single estimate varies around this value and may be negative; with six questions, its standard
deviation is about 0.1.

Sources: Székely and Rizzo, "Energy statistics: a class of statistics based on distances" (2013);
Gao, Liang and Guestrin, "Model Equality Testing: Which Model Is This API Serving?" (2024).
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import msgspec

from ktdeval.errors import ModelError, RunStop, StoreError, os_reason
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Reply, encodable
from ktdeval.runner.records.run_file_names import CANARY
from ktdeval.stores.mirror import keep_file
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import JsonValue, dumps_pretty
from ktdeval.values.documents.typed_json import Value, decode_json, from_plain, to_plain
from ktdeval.values.documents.yamlio import load_yaml
from ktdeval.values.seeds import derive_seed

#: version of the record format and the questions, to be increased whenever either changes
VERSION = 1
#: how often a question is asked in a round; measuring noise requires at least two answers
REPEATS = 2
LONGEST_ANSWER = 200  #: maximum number of characters recorded of an answer

#: makes one call without the cache; raises ModelError if the call still fails after all retries
Ask = Callable[[ModelRequest], Reply]
Answer = str | dict[str, str]
"""Answer to a question, as text.

`{"outcome": …}` means a reply without an answer (`refusal`, `content_filter`, `length`, `empty`).
`{"failed": …}` means a call without a reply, with the kind of its ModelError.
"""

_SYSTEM = "Answer with exactly what is asked for, on one line, without any explanation."


class Canary(Value, frozen=True):
    """Fixed question."""

    id: str  #: name in records
    #: determines how its answers are parsed and compared
    kind: Literal["number", "choice", "ranking", "text"]
    question: str
    options: tuple[str, ...] = ()  #: answers to choose from or to rank


_QUESTIONS = Path(__file__).with_name("canaries.yaml")
CANARIES = from_plain(load_yaml(_QUESTIONS)["questions"], tuple[Canary, ...], _QUESTIONS.name)
_BY_ID = {canary.id: canary for canary in CANARIES}


class Round(Value, frozen=True):
    """Answers to the questions in one round."""

    at: str  #: time when the round ended, ISO 8601 in UTC
    prompts: tuple[str, ...]  #: ids of the questions
    answers: tuple[tuple[Answer, ...], ...]  #: answers to each question, in order
    #: names of the models that answered, as reported by the provider, sorted
    served_by: tuple[str, ...]

    def is_sound(self) -> bool:
        """Return whether the questions and answers are valid in this version."""
        if len(self.prompts) != len(self.answers):
            return False
        if not all(name in _BY_ID for name in self.prompts):
            return False

        return all(map(_is_answer, chain.from_iterable(self.answers)))


def _is_answer(value: Answer) -> bool:
    return isinstance(value, str) or value.keys() in ({"outcome"}, {"failed"})


class CanaryRecord(Value, frozen=True):
    """Contents of `RUN/canary.json`: a model's answers at the start and at the end of a run."""

    version: int
    start: Round
    end: Round | None

    def __post_init__(self) -> None:
        rounds = [self.start]
        if self.end is not None:
            rounds.append(self.end)

        if self.version != VERSION or not all(part.is_sound() for part in rounds):
            raise ValueError("its questions or answers belong to another version")


def ask_at_start(folder: Path, ask: Ask, count: int, params: CallParams) -> None:
    """Ask the first `count` questions, unless this run has already asked them.

    Raises RunStop if further calls are pointless.
    """
    if count and load_record(folder) is None:
        record = start_record(ask, count, params)
        keep_file(folder / CANARY, dumps_pretty(to_plain(record)))


def ask_at_end(folder: Path, ask: Ask, params: CallParams) -> None:
    """Ask the questions again.

    If a budget or the provider prevents further calls, the questions stay unanswered, but the run
    is complete.
    """
    record = load_record(folder)
    if record is None or record.end is not None:
        return

    with contextlib.suppress(RunStop):
        finished = finish_record(record, ask, params)
        keep_file(folder / CANARY, dumps_pretty(to_plain(finished)))


def load_record(folder: Path) -> CanaryRecord | None:
    """Read a run's answers to the questions; None if no questions were asked.

    Raises StoreError if the file is unreadable.
    """
    path = folder / CANARY
    try:
        return read_record(read_plain(path), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = os_reason(error, "delete it to continue without fixed questions")
        raise StoreError(f"{path}: not readable: {reason}") from error


def read_record(data: bytes | str, where: str = CANARY) -> CanaryRecord:
    """Parse a record. Raises StoreError if it is malformed."""
    try:
        return decode_json(data, CanaryRecord, where)
    except StoreError as error:
        raise StoreError(
            f"{error}; restore the file, or delete it to continue without fixed questions"
        ) from error


def canary_requests(
    canaries: Sequence[Canary], params: CallParams, name: str
) -> list[ModelRequest]:
    """Return the requests for the round `name`: each question `REPEATS` times in a row.

    Each request has its own seed, which also differs between rounds. With equal seeds, a provider
    that honours seeds would repeat its answers, and two rounds would seem closer to each other than
    the answers within one round.
    """
    requests: list[ModelRequest] = []
    for canary in canaries:
        messages = (Message("system", _SYSTEM), Message("user", canary.question))
        for repeat in range(REPEATS):
            seed = derive_seed(params.seed, "canary", name, canary.id, repeat)
            requests.append(ModelRequest(messages, params=replace(params, seed=seed)))

    return requests


def ask_canaries(ask: Ask, canaries: Sequence[Canary], params: CallParams, name: str) -> Round:
    """Ask the questions of a round, as given by `canary_requests`. A failed call is recorded as
    such.

    Raises RunStop if further calls are pointless.
    """
    answers: list[Answer] = []
    served_by: set[str] = set()
    for request in canary_requests(canaries, params, name):
        try:
            reply = ask(request)
        except ModelError as error:
            answers.append({"failed": error.kind})
            continue

        answers.append(_answer_of(reply))
        if reply.served_by:
            served_by.add(encodable(reply.served_by))

    starts = range(0, len(answers), REPEATS)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Round(
        at=now.replace("+00:00", "Z"),
        prompts=tuple(canary.id for canary in canaries),
        answers=tuple(tuple(answers[start : start + REPEATS]) for start in starts),
        served_by=tuple(sorted(served_by)),
    )


def _answer_of(reply: Reply) -> Answer:
    """Return the answer in a reply, in recorded form."""
    if reply.finish_reason not in ("stop", "tool_calls"):
        return {"outcome": reply.finish_reason}

    text = encodable(" ".join(reply.content.split()))
    return text[:LONGEST_ANSWER] or {"outcome": "empty"}


def start_record(ask: Ask, count: int, params: CallParams) -> CanaryRecord:
    """Ask the first `count` questions. Raises RunStop if further calls are pointless."""
    start = ask_canaries(ask, CANARIES[:count], params, "start")
    return CanaryRecord(version=VERSION, start=start, end=None)


def finish_record(record: CanaryRecord, ask: Ask, params: CallParams) -> CanaryRecord:
    """Ask the questions of the first round again. Raises RunStop if further calls are pointless."""
    canaries = [_BY_ID[name] for name in record.start.prompts]
    end = ask_canaries(ask, canaries, params, "end")
    return msgspec.structs.replace(record, end=end)


def drift(record: CanaryRecord | None) -> dict[str, JsonValue]:
    """Return the drift between the two rounds, for use on a card.

    The module docstring defines `value`, `noise` and `excess`. `prompts` is the number of questions
    that were answered each time. `served_by_changed` is true if the provider named a model at the
    end that it did not name at the start. Without enough answers, `value` is None and `reason`
    explains why.
    """
    if record is None:
        return {"value": None, "reason": "no fixed questions were asked"}
    if record.end is None:
        return {"value": None, "reason": "the fixed questions were not asked again at the end"}

    at_end = dict(zip(record.end.prompts, record.end.answers, strict=True))
    between = []
    within = []

    for name, first in zip(record.start.prompts, record.start.answers, strict=True):
        canary = _BY_ID[name]
        second = at_end.get(name, ())
        is_complete = len(first) == len(second) == REPEATS
        if not is_complete or any(map(_has_failed, (*first, *second))):
            continue

        for one, other in product(first, second):
            between.append(distance(canary, one, other))

        within.append(distance(canary, *first))
        within.append(distance(canary, *second))

    if not within:
        return {"value": None, "reason": "no fixed question was answered each time it was asked"}

    value = fmean(between)
    noise = fmean(within)
    new_names = set(record.end.served_by) - set(record.start.served_by)
    return {
        "value": round(value, 6),
        "noise": round(noise, 6),
        "excess": round(value - noise, 6),
        "prompts": len(within) // REPEATS,
        "served_by_changed": bool(new_names),
    }


def _has_failed(answer: Answer) -> bool:
    return isinstance(answer, dict) and "failed" in answer


def distance(canary: Canary, one: Answer, other: Answer) -> float:
    """Return the distance between two answers to a question, from 0 to 1.

    Numbers, choices, and outcomes without an answer (such as refusals): 0 if equal, otherwise 1.
    Rankings: the fraction of pairs in a different order (Kendall). Texts, and pairs of answers that
    both lack the requested form: the edit distance (Levenshtein) as a fraction of the longer text,
    ignoring case and punctuation. Answers of different kinds: 1.
    """
    first = _parse_answer(canary, one)
    second = _parse_answer(canary, other)
    if first[0] != second[0]:
        return 1.0
    if first[0] == "ranking":
        return _kendall(first[1], second[1])
    if first[0] == "text":
        return _levenshtein(first[1], second[1]) / max(len(first[1]), len(second[1]), 1)

    return float(first[1] != second[1])


_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
_WORDS = re.compile(r"\w+")


def _parse_answer(canary: Canary, answer: Answer) -> tuple[str, Any]:
    """Return the kind and value of an answer. The kind is "text" if the answer lacks the requested
    form.
    """
    if not isinstance(answer, str):
        return "outcome", answer["outcome"]

    text = answer.replace("−", "-")
    if canary.kind == "number":
        numbers = _NUMBER.findall(text)
        if numbers:
            # use the last match, since some models repeat the question first
            return "number", Decimal(numbers[-1].replace(",", ""))

    words = _WORDS.findall(text)
    if canary.kind == "choice":
        named = {word.casefold() for word in words} & set(canary.options)
        if len(named) == 1:
            return "choice", named.pop()

    if canary.kind == "ranking":
        ranked = [word for word in words if word in canary.options]
        if sorted(ranked) == sorted(canary.options):
            return "ranking", ranked

    return "text", " ".join(words).casefold()


def _kendall(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the fraction of pairs that two rankings order differently."""
    rank = {item: number for number, item in enumerate(other)}
    pairs = list(combinations(one, 2))
    inversions = sum(rank[before] > rank[after] for before, after in pairs)
    return inversions / len(pairs)


def _levenshtein(one: str, other: str) -> int:
    """Return the minimum number of character insertions, deletions and replacements."""
    above = list(range(len(other) + 1))
    for line, sign in enumerate(one, 1):
        row = [line]
        for column, other_sign in enumerate(other, 1):
            inserted = row[column - 1] + 1
            deleted = above[column] + 1
            replaced = above[column - 1] + (sign != other_sign)
            row.append(min(inserted, deleted, replaced))

        above = row

    return above[-1]
