"""The trading task that a scoring task asks about, and the descriptions of both together."""

from __future__ import annotations

from typing import Any

from ktdeval.errors import PluginError
from ktdeval.jsonio import JsonValue
from ktdeval.registry import Plugins
from ktdeval.runner.scoring import ScoringTask, Subject, is_scoring
from ktdeval.runner.task import describe_task


def subject_of(task: ScoringTask, plugins: Plugins) -> Subject | None:
    """The trading task that a scoring task names as its subject; None where it names none.

    Raises:
        UsageError: there is no such task.
        PluginError: it does not trade.
    """
    if task.subject is None:
        return None
    subject = plugins.make_task(task.subject)
    if is_scoring(subject):
        raise PluginError(f"task {task.name}: its subject {task.subject} does not trade; name a trading task")
    return Subject(subject, plugins.tools(subject.tools))


def describe_any(task: Any, plugins: Plugins) -> dict[str, JsonValue]:
    """All of a task that can change an outcome (`describe_task`); of a scoring task with all of its subject."""
    described = describe_task(task, plugins.tools(task.tools))
    if not is_scoring(task) or (subject := subject_of(task, plugins)) is None:
        return described
    return {**described, "subject_config": describe_task(subject.task, subject.tools)}
