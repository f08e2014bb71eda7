"""Amendments: what a new plan adds to a grid, what it removes, and what it must not change.

A grid may grow and shrink in models, agents, tasks, windows and seeds. Existing units keep their
records. A removed unit is no longer shown. If a later plan includes it again, it is shown as
finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ktdeval.errors import UsageError
from ktdeval.values import JsonValue, dumps_canonical, to_object
from ktdeval_grid.planning.plan import GridPlan, PlannedAgent, PlannedModel
from ktdeval_grid.planning.pruning_rules import PruneRule

#: fields in which a plan may grow or shrink, with the names of their items
_LISTS: Mapping[str, Callable[[GridPlan], Sequence[str]]] = {
    "model": lambda plan: [model.short for model in plan.models],
    "agent": lambda plan: [agent.short for agent in plan.agents],
    "task": lambda plan: plan.tasks,
    "window": lambda plan: plan.windows,
    "seed": lambda plan: [str(seed) for seed in range(plan.seed, plan.seed + plan.seeds)],
    "plugin": lambda plan: plan.plugin,
    "rule of pruning": lambda plan: [rule.name for rule in plan.prune],
}
#: fields that affect no unit
_FREE = (
    "name", "tables", "pages", "concurrency", "max_cost", "max_tokens", "max_hours", "stop_when",
)  # fmt: skip
#: fields that must stay the same
_FIXED = ("data", "data_args", "options", "settle")

_SHOWN = 60  #: maximum number of characters shown of a value in a message


@dataclass(frozen=True)
class Amendment:
    """Difference between a grid's plan and a new plan."""

    added: tuple[str, ...]  #: items that the plan adds, such as `model openai-gpt-5.5`
    removed: tuple[str, ...]
    changed: tuple[str, ...]  #: changed settings of the grid, such as `max_cost: 5 (was 3)`

    @property
    def is_empty(self) -> bool:
        """True if the plans are equal."""
        return not (self.added or self.removed or self.changed)

    def lines(self) -> Iterator[str]:
        """Yield the differences as text lines."""
        for title, items in (
            ("new", self.added),
            ("no longer planned", self.removed),
            ("changed", self.changed),
        ):
            if items:
                yield f"{title}: {', '.join(items)}"


def amendment(before: GridPlan, after: GridPlan) -> Amendment:
    """Return how a plan amends a grid's plan.

    Raises UsageError, which describes the difference, if the plan changes a fixed setting.
    """
    problem = next(_refusals(before, after), None)
    if problem is not None:
        raise UsageError(
            f"this grid was begun with another plan ({problem}); choose another --out, or the plan"
            " that began it"
        )

    added: list[str] = []
    removed: list[str] = []
    for kind, names_of in _LISTS.items():
        had = names_of(before)
        has = names_of(after)
        added += [f"{kind} {name}" for name in has if name not in had]
        removed += [f"{kind} {name}" for name in had if name not in has]

    changed = tuple(_plan_changes(before, after))
    return Amendment(tuple(added), tuple(removed), changed)


def _refusals(before: GridPlan, after: GridPlan) -> Iterator[str]:
    """Yield the fixed settings that a plan changes, one line each."""
    had = to_object(before)
    has = to_object(after)
    for name in _FIXED:
        if had[name] != has[name]:
            yield f"{name}: {_shown_value(had[name])}; now {_shown_value(has[name])}"

    if after.mask_key is not None and after.mask_key != before.mask_key:
        yield "mask_key: not that of the grid; leave it out"

    yield from _find_redefined("model", before.models, after.models)
    yield from _find_redefined("agent", before.agents, after.agents)
    if before.windows and not after.windows:
        yield f"windows: {', '.join(before.windows)}; now each task's own"
    if after.windows and not before.windows:
        yield f"windows: each task's own; now {', '.join(after.windows)}"


def _find_redefined(
    kind: str,
    before: Sequence[PlannedModel | PlannedAgent],
    after: Sequence[PlannedModel | PlannedAgent],
) -> Iterator[str]:
    """Yield entries that keep their label but change in meaning."""
    known = {entry.short: entry for entry in before}
    for entry in after:
        old = known.get(entry.short)
        if old is not None and _remove_price(old) != _remove_price(entry):
            yield (
                f"{kind} {entry.short}: {_shown_value(_remove_price(old))}; now {_shown_value(_remove_price(entry))};"
                " give it another label"
            )


def _remove_price(entry: PlannedModel | PlannedAgent) -> dict[str, JsonValue]:
    """Return an entry without its label and price, which do not affect outcomes."""
    fields = to_object(entry)
    return {name: value for name, value in fields.items() if name not in ("price", "label")}


def _plan_changes(before: GridPlan, after: GridPlan) -> Iterator[str]:
    had = to_object(before)
    has = to_object(after)
    for name in _FREE:
        if had[name] != has[name]:
            yield f"{name}: {_shown_value(has[name])} (was {_shown_value(had[name])})"

    prices = {model.short: model.price for model in before.models}
    for model in after.models:
        old = prices.get(model.short, model.price)
        if old != model.price:
            yield f"price of {model.short}: {_shown_value(model.price)} (was {_shown_value(old)})"

    rules = {rule.name: rule for rule in before.prune}
    for rule in after.prune:
        if _means_another(rules.get(rule.name), rule):
            yield f"rule of pruning {rule.name}"


def _means_another(before: PruneRule | None, after: PruneRule) -> bool:
    return before is not None and before.cells != after.cells


def with_key(plan: GridPlan, mask_key: str) -> GridPlan:
    """Return a plan with its grid's mask key."""
    return msgspec.structs.replace(plan, mask_key=mask_key)


def _shown_value(value: JsonValue) -> str:
    """Return a value in the form shown in messages."""
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, str):
        return value[:_SHOWN]

    text = dumps_canonical(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
