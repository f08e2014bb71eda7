"""Trading task that a scoring task asks about, and the descriptions of both together."""

from __future__ import annotations

from typing import Any

from ktdeval.contracts.scoring import ScoringTask, TargetTask, is_scoring
from ktdeval.contracts.task import describe_task
from ktdeval.errors import PluginError
from ktdeval.jsonio import JsonValue
from ktdeval.registry import Plugins


def target_task_of(task: ScoringTask, plugins: Plugins) -> TargetTask | None:
    """Return the trading task that a scoring task names as its target task; None where it names none. Raises UsageError: there is
    no such task; PluginError: it does not trade.
    """
    if task.target_task is None:
        return None
    target_task = plugins.make_task(task.target_task)
    if is_scoring(target_task):
        raise PluginError(f"task {task.name}: its target_task {task.target_task} does not trade; name a trading task")
    return TargetTask(target_task, plugins.tools(target_task.tools))


def describe_any(task: Any, plugins: Plugins) -> dict[str, JsonValue]:
    """Return all of a task that can change an outcome (`describe_task`); of a scoring task with all of its target task."""
    described = describe_task(task, plugins.tools(task.tools))
    if not is_scoring(task) or (target_task := target_task_of(task, plugins)) is None:
        return described
    return {**described, "subject_config": describe_task(target_task.task, target_task.tools)}
