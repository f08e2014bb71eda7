"""What an item of the benchmark is: an instruction, the situation it is given in, and the calls that carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.operations import Catalogue
from ktdeval_qfinzero.scoring.types import REFUSE, GoldCall, GoldTask, Suite

Difficulty = Literal["easy", "medium", "hard"]

ACCOUNT, SESSION = "acct-000001", "sess-000001"
"""Ids that a situation's first account and session get: the broker numbers them."""


_OWN_IDS: dict[tuple[str, JsonValue], str] = {("account_id", ACCOUNT): "{account_id}", ("session_id", SESSION): "{session_id}"}
"""Ids that are told with the instruction: copying them is no merit, so that gold has placeholders, as in the public tasks."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that can be made.

    Attributes:
        tool: dotted name.
        args: its arguments; a text `<s2.orders[0].order_id>` stands for that place in the answer to the second call.
    """

    tool: str
    args: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Step:
    """An expected call.

    Attributes:
        call: as it is executed.
        times: which arguments are times that TA looks at.
        tolerance: of these: exact, 5min, 30min, 60min, 1day or 2day.
        free: arguments that are executed, but not expected of an answer.
        may_be_empty: whether nothing may come of it.
    """

    call: Call
    times: tuple[str, ...] = ()
    tolerance: str = "exact"
    free: tuple[str, ...] = ()
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What a template makes.

    Attributes:
        instruction: the user's words.
        steps: expected calls in order; none where the right answer is to refuse.
        setup: calls made before the agent starts; a clock that they advance is the one that it is told.
        attempt: of an item to refuse, the call that somebody would make who overlooks why it can't be done; it must fail. None
            where there is no tool for what is asked.
        notes: why it is so; for people.
    """

    instruction: str
    steps: tuple[Step, ...] = ()
    setup: tuple[Call, ...] = ()
    attempt: Call | None = None
    notes: str = ""


Make = Callable[[np.random.Generator, Facts], Draft]


@dataclass(frozen=True, slots=True)
class Template:
    """Makes drafts of one kind. `weight` is how many there are of it, in proportion to the others."""

    name: str
    category: str
    difficulty: Difficulty
    make: Make
    weight: int = 1


@dataclass(frozen=True)
class Item:
    """One question of the benchmark.

    Attributes:
        task: instruction and expected calls, as they are scored.
        template: the name of what made it.
        as_of_ns: where the clock of its workspace starts.
        setup: calls made before the agent starts.
        gold: the expected calls as they are executed.
        free_empty: places of `gold` whose answers may be empty.
        attempt: of an item to refuse, the call that must fail.
    """

    task: GoldTask
    template: str
    as_of_ns: int
    setup: tuple[Call, ...]
    gold: tuple[Call, ...]
    free_empty: frozenset[int] = frozenset()
    attempt: Call | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a draft becomes an item.

    Attributes:
        suite: `calling` or `planning`.
        id: of the item.
        as_of_ns: the moment that its facts are of.
    """

    suite: Suite
    id: str
    as_of_ns: int


def item_of(draft: Draft, template: Template, place: Place, catalogue: Catalogue) -> Item:
    """The item that a draft is at a place."""
    calls = tuple(
        _gold_call(step, catalogue, f"s{number}" if place.suite == "planning" else None)
        for number, step in enumerate(draft.steps, 1)
    )
    task = GoldTask(
        id=place.id,
        suite=place.suite,
        category=template.category,
        difficulty=template.difficulty,
        instruction=draft.instruction,
        calls=calls or (GoldCall(REFUSE, step_id="s1" if place.suite == "planning" else None),),
        notes=draft.notes,
    )
    empty = frozenset(number for number, step in enumerate(draft.steps) if step.may_be_empty)
    gold = tuple(step.call for step in draft.steps)
    return Item(task, template.name, place.as_of_ns, draft.setup, gold, empty, draft.attempt)


def _gold_call(step: Step, catalogue: Catalogue, step_id: str | None) -> GoldCall:
    operation = catalogue.find(step.call.tool)
    required = {
        name: _OWN_IDS.get((name, value), value) if isinstance(value, str) else value for name, value in step.call.args.items()
    }
    required = {name: value for name, value in required.items() if name not in step.free}
    times: dict[str, JsonValue] = {name: required[name] for name in step.times}
    if times:
        times["tolerance"] = step.tolerance
    return GoldCall(
        tool=operation.name,
        endpoint=operation.path,
        method=operation.method,
        required=required,
        optional={name: step.call.args[name] for name in step.free},
        times=times,
        step_id=step_id,
    )
