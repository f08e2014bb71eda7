"""Which fields of a card's task config can change a result, and which only describe the task.

Cards are compared by the fields that can change a result. A reworded data card, another list of
printed metrics or a new default window makes no other task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktdeval.values import JsonValue

DESCRIPTIVE_FIELDS = frozenset(
    {"data_card", "default_windows", "metrics", "sources", "summary", "version", "windows"}
)
"""Config fields that describe a task, or that comparisons check by themselves: the version, and the
dates of the windows that were played.
"""

VARIANT_FIELDS = frozenset({"mask", "mode", "name"})
"""Config fields that name a variant of a task family: its mask and mode."""

MODE_FIELDS = frozenset({"left_out", "prompts", "tool_texts", "tools"})
"""Config fields that follow from the mode, and must be equal within one mode: what is asked, and
with which tools.
"""

MODE_BUDGETS = frozenset({"submission"})
"""Fields of `harness` that only a mode with research reads, and so may differ between modes."""

Config = Mapping[str, JsonValue]


def task_facts(config: Config) -> dict[str, JsonValue]:
    """Return all fields of a task config that can change a result."""
    return {name: value for name, value in config.items() if name not in DESCRIPTIVE_FIELDS}


def facts_besides_variant(config: Config) -> dict[str, JsonValue]:
    """Return the fields that can change a result besides mask and mode. They must be equal for a
    difference to be due to mask and mode.

    A field that no list here names, such as one of another author's task, can change a result.
    """
    facts = {}
    for name, value in task_facts(config).items():
        if name not in VARIANT_FIELDS | MODE_FIELDS:
            facts[name] = value

    harness = facts.get("harness")
    if isinstance(harness, dict):
        facts["harness"] = _without(harness, MODE_BUDGETS)

    return facts


def facts_of_mode(config: Config) -> dict[str, JsonValue]:
    """Return the fields that may differ between modes, but not between the masks of one mode: what
    is asked, the tools, and budgets of research.

    The texts of tools name the labels of a mask, so they are not among them.
    """
    names = sorted(MODE_FIELDS - {"tool_texts"})
    facts = {name: config.get(name) for name in names}
    harness = config.get("harness")
    if isinstance(harness, dict):
        facts |= {f"harness.{name}": harness.get(name) for name in sorted(MODE_BUDGETS)}

    return facts


def _without(fields: Mapping[str, JsonValue], left_out: Iterable[str]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if name not in left_out}
