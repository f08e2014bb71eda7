"""What an answer earns under both rule sets, and what an empty one would: one flat record for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.reference_calling import score_calling
from ktdeval_qfinzero.scoring.reference_planning import score_planning
from ktdeval_qfinzero.scoring.types import GoldTask, Scores
from ktdeval_qfinzero.suite.config import Rules

RULE_SETS: Final[tuple[Rules, ...]] = ("paper", "reference")
METRICS: Final = ("overall", "tm", "pa", "ta")

FAILED: Final = "failed_"
"""Begins the names of failure modes in a record, each true."""
DIFFERS: Final = "differs_"
"""Begins the names of parts of the end state that are not those of the gold calls, each true."""

OTHER: Final[Mapping[Rules, Rules]] = MappingProxyType({"paper": "reference", "reference": "paper"})


def grade(rules: Rules, task: GoldTask, answer: Mapping[str, JsonValue], run_context: Mapping[str, str]) -> Scores:
    """What an answer earns under one rule set.

    Args:
        rules: which.
        task: the expected calls.
        answer: `{summary, calls: [{tool, arguments}]}`.
        run_context: `session_id` and `account_id` of the run, as far as there are any.
    """
    calls: Sequence[Mapping[str, JsonValue]] = answer["calls"]
    if rules == "paper":
        return paper.score(task, [{"tool": call["tool"], "args": call["arguments"]} for call in calls], run_context)
    if task.suite == "planning":
        return score_planning(task, [{"tool": call["tool"], "args": call["arguments"]} for call in calls], run_context)
    predicted = [{"tool_name": call["tool"], "params": call["arguments"]} for call in calls]
    return score_calling(task, predicted, final_answer={"summary": answer["summary"]})


def graded(rules: Rules, task: GoldTask, answer: Mapping[str, JsonValue], run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    """The record of an answer.

    Args:
        rules: whose failure modes are recorded.
        task: as of `grade`.
        answer: as of `grade`.
        run_context: as of `grade`.

    Returns:
        `{rule set}_overall`, `_tm`, `_pa` and `_ta` of both;
        `no_call`: whether no service was called;
        `call_precision`: share of the calls that serve a step and are of its very tool; null without any call;
        `failed_{mode}`: true, for each failure mode.
    """
    both = {each: grade(each, task, answer, run_context) for each in RULE_SETS}
    record: dict[str, JsonValue] = {f"{each}_{name}": getattr(both[each], name) for each in RULE_SETS for name in METRICS}
    record["no_call"] = makes_no_call(task, both["paper"])
    record["call_precision"] = _precision(task, both["paper"], answer)
    return {**record, **{f"{FAILED}{mode}": True for mode in both[rules].failure_modes}}


def makes_no_call(task: GoldTask, scores: Scores) -> bool:
    """Whether an answer called no service, by its scores under the rules of the paper: a pseudo-call that refuses is no call."""
    return scores.tm == 1.0 if task.refuse else "false_refusal" in scores.failure_modes


def _precision(task: GoldTask, scores: Scores, answer: Mapping[str, JsonValue]) -> float | None:
    if not answer["calls"] or (task.refuse and scores.tm == 1.0):
        return None
    return 0.0 if task.refuse else float(scores.detail["call_precision"] or 0.0)


def nothing_earned(rules: Rules, task: GoldTask, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    """What an answer without any call earns under a rule set: the floor that a score is read against."""
    scores = grade(rules, task, {"summary": "", "calls": []}, run_context)
    return {name: getattr(scores, name) for name in METRICS}


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
