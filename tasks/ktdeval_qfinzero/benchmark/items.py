"""Items of the benchmark: an instruction, the situation it is given in, and the calls that carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.types import GoldTask
from ktdeval_qfinzero.scoring.values import Tolerance

Difficulty = Literal["easy", "medium", "hard"]

ACCOUNT, SESSION = "acct-000001", "sess-000001"  #: Ids of the first account and session of a situation: the broker numbers them


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
