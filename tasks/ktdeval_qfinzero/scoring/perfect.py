"""The answer that earns 100 under the paper rules: a check of every task, and of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktdeval.api import JsonValue
from ktdeval_qfinzero.scoring.ids import with_run_ids
from ktdeval_qfinzero.scoring.times import time_fields
from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask
from ktdeval_qfinzero.scoring.values import is_placeholder

# Stands for what an agent would have learnt from an earlier step.
STAND_IN: Final = "from-an-earlier-step"


def perfect_answer(task: GoldTask, run_context: Mapping[str, str]) -> list[JsonValue]:
    """The predicted calls that carry out a task, in the form of its suite; no call where the task asks for a refusal."""
    if task.refuse:
        return []
    write = _planning_call if task.suite == "planning" else _calling_call
    return [write(gold, run_context) for gold in task.calls]


def _calling_call(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    return {
        "tool_name": gold.tool,
        "method": gold.method,
        "endpoint": with_run_ids(gold.endpoint or "", run_context),
        "params": _args(gold, run_context),
    }


def _planning_call(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    return {"step_id": gold.step_id, "tool": gold.tool, "args": _args(gold, run_context)}


def _args(gold: GoldCall, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    """The required parameters, and time fields that are constrained without being required."""
    times = {name: value for name, value in time_fields(gold.times).items() if value is not None}
    return {name: _filled(value, run_context) for name, value in {**times, **gold.required}.items()}


def _filled(value: JsonValue, run_context: Mapping[str, str]) -> JsonValue:
    if isinstance(value, dict):
        return {key: _filled(inner, run_context) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, run_context) for inner in value]
    if isinstance(value, str):
        filled = with_run_ids(value, run_context)
        return STAND_IN if is_placeholder(filled) else filled
    return value
