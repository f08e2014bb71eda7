"""An answer to an item, its scores under both rule sets, and the facts recorded with it, in the
flat form used in files.

Arguments are completed with the defaults of their tools. An answer without any call is graded too,
as a floor for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ktdeval.task_api import AnswerRecord
from ktdeval.values import JsonValue, Value, convert_value, from_plain, to_object
from ktdeval_qfinzero.benchmark.items import EndState
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.public_code_calling import score_calling
from ktdeval_qfinzero.scoring.public_code_planning import score_planning
from ktdeval_qfinzero.scoring.types import REFUSE, AnswerScores, GoldCall, GoldTask, with_run_ids
from ktdeval_qfinzero.suite.config import Rules

RULE_SETS: Final[tuple[Rules, ...]] = ("paper", "reference")
METRICS: Final = ("overall", "tm", "pa", "ta")

FAILED: Final = "failed_"
"""Prefix of the names of failure modes in a record, each of which is true."""
DIFFERS: Final = "differs_"
"""Prefix of the names of the parts of the end state that differ from the end state after the gold
calls, each of which is true.
"""


class RecordedCall(Value, frozen=True):
    """A call, as made or as written. `arguments` is a string if the arguments could not be
    recorded.
    """

    tool: str
    arguments: Any


class Answer(Value, frozen=True, omit_defaults=True):
    """An answer: its `status` (done or refused), a sentence, the calls and, for live items, the
    JSON of the state that the calls left.
    """

    status: str
    summary: str
    calls: tuple[RecordedCall, ...]
    end_state: Any = None

    @staticmethod
    def of(recorded: Mapping[str, JsonValue], where: str) -> Answer:
        """Decode a recorded answer."""
        return from_plain(dict(recorded), Answer, where)


class Empty(Value, frozen=True, omit_defaults=True):
    """Figures of an answer without any call, which is the floor for all scores. `overall` is from 0
    to 100, the others from 0 to 1.
    """

    overall: float
    tm: float
    pa: float
    ta: float
    exact: float
    end_state_match: float | None = None


class Facts(Value, frozen=True, omit_defaults=True):
    """Facts recorded with an answer and never shown: the expected calls in the public format,
    strata, and `empty`.

    `template` and `as_of` are None for a task from a file; `changes_state` is known only for live
    items.
    """

    task: dict[str, Any]
    category: str
    difficulty: str
    template: str | None
    refusal: bool
    as_of: str | None
    empty: Empty
    changes_state: bool | None = None


class _PaperDetail(msgspec.Struct):
    """Further figures of the paper's rules."""

    extra_calls: int
    call_precision: float | None
    ids_expected: int
    ids_right: int


class AnswerGrades(msgspec.Struct, frozen=True, omit_defaults=True):
    """Grades of an answer in recorded form, under both rule sets: `overall` from 0 to 100, the
    other metrics from 0 to 1.
    """

    paper_overall: float
    paper_tm: float
    paper_pa: float
    paper_ta: float
    reference_overall: float
    reference_tm: float
    reference_pa: float
    reference_ta: float
    exact: bool  #: whether nothing is wrong, missing or superfluous
    no_call: bool  #: whether no service was called
    #: fraction of calls that match a step with exactly its tool; None without any call
    call_precision: float | None
    ids_expected: int  #: number of ids that calls had to carry
    ids_right: int  #: number of these ids that the calls carried, which no metric reads
    #: for live items, whether the calls lead to the same state as the expected ones
    end_state_match: bool | None = None


@dataclass(frozen=True)
class AskedItem:
    """An item that was put to a model. `graded` and `status` are None without a valid submission.
    If the model call `failed`, nothing is known about the item.
    """

    item: str
    facts: Facts
    graded: AnswerGrades | None
    status: str | None
    failed: bool
    names: tuple[str, ...]  #: names of all recorded scores

    @staticmethod
    def of(record: AnswerRecord) -> AskedItem:
        """Decode a record."""
        facts = from_plain(record.facts, Facts, record.sample)
        graded: AnswerGrades | None = None
        status: str | None = None
        if record.answer is not None:
            graded = convert_value(record.scores, AnswerGrades)
            status = str(record.answer["status"])

        failed = record.answer is None and record.provenance == "error"
        return AskedItem(record.sample, facts, graded, status, failed, tuple(record.scores))

    def names_after(self, prefix: str) -> list[str]:
        """Return the names of recorded scores that begin with a prefix, without the prefix."""
        return [name.removeprefix(prefix) for name in self.names if name.startswith(prefix)]


def with_defaults(tool: str, arguments: JsonValue) -> JsonValue:
    """Return the arguments of a call completed with the defaults in its tool's schema, also within
    given objects and lists.

    The result depends only on the call, never on the expected calls. Absent objects stay absent,
    since they may be required. Defaults that other arguments make irrelevant are not filled in.
    `tool`: dotted name; the arguments of an unknown tool stay unchanged. `arguments`: as recorded;
    anything but an object stays unchanged.
    """
    try:
        schema = catalogue().find(tool).parameters
    except ServiceError:
        return arguments

    if not isinstance(arguments, Mapping):
        return arguments

    idle = _without_effect(tool, arguments)
    filled = _fill_defaults(arguments, schema)
    return {name: value for name, value in filled.items() if name in arguments or name not in idle}


def _without_effect(tool: str, arguments: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the arguments that the given ones make irrelevant, according to the tools'
    descriptions.
    """
    if tool == "PMB.session.step" and "until_ts" in arguments:
        return ("step",)
    if tool == "ESP.events.query" and arguments.get("mode") == "window":
        return ("horizon_minutes",)
    return ()


def _fill_defaults(value: Any, schema: Any) -> Any:
    """Return a value of a schema, with the defaults of all objects in it."""
    if isinstance(value, list):
        return [_fill_defaults(item, schema.get("items", {})) for item in value]
    if not isinstance(value, Mapping):
        return value

    parts = schema.get("properties", {})
    filled = {
        name: part["default"]
        for name, part in parts.items()
        if "default" in part and name not in value
    }
    for name, item in value.items():
        filled[name] = _fill_defaults(item, parts.get(name, {}))

    return filled


OTHER: Final[Mapping[Rules, Rules]] = MappingProxyType({"paper": "reference", "reference": "paper"})
#: Parts of an end state, and the account fields that make up each
_PARTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "accounts": ("type", "initial_cash_e4"),
        "cash": ("cash_e4",),
        "positions": ("positions", "not_exercised"),
        "orders": ("orders",),
        "sessions": ("sessions",),
    }
)
_NOTHING: Final = Answer(status="done", summary="", calls=())


@dataclass(frozen=True)
class ExpectedCalls:
    """Expected calls with which answers are compared."""

    task: GoldTask  # the expected calls
    ids: Mapping[str, str]  # `session_id` and `account_id` of the run, if any
    is_own: bool  # whether the item is one of ktdeval's own; a task from a file is scored unchanged


def grade(rules: Rules, expectation: ExpectedCalls, answer: Answer) -> AnswerScores:
    """Score an answer under one rule set.

    For ktdeval's own items, the paper's rules see calls with the defaults of their tools filled in.
    The public rules see ids instead of `{session_id}` and `{account_id}` (to the calling scorer,
    braces are not a placeholder), and see a refusal as the pseudo-call that the planning scorer
    expects.
    """
    if rules == "paper":
        return paper.score(expectation.task, _complete_calls(expectation, answer), expectation.ids)

    if expectation.task.suite == "planning":
        planned: list[JsonValue] = [
            {"tool": call.tool, "args": call.arguments} for call in answer.calls
        ]
        if expectation.is_own and not planned and answer.status == "refused":
            planned = [{"tool": REFUSE, "args": {}}]

        return score_planning(expectation.task, planned, expectation.ids)

    predicted = [{"tool_name": call.tool, "params": call.arguments} for call in answer.calls]
    task = expectation.task
    if expectation.is_own:
        task = _with_ids(task, expectation.ids)

    return score_calling(task, predicted, final_answer={"summary": answer.summary})


def _complete_calls(expectation: ExpectedCalls, answer: Answer) -> list[JsonValue]:
    """Return the calls, with the defaults of their tools if the item is one of ktdeval's own."""
    calls: list[JsonValue] = []
    for call in answer.calls:
        args = call.arguments
        if expectation.is_own:
            args = with_defaults(call.tool, args)
        calls.append({"tool": call.tool, "args": args})

    return calls


def _with_ids(task: GoldTask, ids: Mapping[str, str]) -> GoldTask:
    """Return a task with the run's ids in the parameters of its calls, in place of their
    placeholders.
    """
    calls: list[GoldCall] = []
    for call in task.calls:
        required = {
            name: with_run_ids(value, ids) if isinstance(value, str) else value
            for name, value in call.required.items()
        }
        calls.append(replace(call, required=required))

    return replace(task, calls=tuple(calls))


def grade_answer(rules: Rules, expectation: ExpectedCalls, answer: Answer) -> dict[str, JsonValue]:
    """Grade an answer under both rule sets. Return the recorded form of `AnswerGrades` with the
    failure modes.

    `rules`: rule set of the headline, whose failure modes are recorded.
    """
    both = {each: grade(each, expectation, answer) for each in RULE_SETS}
    ours = both["paper"]
    detail = convert_value(ours.detail, _PaperDetail)
    # A pseudo-call that refuses is not a call.
    if expectation.task.refuse:
        no_call = ours.tm == 1.0
    else:
        no_call = "false_refusal" in ours.failure_modes

    earned: dict[str, Any] = {}
    for each, scores in both.items():
        for name in METRICS:
            earned[f"{each}_{name}"] = getattr(scores, name)

    grades = AnswerGrades(
        **earned,
        exact=is_exact(ours),
        no_call=no_call,
        call_precision=_precision(expectation.task, ours, answer, detail.call_precision),
        ids_expected=detail.ids_expected,
        ids_right=detail.ids_right,
    )
    modes = {f"{FAILED}{mode}": True for mode in both[rules].failure_modes}
    return {**to_object(grades), **modes}


def is_exact(scores: AnswerScores) -> bool:
    """Return whether all scores under the paper's rules are perfect without a surplus
    call.
    """
    return scores.tm == scores.pa == scores.ta == 1.0 and scores.detail["extra_calls"] == 0


def _precision(
    task: GoldTask, scores: AnswerScores, answer: Answer, share: float | None
) -> float | None:
    """Return the fraction of calls, excluding pseudo-calls, that match a step; None without any
    call.
    """
    if not answer.calls or (task.refuse and scores.tm == 1.0):
        return None
    return 0.0 if task.refuse else share or 0.0


def nothing_earned(
    rules: Rules, expectation: ExpectedCalls, end_state_match: float | None
) -> Empty:
    """Grade an answer without any call under one rule set. `end_state_match` is set for
    live items.
    """
    scores = grade(rules, expectation, _NOTHING)
    ours = grade("paper", expectation, _NOTHING)

    return Empty(
        overall=scores.overall,
        tm=scores.tm,
        pa=scores.pa,
        ta=scores.ta,
        exact=float(is_exact(ours)),
        end_state_match=end_state_match,
    )


def differing_parts(state: EndState, gold: EndState) -> tuple[str, ...]:
    """Name the parts in which two whole end states differ: `clock`, `accounts` (which ones exist),
    `cash`, `positions` (including exercise instructions), `orders`, `sessions`.
    """
    differing: list[str] = []
    if state.as_of_ts != gold.as_of_ts:
        differing.append("clock")

    for part, fields in _PARTS.items():
        read = attrgetter("account_id", *fields)
        if [read(account) for account in state.accounts] != [
            read(account) for account in gold.accounts
        ]:
            differing.append(part)

    return tuple(differing)
