"""Items of the benchmark: an instruction, the situation it is given in, and the calls that carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.operations import Catalogue
from ktdeval_qfinzero.scoring.types import REFUSE, GoldCall, GoldTask, Suite
from ktdeval_qfinzero.scoring.values import Tolerance

Difficulty = Literal["easy", "medium", "hard"]

ACCOUNT, SESSION = "acct-000001", "sess-000001"  #: Ids of the first account and session of a situation: the broker numbers them


_OWN_IDS: dict[tuple[str, JsonValue], str] = {("account_id", ACCOUNT): "{account_id}", ("session_id", SESSION): "{session_id}"}
"""Ids that are told with the instruction: copying them is no merit, so that gold has placeholders, as in the public tasks."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that can be made."""

    tool: str  #: dotted name
    #: its arguments; a text `<s2.orders[0].order_id>` stands for that place in the answer to the second call
    args: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Step:
    """An expected call."""

    call: Call  #: as it is executed
    times: tuple[str, ...] = ()  #: which arguments are times that TA looks at
    tolerance: Tolerance = "exact"  #: of these
    may_be_empty: bool = False  #: whether nothing may come of it


@dataclass(frozen=True, slots=True)
class Draft:
    """An item before it has a place: as of `templates.Template`, with all slots filled."""

    instruction: str
    steps: tuple[Step, ...] = ()
    setup: tuple[Call, ...] = ()
    attempt: Call | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """Items that are alike: the template's name, and the groups that scores are summarised by."""

    template: str
    category: str
    difficulty: Difficulty


@dataclass(frozen=True)
class Item:
    """One question of the benchmark."""

    task: GoldTask  #: instruction and expected calls, as they are scored
    template: str  #: the name of what made it
    as_of_ns: int  #: where the clock of its workspace starts
    setup: tuple[Call, ...]  #: calls made before the agent starts
    gold: tuple[Call, ...]  #: the expected calls as they are executed
    free_empty: frozenset[int] = frozenset()  #: places of `gold` whose answers may be empty
    attempt: Call | None = None  #: of an item to refuse, the call that must fail


@dataclass(frozen=True, slots=True)
class Place:
    """Where a draft becomes an item."""

    suite: Suite  #: `calling` or `planning`
    id: str  #: of the item
    as_of_ns: int  #: the moment that its facts are of


def item_of(draft: Draft, kind: Kind, place: Place, catalogue: Catalogue) -> Item:
    """Make a draft an item at a place."""
    step_ids = [f"s{number}" if place.suite == "planning" else None for number in range(1, max(len(draft.steps), 1) + 1)]
    calls = tuple(_gold_call(step, catalogue, step_id) for step, step_id in zip(draft.steps, step_ids, strict=False))
    task = GoldTask(
        id=place.id,
        suite=place.suite,
        category=kind.category,
        difficulty=kind.difficulty,
        instruction=draft.instruction,
        calls=calls or (GoldCall(REFUSE, step_id=step_ids[0]),),
        notes=draft.notes,
    )
    empty = frozenset(number for number, step in enumerate(draft.steps) if step.may_be_empty)
    gold = tuple(step.call for step in draft.steps)
    return Item(task, kind.template, place.as_of_ns, draft.setup, gold, empty, draft.attempt)


def _gold_call(step: Step, catalogue: Catalogue, step_id: str | None) -> GoldCall:
    operation = catalogue.find(step.call.tool)
    required = {
        name: _OWN_IDS.get((name, value), value) if isinstance(value, str) else value for name, value in step.call.args.items()
    }
    times: dict[str, JsonValue] = {name: required[name] for name in step.times}
    if times:
        times["tolerance"] = step.tolerance
    return GoldCall(operation.name, operation.path, operation.method, required, times=times, step_id=step_id)
