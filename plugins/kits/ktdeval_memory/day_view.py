"""A day as an agent with a layered memory sees it, taken from an observation or a lesson."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktdeval.observation import (
    NOTHING_SHOWN,
    ObservedDocument,
    ObservedOutcome,
    ObservedState,
    as_object,
    table_rows,
)

MEMORY_COLUMN = "memory"
"""Column of the document table that contains the ids of the resulting memories."""
_TEXT_COLUMNS = ("title", "text")
_SIDES = {"BUY": 1, "SELL": -1}

Changes = Mapping[str, float | None]
"""Log returns on a day, keyed by asset; None if the price or the previous price is not shown."""


@dataclass(frozen=True)
class MemoryDay:
    """The facts about a day."""

    name: str  #: label of the day
    state: ObservedState
    #: labels of the assets that have separate memories; empty: one memory for all
    assets: tuple[str, ...]
    changes: Changes
    #: assets without a session on the day; their figures are from their last session
    resting: frozenset[str]

    @classmethod
    def of(cls, state: ObservedState | None, name: str) -> MemoryDay:
        """Return the facts in a state. `name`: label of the day if the task shows no state."""
        state = state or NOTHING_SHOWN
        changes = {}
        resting = set()
        for label, asset in state.assets.items():
            if "close" in asset.cells and asset.figure("close") is None:
                resting.add(label)
            else:
                changes[label] = _log_return(asset.figure("return_1d_pct"))

        day = state.day or name
        return cls(day, state, _remembered_assets(state), changes, frozenset(resting))

    @property
    def nav(self) -> float | None:
        """Net asset value of the account; None if no account is shown."""
        return self.state.account.nav

    @property
    def documents(self) -> tuple[ObservedDocument, ...]:
        """Documents known on the day; none in a task without news."""
        return self.state.documents

    @property
    def outcomes(self) -> Mapping[str, ObservedOutcome]:
        """For a lesson, the outcomes after the day, keyed by asset."""
        return self.state.outcomes

    @property
    def is_of_one_asset(self) -> bool:
        """Return whether the day is about a single asset."""
        return len(self.assets) == 1 and set(self.state.candidates) <= set(self.assets)


def _remembered_assets(state: ObservedState) -> tuple[str, ...]:
    """Return the assets that have separate memories. They are the assets that a lesson is about, or
    on which a decision is requested, or the only candidate. Otherwise they are the assets held: if
    an order may be for any of many candidates, no candidate is preferred.
    """
    if state.outcomes:
        return tuple(state.outcomes)
    if state.limits.asks_decisions or len(state.candidates) == 1:
        return tuple(state.candidates)
    return tuple(state.positions)


def _log_return(change_pct: float | None) -> float | None:
    if change_pct is None or change_pct <= -100:
        return None
    return math.log1p(change_pct / 100)


def growth(before: MemoryDay | None, today: MemoryDay) -> float:
    """Return the growth factor of an account since the lesson `before`. The account holds equal
    parts, each on the side that the lesson's outcome for an asset called for.
    """
    if before is None or not before.outcomes:
        return 1.0

    shares: list[float] = []
    for label, outcome in before.outcomes.items():
        side = _SIDES.get(outcome.action, 0)
        move = today.changes.get(label) or 0.0
        shares.append(side * move / len(before.outcomes))

    return math.exp(math.fsum(shares))


def with_memories(state: ObservedState, ids: Sequence[str], with_texts: bool) -> ObservedState:
    """Return a state whose documents carry the ids of the memories made from them (`ids`, in
    document order). The documents keep title and text only if `with_texts` is set. The text of all
    other sections stays the same.
    """
    news = as_object(state.values.get("news"))
    rows = table_rows(news)
    if not rows:
        return state

    hidden = () if with_texts else _TEXT_COLUMNS
    columns = [column for column in news["columns"] if column not in hidden]
    shown = []
    for row, id_ in zip(rows, ids, strict=True):
        shown.append([*(row[column] for column in columns), id_])

    table = {**news, "columns": [*columns, MEMORY_COLUMN], "rows": shown}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return ObservedState({**state.sections, "news": text})
