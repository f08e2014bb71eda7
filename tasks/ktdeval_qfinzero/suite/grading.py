"""Answer to an item, what it earns under both rule sets, and the facts recorded with it; the flat forms of files.

Arguments are completed by their tools' defaults; an answer without any call is graded, too: the floor that scores are read against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from ktdeval.contracts import AnswerRecord
from ktdeval.jsonio import JsonValue
from ktdeval.typed import Value, from_plain
from ktdeval_qfinzero.benchmark.items import EndState
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.schemas import Schema
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.reference_calling import score_calling
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.types import REFUSE, GoldTask, Scores, with_run_ids
from ktdeval_qfinzero.suite.config import Rules

RULE_SETS: Final[tuple[Rules, ...]] = ("paper", "reference")
METRICS: Final = ("overall", "tm", "pa", "ta")

_PLAIN: Final = ("exact", "no_call", "call_precision", "ids_expected", "ids_right")

FAILED: Final = "failed_"
"""Begins the names of failure modes in a record, each true."""
DIFFERS: Final = "differs_"
"""Begins the names of parts of the end state that are not those of the gold calls, each true."""


class RecordedCall(Value, frozen=True):
    """A call as it was made or written down; `arguments` are a text where they could not be recorded."""

    tool: str
    arguments: Any


class Answer(Value, frozen=True, omit_defaults=True):
    """An answer: `status` done or refused, a sentence, the calls, and of live items the JSON of the state that they left."""

    status: str
    summary: str
    calls: tuple[RecordedCall, ...]
    end_state: Any = None

    @staticmethod
    def of(recorded: Mapping[str, JsonValue], where: str) -> Answer:
        """Decode an answer as it is recorded."""
        return from_plain(dict(recorded), Answer, where)


class Earned(Value, frozen=True):
    """Figures of one rule set: `overall` from 0 to 100, the others from 0 to 1."""

    overall: float
    tm: float
    pa: float
    ta: float

    @staticmethod
    def of(scores: Scores) -> Earned:
        """Take the figures of scores."""
        return Earned(**{name: getattr(scores, name) for name in METRICS})


class Empty(Earned, frozen=True, omit_defaults=True):
    """Figures of an answer without any call: the floor that scores are read against."""

    exact: float
    end_state_match: float | None = None


class Facts(Value, frozen=True, omit_defaults=True):
    """Facts recorded beside an answer and never shown: the expected calls in the public format, strata, and `empty`.
    `template` and `as_of` are None for a task of a file; `changes_state` is known of live items only.
    """

    task: dict[str, Any]
    category: str
    difficulty: str
    template: str | None
    refusal: bool
    as_of: str | None
    empty: Empty
    changes_state: bool | None = None


@dataclass(frozen=True)
class Graded:
    """Grades of an answer."""

    earned: Mapping[Rules, Earned]
    exact: bool  # whether nothing is wrong, absent or too much
    no_call: bool  # whether no service was called
    call_precision: float | None  # share of the calls that serve a step and are of its very tool; None without any call
    ids_expected: int  # that calls had to carry, and those that they carried, which no metric reads
    ids_right: int
    failure_modes: tuple[str, ...] = ()  # of the headline's rule set
    end_state_match: bool | None = None  # of live items, whether the calls left what the expected ones leave
    differing: tuple[str, ...] = ()  # parts of the end state that differ

    def to_scores(self) -> dict[str, JsonValue]:
        """Return the flat form of records."""
        flat: dict[str, JsonValue] = {
            f"{rules}_{name}": getattr(self.earned[rules], name) for rules in RULE_SETS for name in METRICS
        }
        flat |= {name: getattr(self, name) for name in _PLAIN}
        flat |= {f"{FAILED}{mode}": True for mode in self.failure_modes}
        if self.end_state_match is not None:
            flat["end_state_match"] = self.end_state_match
        return flat | {f"{DIFFERS}{part}": True for part in self.differing}

    @staticmethod
    def of(scores: Mapping[str, JsonValue]) -> Graded:
        """Read the flat form back."""
        return Graded(
            {rules: Earned(**{name: scores[f"{rules}_{name}"] for name in METRICS}) for rules in RULE_SETS},
            **{name: scores[name] for name in _PLAIN},
            failure_modes=tuple(name.removeprefix(FAILED) for name in scores if name.startswith(FAILED)),
            end_state_match=scores.get("end_state_match"),
            differing=tuple(name.removeprefix(DIFFERS) for name in scores if name.startswith(DIFFERS)),
        )


@dataclass(frozen=True)
class Asked:
    """An item that was put to a model; `graded` and `status` are None without a valid submission."""

    item: str
    facts: Facts
    graded: Graded | None
    status: str | None

    @staticmethod
    def of(record: AnswerRecord) -> Asked:
        """Decode a record."""
        facts = from_plain(record.facts, Facts, record.sample)
        if record.answer is None:
            return Asked(record.sample, facts, None, None)
        return Asked(record.sample, facts, Graded.of(record.scores), record.answer["status"])


def with_defaults(tool: str, arguments: JsonValue) -> JsonValue:
    """Arguments of a call with every default of its tool's schema that they leave out, within given objects and lists too.
    Looks at the call alone, never at what is expected. An object that is absent stays so: it may be required. Defaults that other
    arguments make idle are not filled in. `tool`: dotted name; arguments of any other name stay as they are; `arguments`:
    as recorded; anything but an object stays as it is.
    """
    try:
        schema = catalogue().find(tool).parameters
    except ServiceError:
        return arguments
    if not isinstance(arguments, Mapping):
        return arguments
    idle = _without_effect(tool, arguments)
    filled: Mapping[str, JsonValue] = _filled(arguments, schema)
    return {name: value for name, value in filled.items() if name in arguments or name not in idle}


def _without_effect(tool: str, arguments: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Arguments that the given ones make idle, as the tools' descriptions say."""
    if tool == "PMB.session.step" and "until_ts" in arguments:
        return ("step",)
    if tool == "ESP.events.query" and arguments.get("mode") == "window":
        return ("horizon_minutes",)
    return ()


def _filled(value: JsonValue, schema: Schema) -> JsonValue:
    if isinstance(value, list):
        return [_filled(item, schema.get("items", {})) for item in value]
    if not isinstance(value, Mapping):
        return value
    parts: Mapping[str, Schema] = schema.get("properties", {})
    absent = {name: part["default"] for name, part in parts.items() if "default" in part and name not in value}
    return {**absent, **{name: _filled(item, parts.get(name, {})) for name, item in value.items()}}


OTHER: Final[Mapping[Rules, Rules]] = MappingProxyType({"paper": "reference", "reference": "paper"})
_NOTHING: Final = Answer(status="done", summary="", calls=())


@dataclass(frozen=True)
class Expectation:
    """Expected calls that answers are compared with."""

    task: GoldTask  # the expected calls
    ids: Mapping[str, str]  # `session_id` and `account_id` of the run, as far as there are any
    is_own: bool  # whether it is an item of our own; a task of a file is scored as it stands


def grade(rules: Rules, expectation: Expectation, answer: Answer) -> Scores:
    """Score an answer under one rule set.
    Of an item of our own the paper's rules see calls with the defaults of their tools; the public rules see ids instead of
    `{session_id}` and `{account_id}` (to the calling scorer braces are not a placeholder), and a refusal as the pseudo-call that
    the planning scorer expects.
    """
    if rules == "paper":
        complete = with_defaults if expectation.is_own else lambda _, arguments: arguments
        calls = [{"tool": call.tool, "args": complete(call.tool, call.arguments)} for call in answer.calls]
        return paper.score(expectation.task, calls, expectation.ids)
    if expectation.task.suite == "planning":
        planned: list[JsonValue] = [{"tool": call.tool, "args": call.arguments} for call in answer.calls]
        if expectation.is_own and not planned and answer.status == "refused":
            planned = [{"tool": REFUSE, "args": {}}]
        return score_planning(expectation.task, planned, expectation.ids)
    predicted = [{"tool_name": call.tool, "params": call.arguments} for call in answer.calls]
    task = _with_ids(expectation.task, expectation.ids) if expectation.is_own else expectation.task
    return score_calling(task, predicted, final_answer={"summary": answer.summary})


def _with_ids(task: GoldTask, ids: Mapping[str, str]) -> GoldTask:
    """Task with the run's ids in its calls' parameters, where texts hold their placeholders."""

    def filled(value: JsonValue) -> JsonValue:
        return with_run_ids(value, ids) if isinstance(value, str) else value

    calls = (replace(call, required={name: filled(value) for name, value in call.required.items()}) for call in task.calls)
    return replace(task, calls=tuple(calls))


def graded(rules: Rules, expectation: Expectation, answer: Answer) -> Graded:
    """Grade an answer under both rule sets; `rules` is that of the headline, whose failure modes count."""
    both = {each: grade(each, expectation, answer) for each in RULE_SETS}
    ours = both["paper"]
    return Graded(
        earned={each: Earned.of(scores) for each, scores in both.items()},
        exact=is_exact(ours),
        # A pseudo-call that refuses is not a call.
        no_call=ours.tm == 1.0 if expectation.task.refuse else "false_refusal" in ours.failure_modes,
        call_precision=_precision(expectation.task, ours, answer),
        ids_expected=ours.detail["ids_expected"],
        ids_right=ours.detail["ids_right"],
        failure_modes=both[rules].failure_modes,
    )


def is_exact(scores: Scores) -> bool:
    """Whether nothing is wrong, absent or too much, by scores under the rules of the paper."""
    return scores.tm == scores.pa == scores.ta == 1.0 and scores.detail["extra_calls"] == 0


def _precision(task: GoldTask, scores: Scores, answer: Answer) -> float | None:
    if not answer.calls or (task.refuse and scores.tm == 1.0):
        return None
    return 0.0 if task.refuse else float(scores.detail["call_precision"] or 0.0)


def nothing_earned(rules: Rules, expectation: Expectation, end_state_match: float | None) -> Empty:
    """Grade an answer without any call under one rule set; `end_state_match` is that of live items."""
    scores, ours = grade(rules, expectation, _NOTHING), grade("paper", expectation, _NOTHING)
    earned = {metric: getattr(scores, metric) for metric in METRICS}
    return Empty(**earned, exact=float(is_exact(ours)), end_state_match=end_state_match)


def differing_parts(state: EndState, gold: EndState) -> tuple[str, ...]:
    """Name the parts in which two whole end states differ: `clock`, `accounts` (which there are), `cash`, `positions` (with what is
    not to be exercised of them), `orders`, `sessions`.
    """
    differing = ["clock"] if state.as_of_ts != gold.as_of_ts else []
    fields = {"accounts": ("type", "initial_cash_e4"), "cash": ("cash_e4",), "positions": ("positions", "not_exercised")}
    for part in ("accounts", "cash", "positions", "orders", "sessions"):
        read = attrgetter("account_id", *fields.get(part, (part,)))
        differing += [part] if [*map(read, state.accounts)] != [*map(read, gold.accounts)] else []
    return tuple(differing)
