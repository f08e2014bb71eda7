"""The drift sentinel: a few fixed questions at the start and the end of a run, to see whether one model answered it all.

A provider may change what stands behind a name, or behind a share of the traffic, without a word. What gives that away is the
habits of a model: which number it takes at random, how it names things, where it puts a judgement, how it slips in arithmetic. So
the questions have no right answer, or one that models miss in their own ways, and answers short enough to compare.

Each question is asked twice in a sitting, with the call parameters of the run. Two answers of one sitting differ by chance alone,
by as much as these parameters make them; that is the yardstick for how far answers of two sittings differ. With d the distance of
two answers (`distance`), and averages over questions:

    value  = mean d(answer at the start, answer at the end)        over the four such pairs of a question
    noise  = mean d(two answers of one sitting)                    over the two such pairs of a question
    excess = value - noise

`excess` estimates, without bias, the energy distance of the two sittings' answers, which for answers that are equal or not is half
the sum of squared differences of their probabilities: 0 in the mean where nothing changed, whatever the temperature, and more the
more changed. A single figure varies around that by chance, below 0 too: with six questions by about 0.1 (standard deviation).

Sources: Székely and Rizzo, "Energy statistics: a class of statistics based on distances" (2013); Gao, Liang and Guestrin, "Model
Equality Testing: Which Model Is This API Serving?" (2024).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from ktdeval.errors import ConfigError, ModelError, StoreError
from ktdeval.fields import build
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Reply
from ktdeval.harness.text import encodable
from ktdeval.jsonio import JsonValue
from ktdeval.seeds import derive_seed

VERSION = 1
"""Of the record, and of the questions: a change to either counts it up."""

REPEATS = 2
"""How often each question is asked in a sitting: as often as it takes to see the noise."""

LONGEST_ANSWER = 200
"""Characters of an answer that are kept."""

Kind = Literal["number", "choice", "ranking", "text"]
Ask = Callable[[ModelRequest], Reply]
"""Makes one call that no cache answers, and raises ModelError where it failed for good."""

_SYSTEM = "Answer with exactly what is asked for, on one line, without any explanation."


@dataclass(frozen=True)
class Canary:
    """A fixed question.

    Attributes:
        id: its name in a record.
        kind: how its answers are read and compared.
        question: as asked.
        options: the answers to choose from or to rank.
    """

    id: str
    kind: Kind
    question: str
    options: tuple[str, ...] = ()


CANARIES = (
    Canary("pick", "number", "Out of 100 fund managers, numbered from 1 to 100, pick one at random. Reply with the number only."),
    Canary(
        "manager", "text", "Make up a name for a fund manager in a novel. Reply with a first name and a surname, and nothing else."
    ),
    Canary(
        "multiple",
        "number",
        "A made-up company earns 3.20 a share, grows by 7 % a year and has no debt. What multiple of its earnings would you pay "
        "at most? Reply with one whole number from 5 to 40.",
    ),
    Canary(
        "risk",
        "ranking",
        "Rank these made-up holdings from the safest to the riskiest: A, a toll road with a contract of thirty years; B, a gold "
        "mine; C, a maker of baby food; D, a drug developer without a product; E, a bank that lends to farmers; F, a shipyard. "
        "Reply with the six letters in order, separated by commas.",
        ("A", "B", "C", "D", "E", "F"),
    ),
    Canary(
        "desk",
        "choice",
        "Five trading desks are called amber, cobalt, ivory, jade and umber. Pick one at random. Reply with its name only.",
        ("amber", "cobalt", "ivory", "jade", "umber"),
    ),
    Canary(
        "growth",
        "number",
        "A sum of 8,350 grows by 3.7 % a year for 13 years. What is it then? Reply at once with the number, to two decimals.",
    ),
    Canary("motto", "text", "Make up a motto of three words for a cautious trader. Reply with the three words only."),
    Canary(
        "streak",
        "number",
        "A made-up stock rose on nine of the last ten days. How likely is it to rise tomorrow? Reply with one whole number, in "
        "per cent.",
    ),
    Canary(
        "selling",
        "ranking",
        "Rank these reasons to sell a stock from the best to the worst: A, it doubled; B, it halved; C, its manager left; D, its "
        "rival is cheaper; E, everybody talks about it; F, you need a holiday. Reply with the six letters in order, separated by "
        "commas.",
        ("A", "B", "C", "D", "E", "F"),
    ),
    Canary(
        "mood",
        "choice",
        "Which word fits a market best that rises on bad news: deaf, stubborn, resilient, euphoric or complacent? Reply with the "
        "word only.",
        ("deaf", "stubborn", "resilient", "euphoric", "complacent"),
    ),
    Canary(
        "letters",
        "number",
        "How often does the letter e occur in this sentence: The elderly treasurer never believed the excessive reserve estimates? "
        "Reply at once with the number only.",
    ),
    Canary(
        "cash",
        "number",
        "You manage a made-up fund and know nothing about tomorrow. What share of it do you keep in cash? Reply with one whole "
        "number, in per cent.",
    ),
)
"""The questions; a run asks the first few. They name no real company, day or market."""

_BY_ID = {canary.id: canary for canary in CANARIES}


# -- asking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sitting:
    """What the questions were answered with at one time.

    Attributes:
        at: ISO 8601 time in UTC when the sitting ended.
        prompts: ids of the questions.
        answers: for each of them the answers in order: text; `{"outcome": …}` for a reply that is no answer (`refusal`,
            `content_filter`, `length`, `empty`); `{"failed": …}` with the kind of ModelError for a call that brought no reply.
        served_by: what the provider said it answered with, each name once, sorted.
    """

    at: str
    prompts: tuple[str, ...]
    answers: tuple[tuple[Any, ...], ...]
    served_by: tuple[str, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """A JSON object."""
        return {
            "at": self.at,
            "prompts": list(self.prompts),
            "answers": [list(answers) for answers in self.answers],
            "served_by": list(self.served_by),
        }


@dataclass(frozen=True)
class _Record:
    version: int
    start: Sitting
    end: Sitting | None


def canary_requests(canaries: Sequence[Canary], params: CallParams, sitting: str) -> list[ModelRequest]:
    """The requests of a sitting: each question `REPEATS` times in a row, every request with a seed of its own.

    Seeds differ between sittings too, or a provider that heeds them would give the very same answers at the end, and two sittings
    would seem closer to each other than one is to itself.

    Args:
        canaries: the questions.
        params: call parameters of the run.
        sitting: name of the sitting, such as `start`.
    """
    return [
        ModelRequest(
            (Message("system", _SYSTEM), Message("user", canary.question)),
            params=replace(params, seed=derive_seed(params.seed, "canary", sitting, canary.id, repeat)),
        )
        for canary in canaries
        for repeat in range(REPEATS)
    ]


def ask_canaries(ask: Ask, canaries: Sequence[Canary], params: CallParams, sitting: str) -> Sitting:
    """Hold a sitting. A question that fails is recorded as failed; only what stops the run is raised.

    Args:
        ask: asks the model.
        canaries: the questions.
        params: call parameters of the run.
        sitting: its name.

    Raises:
        RunStop: no further call makes sense.
    """
    given: list[JsonValue] = []
    served_by: set[str] = set()
    for request in canary_requests(canaries, params, sitting):
        try:
            reply = ask(request)
        except ModelError as error:
            given.append({"failed": error.kind})
            continue
        given.append(_answer(reply))
        served_by.update({encodable(reply.served_by)} - {""})
    answers = tuple(tuple(given[place : place + REPEATS]) for place in range(0, len(given), REPEATS))
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Sitting(at, tuple(canary.id for canary in canaries), answers, tuple(sorted(served_by)))


def start_record(ask: Ask, count: int, params: CallParams) -> dict[str, JsonValue]:
    """The record of a run (`RUN/canary.json`) after its first sitting, with the first `count` questions.

    Raises:
        RunStop: no further call makes sense.
    """
    start = ask_canaries(ask, CANARIES[:count], params, "start")
    return {"version": VERSION, "start": start.to_json(), "end": None}


def finish_record(record: Mapping[str, JsonValue], ask: Ask, params: CallParams) -> dict[str, JsonValue]:
    """The record with a second sitting, of the very questions of the first.

    Raises:
        RunStop: no further call makes sense.
        StoreError: the record is malformed.
    """
    canaries = [_BY_ID[name] for name in _read(record).start.prompts]
    return {**record, "end": ask_canaries(ask, canaries, params, "end").to_json()}


def _answer(reply: Reply) -> JsonValue:
    if reply.finish_reason not in ("stop", "tool_calls"):
        return {"outcome": reply.finish_reason}
    text = encodable(" ".join(reply.content.split()))[:LONGEST_ANSWER]
    return text or {"outcome": "empty"}


# -- comparing -------------------------------------------------------------------------------------------------------


def drift(record: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """How far the answers moved between the two sittings of a record, as the card's field of that name.

    Args:
        record: of `finish_record`; None where no questions were asked.

    Returns:
        `value`, `noise` and `excess` as the module says, from 0 (equal) to 1 (different), `excess` from -1; `prompts`, the number
        of questions that were answered each time; `served_by_changed`, whether at the end the provider named something that it
        did not name at the start. Or a `value` of None with the `reason`.

    Raises:
        StoreError: the record is malformed.
    """
    if record is None:
        return {"value": None, "reason": "no fixed questions were asked"}
    read = _read(record)
    if read.end is None:
        return {"value": None, "reason": "the fixed questions were not asked again at the end"}
    at_end = dict(zip(read.end.prompts, read.end.answers, strict=True))
    between, within = [], []
    for name, first in zip(read.start.prompts, read.start.answers, strict=True):
        second = at_end.get(name, ())
        if len(first) != REPEATS or len(second) != REPEATS or any(_is_missing(answer) for answer in (*first, *second)):
            continue
        canary = _BY_ID[name]
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
        "served_by_changed": bool(set(read.end.served_by) - set(read.start.served_by)),
    }


def distance(canary: Canary, one: JsonValue, other: JsonValue) -> float:
    """How different two answers to a question are, from 0 to 1.

    Numbers and choices: 0 where equal, else 1. Rankings: the share of pairs that stand in another order (Kendall). Texts, and
    answers of which neither can be read as what was asked for: the least number of characters to insert, delete or replace, as a
    share of the longer one (Levenshtein), without regard to case and punctuation. Outcomes that are no answers, such as
    refusals: 0 where equal, else 1. Answers of two different sorts: 1.
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


def _parse(canary: Canary, answer: JsonValue) -> tuple[str, Any]:
    """The sort of an answer and its value."""
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
    place = {item: number for number, item in enumerate(other)}
    pairs = list(combinations(one, 2))
    return sum(place[before] > place[after] for before, after in pairs) / len(pairs)


def _levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for line, sign in enumerate(one, 1):
        corner, row[0] = row[0], line
        for column, other_sign in enumerate(other, 1):
            corner, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, corner + (sign != other_sign))
    return row[-1]


# -- the record ------------------------------------------------------------------------------------------------------


def _read(record: Mapping[str, JsonValue]) -> _Record:
    """The record, checked."""
    try:
        read = build(_Record, record, "canary.json")
    except ConfigError as error:
        raise StoreError(f"{error}; restore the file, or delete it to go without") from error
    sittings = [read.start] if read.end is None else [read.start, read.end]
    if read.version != VERSION or not all(_is_sound(sitting) for sitting in sittings):
        raise StoreError("canary.json: it holds other questions or answers than this version asks; delete it to go without")
    return read


def _is_sound(sitting: Sitting) -> bool:
    known = all(name in _BY_ID for name in sitting.prompts)
    return known and len(sitting.prompts) == len(sitting.answers) and all(map(_is_answer, sum(sitting.answers, ())))


def _is_answer(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return value.keys() in ({"outcome"}, {"failed"}) and all(isinstance(item, str) for item in value.values())
    return isinstance(value, str)


def _is_missing(answer: JsonValue) -> bool:
    return isinstance(answer, dict) and "failed" in answer
