"""What an answer earns under both rule sets, and what an empty one would: one flat record for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.ids import with_run_ids
from ktdeval_qfinzero.scoring.reference_calling import score_calling
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.types import REFUSE, GoldTask, Scores
from ktdeval_qfinzero.suite.config import Rules
from ktdeval_qfinzero.suite.defaults import with_defaults

RULE_SETS: Final[tuple[Rules, ...]] = ("paper", "reference")
METRICS: Final = ("overall", "tm", "pa", "ta")
IDS: Final = ("ids_expected", "ids_right")

FAILED: Final = "failed_"
"""Begins the names of failure modes in a record, each true."""
DIFFERS: Final = "differs_"
"""Begins the names of parts of the end state that are not those of the gold calls, each true."""

OTHER: Final[Mapping[Rules, Rules]] = MappingProxyType({"paper": "reference", "reference": "paper"})


@dataclass(frozen=True)
class Case:
    """What answers are held against.

    Attributes:
        task: the expected calls.
        ids: `session_id` and `account_id` of the run, as far as there are any.
        is_own: whether it is an item of our own; a task of a file is scored as it stands.
    """

    task: GoldTask
    ids: Mapping[str, str]
    is_own: bool


def grade(rules: Rules, case: Case, answer: Mapping[str, JsonValue]) -> Scores:
    """What an answer earns under one rule set.

    Of an item of our own the paper's rules see calls with the defaults of their tools; the public rules see ids in the place of
    `{session_id}` and `{account_id}` (to the calling scorer braces are no placeholder), and a refusal as the pseudo-call that the
    planning scorer wants.

    Args:
        rules: which.
        case: what is expected.
        answer: `{status, summary, calls: [{tool, arguments}]}`.
    """
    calls: Sequence[Mapping[str, JsonValue]] = answer["calls"]
    if rules == "paper":
        fill = with_defaults if case.is_own else _as_given
        return paper.score(
            case.task, [{"tool": call["tool"], "args": fill(call["tool"], call["arguments"])} for call in calls], case.ids
        )
    if case.task.suite == "planning":
        planned: list[JsonValue] = [{"tool": call["tool"], "args": call["arguments"]} for call in calls]
        if case.is_own and not planned and answer["status"] == "refused":
            planned = [{"tool": REFUSE, "args": {}}]
        return score_planning(case.task, planned, case.ids)
    predicted = [{"tool_name": call["tool"], "params": call["arguments"]} for call in calls]
    task = _with_ids(case.task, case.ids) if case.is_own else case.task
    return score_calling(task, predicted, final_answer={"summary": answer["summary"]})


def _as_given(_tool: str, arguments: JsonValue) -> JsonValue:
    return arguments


def _with_ids(task: GoldTask, ids: Mapping[str, str]) -> GoldTask:
    """The task with the run's ids in its calls' parameters, where texts hold their placeholders."""
    calls = [
        replace(
            call,
            required={name: with_run_ids(value, ids) if isinstance(value, str) else value for name, value in call.required.items()},
        )
        for call in task.calls
    ]
    return replace(task, calls=tuple(calls))


def graded(rules: Rules, case: Case, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The record of an answer.

    Args:
        rules: whose failure modes are recorded.
        case: as of `grade`.
        answer: as of `grade`.

    Returns:
        `{rule set}_overall`, `_tm`, `_pa` and `_ta` of both;
        `exact`: as of `is_exact`;
        `no_call`: whether no service was called;
        `call_precision`: share of the calls that serve a step and are of its very tool; null without any call;
        `ids_expected`, `ids_right`: ids that calls had to carry, and those that they carried, which no metric reads;
        `failed_{mode}`: true, for each failure mode.
    """
    both = {each: grade(each, case, answer) for each in RULE_SETS}
    ours = both["paper"]
    record: dict[str, JsonValue] = {f"{each}_{name}": getattr(both[each], name) for each in RULE_SETS for name in METRICS}
    record["exact"] = is_exact(ours)
    record["no_call"] = makes_no_call(case.task, ours)
    record["call_precision"] = _precision(case.task, ours, answer)
    record |= {name: ours.detail[name] for name in IDS}
    return {**record, **{f"{FAILED}{mode}": True for mode in both[rules].failure_modes}}


def is_exact(scores: Scores) -> bool:
    """Whether nothing is wrong, absent or too much, by scores under the rules of the paper."""
    return scores.tm == scores.pa == scores.ta == 1.0 and scores.detail["extra_calls"] == 0


def makes_no_call(task: GoldTask, scores: Scores) -> bool:
    """Whether an answer called no service, by its scores under the rules of the paper: a pseudo-call that refuses is no call."""
    return scores.tm == 1.0 if task.refuse else "false_refusal" in scores.failure_modes


def _precision(task: GoldTask, scores: Scores, answer: Mapping[str, JsonValue]) -> float | None:
    if not answer["calls"] or (task.refuse and scores.tm == 1.0):
        return None
    return 0.0 if task.refuse else float(scores.detail["call_precision"] or 0.0)


def nothing_earned(rules: Rules, case: Case) -> dict[str, JsonValue]:
    """What an answer without any call earns under a rule set, and whether it is exact: the floor that scores are read against."""
    answer: dict[str, JsonValue] = {"status": "done", "summary": "", "calls": []}
    scores = grade(rules, case, answer)
    return {**{name: getattr(scores, name) for name in METRICS}, "exact": float(is_exact(grade("paper", case, answer)))}


def differing_parts(state: JsonValue, gold: JsonValue) -> tuple[str, ...]:
    """Which parts of two end states differ: `clock`, `accounts` (which there are), `cash`, `positions`, `orders`,
    `sessions`, or `other`.
    """
    parts = {"clock": state["as_of_ts"] != gold["as_of_ts"]}
    ours, theirs = _accounts(state), _accounts(gold)
    parts["accounts"] = [_terms(account) for account in ours] != [_terms(account) for account in theirs]
    for part, field in (("cash", "cash_e4"), ("positions", "positions"), ("orders", "orders"), ("sessions", "sessions")):
        parts[part] = {account["account_id"]: account[field] for account in ours} != {
            account["account_id"]: account[field] for account in theirs
        }
    found = tuple(name for name, differs in parts.items() if differs)
    return found or (() if state == gold else ("other",))


def _accounts(state: JsonValue) -> Sequence[Mapping[str, JsonValue]]:
    accounts: Sequence[Mapping[str, JsonValue]] = state["accounts"]
    return accounts


def _terms(account: Mapping[str, JsonValue]) -> tuple[JsonValue, ...]:
    return account["account_id"], account["type"], account["initial_cash_e4"]
