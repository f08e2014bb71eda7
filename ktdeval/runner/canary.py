"""Drift of a model during a run: a few fixed questions at its start and end show whether the same model answered all of it.

A provider may change the model behind a name, or behind a share of the traffic, without notice. The habits of a model show
it: which number it takes at random, how it names things, how it rates something, which slips it makes in arithmetic. So the
questions have no right answer, or one that models miss in different ways, and answers short enough to compare.

Each question is asked twice in a round, with the call parameters of the run. Two answers of one round differ by chance alone,
by as much as these parameters make them; that is the yardstick for how far answers of two rounds differ. With d the distance of
two answers (`distance`), and averages over questions:

    value  = mean d(answer at the start, answer at the end)        over the four such pairs of a question
    noise  = mean d(two answers of one round)                    over the two such pairs of a question
    excess = value - noise

`excess` estimates, without bias, the energy distance of the two rounds' answers, which for answers that are equal or not is half
the sum of squared differences of their probabilities: 0 in the mean where nothing changed, whatever the temperature, and more the
more changed. A single figure varies around that by chance, below 0 too: with six questions by about 0.1 (standard deviation).

Sources: Székely and Rizzo, "Energy statistics: a class of statistics based on distances" (2013); Gao, Liang and Guestrin, "Model
Equality Testing: Which Model Is This API Serving?" (2024).
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import msgspec

from ktdeval.errors import ModelError, RunStop, StoreError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Reply, encodable
from ktdeval.jsonio import JsonValue, dumps_pretty, read_plain, write_atomic
from ktdeval.runner.store import CANARY
from ktdeval.seeds import derive_seed
from ktdeval.typed import Value, decode_json, from_plain, to_plain
from ktdeval.yamlio import load_yaml

VERSION = 1  #: Of the record, and of the questions: a change to either counts it up
REPEATS = 2  #: How often each question is asked in a round: as often as it takes to see the noise
LONGEST_ANSWER = 200  #: Characters of an answer that are kept

Ask = Callable[[ModelRequest], Reply]  #: Makes one call that no cache answers, and raises ModelError where it failed for good
Answer = str | dict[str, str]
"""Text; `{"outcome": …}` for a reply that is no answer (`refusal`, `content_filter`, `length`, `empty`); `{"failed": …}` with the
kind of ModelError for a call that brought no reply."""

_SYSTEM = "Answer with exactly what is asked for, on one line, without any explanation."


class Canary(Value, frozen=True):
    """A fixed question."""

    id: str  #: its name in a record
    kind: Literal["number", "choice", "ranking", "text"]  #: how its answers are read and compared
    question: str
    options: tuple[str, ...] = ()  #: the answers to choose from or to rank


_QUESTIONS = Path(__file__).with_name("canaries.yaml")
CANARIES = from_plain(load_yaml(_QUESTIONS)["questions"], tuple[Canary, ...], _QUESTIONS.name)
_BY_ID = {canary.id: canary for canary in CANARIES}


class Round(Value, frozen=True):
    """Answers to the questions at one time."""

    at: str  #: ISO 8601 time in UTC when the round ended
    prompts: tuple[str, ...]  #: ids of the questions
    answers: tuple[tuple[Answer, ...], ...]  #: for each of them the answers in order
    served_by: tuple[str, ...]  #: what the provider said it answered with, each name once, sorted

    def is_sound(self) -> bool:
        """Whether it holds questions and answers of this version."""
        answers = [answer for repeats in self.answers for answer in repeats]
        is_known = all(name in _BY_ID for name in self.prompts) and len(self.prompts) == len(self.answers)
        return is_known and all(isinstance(answer, str) or answer.keys() in ({"outcome"}, {"failed"}) for answer in answers)


class CanaryRecord(Value, frozen=True):
    """`RUN/canary.json`: what the model answered at the start and the end of a run."""

    version: int
    start: Round
    end: Round | None

    def __post_init__(self) -> None:
        if self.version != VERSION or not self.start.is_sound() or not (self.end is None or self.end.is_sound()):
            raise ValueError("it holds other questions or answers than this version asks")


def ask_at_start(folder: Path, ask: Ask, count: int, params: CallParams) -> None:
    """Ask the first `count` questions, where they were not asked at this run's start. Raises RunStop where no call makes sense."""
    if count and load_record(folder) is None:
        write_atomic(folder / CANARY, dumps_pretty(to_plain(start_record(ask, count, params))))


def ask_at_end(folder: Path, ask: Ask, params: CallParams) -> None:
    """Ask them again. A run that is complete is not undone by a budget or a provider that allows no further call."""
    record = load_record(folder)
    if record is not None and record.end is None:
        with contextlib.suppress(RunStop):
            write_atomic(folder / CANARY, dumps_pretty(to_plain(finish_record(record, ask, params))))


def load_record(folder: Path) -> CanaryRecord | None:
    """Read the answers of a run; None where no questions were asked. Raises StoreError where the file is not readable."""
    path = folder / CANARY
    try:
        return read_record(read_plain(path), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: not readable: {error}; delete it to go without") from error


def read_record(data: bytes | str, where: str = CANARY) -> CanaryRecord:
    """Read the text of a record. Raises StoreError where it is malformed."""
    try:
        return decode_json(data, CanaryRecord, where)
    except StoreError as error:
        raise StoreError(f"{error}; restore the file, or delete it to go without") from error


def canary_requests(canaries: Sequence[Canary], params: CallParams, name: str) -> list[ModelRequest]:
    """Requests of the round `name`: each question `REPEATS` times in a row, every request with a seed of its own.

    Seeds differ between rounds too: a provider that heeds them would give the very same answers, and two rounds would seem
    closer than one is to itself.
    """
    return [
        ModelRequest(
            (Message("system", _SYSTEM), Message("user", canary.question)),
            params=replace(params, seed=derive_seed(params.seed, "canary", name, canary.id, repeat)),
        )
        for canary in canaries
        for repeat in range(REPEATS)
    ]


def ask_canaries(ask: Ask, canaries: Sequence[Canary], params: CallParams, name: str) -> Round:
    """Ask the questions of a round (`canary_requests`); one that fails is recorded as failed. Raises RunStop."""
    answers: list[Answer] = []
    served_by: set[str] = set()
    for request in canary_requests(canaries, params, name):
        try:
            reply = ask(request)
        except ModelError as error:
            answers.append({"failed": error.kind})
            continue
        served_by.update({encodable(reply.served_by)} - {""})
        if reply.finish_reason in ("stop", "tool_calls"):
            answers.append(encodable(" ".join(reply.content.split()))[:LONGEST_ANSWER] or {"outcome": "empty"})
        else:
            answers.append({"outcome": reply.finish_reason})
    grouped = tuple(tuple(answers[start : start + REPEATS]) for start in range(0, len(answers), REPEATS))
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Round(at=at, prompts=tuple(canary.id for canary in canaries), answers=grouped, served_by=tuple(sorted(served_by)))


def start_record(ask: Ask, count: int, params: CallParams) -> CanaryRecord:
    """Ask the first `count` questions. Raises RunStop where no further call makes sense."""
    return CanaryRecord(version=VERSION, start=ask_canaries(ask, CANARIES[:count], params, "start"), end=None)


def finish_record(record: CanaryRecord, ask: Ask, params: CallParams) -> CanaryRecord:
    """Ask the very questions of the first round again. Raises RunStop where no further call makes sense."""
    canaries = [_BY_ID[name] for name in record.start.prompts]
    return msgspec.structs.replace(record, end=ask_canaries(ask, canaries, params, "end"))


def drift(record: CanaryRecord | None) -> dict[str, JsonValue]:
    """Return how far the answers moved between the rounds, for the card: `value`, `noise`, `excess` as the module says, `prompts`
    (how many were answered each time), `served_by_changed` (a name at the end that was not there at the start); or None and why.
    """
    if record is None:
        return {"value": None, "reason": "no fixed questions were asked"}
    if record.end is None:
        return {"value": None, "reason": "the fixed questions were not asked again at the end"}
    at_end = dict(zip(record.end.prompts, record.end.answers, strict=True))
    between, within = [], []
    for name, first in zip(record.start.prompts, record.start.answers, strict=True):
        canary, second = _BY_ID[name], at_end.get(name, ())
        is_missing = any(isinstance(answer, dict) and "failed" in answer for answer in (*first, *second))
        if len(first) == len(second) == REPEATS and not is_missing:
            between += [distance(canary, one, other) for one in first for other in second]
            within += [distance(canary, *first), distance(canary, *second)]
    if not within:
        return {"value": None, "reason": "no fixed question was answered each time it was asked"}
    value, noise = fmean(between), fmean(within)
    return {
        "value": round(value, 6),
        "noise": round(noise, 6),
        "excess": round(value - noise, 6),
        "prompts": len(within) // REPEATS,
        "served_by_changed": bool(set(record.end.served_by) - set(record.start.served_by)),
    }


def distance(canary: Canary, one: Answer, other: Answer) -> float:
    """Distance of two answers to a question, from 0 to 1. Numbers and choices: 0 where equal, else 1. Rankings: the share of
    pairs that stand in another order (Kendall). Texts, and answers of which neither can be read as what was asked for: the least
    number of characters to insert, delete or replace, as a share of the longer one (Levenshtein), without regard to case and
    punctuation. Outcomes that are no answers, such as refusals: 0 where equal, else 1. Answers of two different sorts: 1.
    """
    first, second = _parse(canary, one), _parse(canary, other)
    if first[0] != second[0]:
        return 1.0
    if first[0] == "ranking":
        return _kendall(first[1], second[1])
    if first[0] == "text":
        return _levenshtein(first[1], second[1]) / max(len(first[1]), len(second[1]), 1)
    return float(first[1] != second[1])


_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
_WORDS = re.compile(r"\w+")


def _parse(canary: Canary, answer: Answer) -> tuple[str, Any]:
    if not isinstance(answer, str):
        return "outcome", answer["outcome"]
    text = answer.replace("−", "-")
    if canary.kind == "number" and (numbers := _NUMBER.findall(text)):
        return "number", Decimal(numbers[-1].replace(",", ""))  # the last: some models repeat the question first
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
    rank = {item: number for number, item in enumerate(other)}
    pairs = list(combinations(one, 2))
    return sum(rank[before] > rank[after] for before, after in pairs) / len(pairs)


def _levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for line, sign in enumerate(one, 1):
        corner, row[0] = row[0], line
        for column, other_sign in enumerate(other, 1):
            corner, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, corner + (sign != other_sign))
    return row[-1]
