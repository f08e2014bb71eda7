"""Grades of an answer under both rule sets, and of one without any call; arguments are completed by their tools' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.benchmark.items import EndState
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.schemas import Schema
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.reference_calling import score_calling
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.types import REFUSE, GoldTask, Scores, with_run_ids
from ktdeval_qfinzero.suite.records import METRICS, RULE_SETS, Answer, Earned, Empty, Graded, Rules


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
    """Name the parts in which two end states differ: `clock`, `accounts` (which there are), `cash`, `positions`, `orders`,
    `sessions`.
    """
    differing = ["clock"] if state.as_of_ts != gold.as_of_ts else []
    fields = {"accounts": ("type", "initial_cash_e4"), "cash": ("cash_e4",)}
    for part in ("accounts", "cash", "positions", "orders", "sessions"):
        read = attrgetter("account_id", *fields.get(part, (part,)))
        differing += [part] if [*map(read, state.accounts)] != [*map(read, gold.accounts)] else []
    return tuple(differing)
