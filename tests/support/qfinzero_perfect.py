"""The answer that earns 100 under the paper rules: a check of every task, and of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask, with_run_ids
from ktdeval_qfinzero.scoring.values import is_placeholder, time_fields


def perfect_answer(task: GoldTask, ids: Mapping[str, str]) -> list[Any]:
    """The predicted calls that carry out a task, in the form of its suite; none where it asks for a refusal."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        if not isinstance(value, str):
            return value
        text = with_run_ids(value, ids)
        return "from-an-earlier-step" if is_placeholder(text) else text

    def call(gold: GoldCall) -> dict[str, Any]:
        times = {name: value for name, value in time_fields(gold.times).items() if value is not None}
        args = filled({**times, **gold.required})
        if task.suite == "planning":
            return {"step_id": gold.step_id, "tool": gold.tool, "args": args}
        endpoint = with_run_ids(gold.endpoint or "", ids)
        return {"tool_name": gold.tool, "method": gold.method, "endpoint": endpoint, "params": args}

    return [] if task.refuse else [call(gold) for gold in task.calls]
