"""The task on a card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.cards.fields.base_types import Problem, decode_part
from ktdeval.cards.fields.card_inputs import CardSources, TradingSources
from ktdeval.cards.fields.origin.fact_types import TaskPart, TradingTaskPart, WindowPart
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, clean
from ktdeval.stats.factorial_effects import MODE_PIECES
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash

#: field in a task's config that explains why its cards are never ranked
NEVER_RANKED = "never_ranked"
#: field in a task's data card that states what someone with a price database can learn despite the
#: mask
IDENTIFIABLE = "identifiable"
#: field in a task's config; true if the account reveals what the task hides
BY_ACCOUNT = "identifiable_by_account"
#: field in a task's config that names the task whose decisions were re-executed with different
#: capital or costs
TRANSPLANTED = "transplanted"

_WHEN_ASKED = "asked for after research"
_EARLY = "accepted at any time; papers ask for it after research"


# ---- gathered from the plan


def gather_task(sources: CardSources) -> TaskPart:
    """Return the task in the plan, with its resolved config."""
    spec = sources.planned[0]
    fields: dict[str, object] = {
        "name": spec.task,
        "version": spec.task_version,
        "mask": spec.mask,
        "mode": spec.mode,
        "hash": spec.task_hash,
        "config": sources.inputs.task,
    }
    part: type[TaskPart] = TaskPart
    if isinstance(sources, TradingSources):
        part = TradingTaskPart

    return decode_part("task", fields, part)


def never_ranked(config: Mapping[str, Any]) -> str:
    """Return why a task is never ranked, as given in its config; empty if it may be ranked."""
    reason = config.get(NEVER_RANKED)
    if not reason:
        return ""
    return clean(str(reason))


def is_identifiable_by_prices(task: TradingTaskPart) -> bool:
    """Return whether a task hides names or days and shows figures that follow from prices, by which
    any holder of the price history can name them. Blurred figures count, too: together they name
    the day. A mode that the suite does not know counts as one that shows figures.
    """
    hides = task.mask != "bright"
    shows_no_figures = MODE_PIECES.get(task.mode) == frozenset()
    return hides and not shows_no_figures


# ---- checks


def identity_problems(task: TaskPart, facts: AnyFacts) -> Iterator[Problem]:
    """Yield problems if a card's task and windows don't follow from the task's config."""
    if content_hash(task.config) != task.hash:
        yield ("task", "hash"), "is not the hash of the task's config"

    yield from task_problems(task, facts.windows, task.config)


def task_problems(
    task: TaskPart, windows: Sequence[WindowPart], config: Mapping[str, JsonValue]
) -> Iterator[Problem]:
    """Yield a problem for each value of a card's task and windows that differs from the task's
    config. A value that is missing from the config is not compared. A window that is missing from
    the config must be named by its days, `FIRST:LAST`.
    """
    for name in ("name", "version", "mask", "mode"):
        recorded = getattr(task, name)
        if name in config and (config[name] or None) != recorded:
            yield (
                ("task", name),
                f"is {str(recorded)[:60]!r}, the task's config says {str(config[name])[:60]!r}",
            )

    dates = config.get("windows")
    if not isinstance(dates, Mapping):
        return

    for index, window in enumerate(windows):
        configured = _configured_days(window.name, dates)
        for name in ("first", "last"):
            day = configured.get(name)
            if getattr(window, name) != day:
                says = "has no such day" if day is None else f"says {str(day)[:20]}"
                yield (
                    ("windows", index, name),
                    f"is {getattr(window, name)}, window {window.name[:60]!r} of the task's config"
                    f" {says}",
                )


def _configured_days(window: str, dates: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first and last days of a window, as given in the config or else in the window's
    name.
    """
    if window not in dates:
        first, _, last = window.partition(":")
        return {"first": first, "last": last} if last else {}

    days = dates[window]
    return days if isinstance(days, Mapping) else {}


# ---- wording


def task_rows(task: TaskPart, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row with the task's name, version, mask and mode, and with what a compact prompt
    omits.
    """
    words = f"{task.name}, version {task.version}"
    variant = ", ".join(filter(None, (task.mask, task.mode)))
    if variant:
        words += f" ({variant})"

    yield field_label("task"), words

    harness = task.config.get("harness")
    if isinstance(harness, Mapping) and task.config.get("tools"):
        early = harness.get("submission") == "any_time"
        yield "submission", _EARLY if early else _WHEN_ASKED

    left_out = task.config.get("left_out")
    if isinstance(left_out, list) and left_out:
        yield "left out", clean(", ".join(map(str, left_out)))

    data_card = task.config.get("data_card")
    if isinstance(data_card, Mapping) and data_card.get(IDENTIFIABLE):
        yield IDENTIFIABLE, clean(str(data_card[IDENTIFIABLE]))
