"""Task names: patterns that match several tasks, and settings that are appended to a name. The
execution setting, `_spread` or `_sqrt`, comes before the prompt setting, `_compact`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from ktdeval.hookspecs import COMPACT, Spec

EXECUTIONS = {"_spread": "spread", "_sqrt": "sqrt"}
"""Suffix of a task name -> execution preset, under which the cost of a fill depends on its size"""


def is_task_file(text: str) -> bool:
    """Return whether a command-line name refers to a YAML file."""
    return text.endswith((".yaml", ".yml"))


def matching_tasks(pattern: str, specs: Mapping[str, Spec]) -> list[str]:
    """Return the tasks that match a name, a group or a glob; empty if none match."""
    if pattern in specs:
        return [pattern]

    in_group = [name for name, spec in specs.items() if pattern in spec.groups]
    if in_group:
        return in_group
    return [name for name in specs if fnmatch.fnmatchcase(name, pattern)]


def last_setting(name: str) -> tuple[str, str]:
    """Return a task's name without its last setting, and this setting: `_compact`, an execution, or
    "" if the name has no setting.
    """
    for suffix in (COMPACT, *EXECUTIONS):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix

    return name, ""


def without_settings(pattern: str) -> str:
    """Return a task name or pattern without its settings."""
    without, suffix = last_setting(pattern.removesuffix(COMPACT))
    if suffix == COMPACT:
        return pattern.removesuffix(COMPACT)
    return without
