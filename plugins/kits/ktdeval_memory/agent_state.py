"""State that an agent with a layered memory keeps between steps."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ktdeval.observation import ObservedState, fill_of
from ktdeval_memory.day_view import MemoryDay


class Pending(msgspec.Struct, forbid_unknown_fields=True):
    """A decision whose outcome is not known yet."""

    step: int  #: step of the decision; below 0 for a lesson
    day: str
    nav: float  #: NAV of the account at the decision
    ids: list[str]  #: ids of the memories that the decision named
    decided: str  #: the decision as text
    reason: str
    memory: str = ""  #: id of the memory of the reason; empty if the reason was not stored
    #: log return of each asset since the decision; None if unknown
    moves: dict[str, float | None] = {}
    reflected: bool = False  #: whether the outcome of the decision is stored in the memory
    #: labels of the assets that the decision may trade
    ordered: list[str] = []
    #: outcome of the orders as text, keyed by label, once it is shown; absent without an order
    fills: dict[str, str] = {}
    #: whether any order was filled; None if unknown, or without an order
    is_traded: bool | None = None

    def book(self, state: ObservedState) -> None:
        """Record the outcome of the orders, read from the state of the next step."""
        for label in self.ordered:
            fill = fill_of(state, label)
            if fill is not None:
                self.fills[label] = fill.words
                self.is_traded = bool(self.is_traded) or fill.is_traded


class AgentRecord(msgspec.Struct, forbid_unknown_fields=True):
    """State of the agent between steps."""

    memory: Any = None  #: state from `LayeredMemory.to_json`
    step: int = -1  #: last step with a decision
    observed: int = -1  #: last step whose figures are in `returns`
    #: ids of the memories of the last day's documents, keyed by document hash
    shown: dict[str, str] = {}
    returns: dict[str, list[float | None]] = {}  #: returns in the latest sessions, oldest first
    #: text on each asset's performance before the asset was first seen
    histories: dict[str, str] = {}
    pending: list[Pending] = []
    #: vectors of remembered texts, keyed by text hash, if a server computes the vectors
    vectors: dict[str, str] = {}

    def follow(self, today: MemoryDay, missed: int, most: int) -> None:
        """Add a day's log returns, after `missed` days without returns; at most `most` are kept per
        asset. A day on which an asset's exchange is closed is not a session for the asset, and its
        price is unchanged.
        """
        for label in dict.fromkeys([*self.returns, *today.changes]):
            series = [*self.returns.get(label, []), *[None] * missed]
            if label not in today.resting:
                series.append(today.changes.get(label))

            latest = series[-most:]
            if latest == [None] * len(latest):
                self.returns.pop(label, None)
            else:
                self.returns[label] = latest

        for decision in self.pending:
            for label, move in decision.moves.items():
                change = today.changes.get(label)
                if label in today.resting:
                    change = 0.0
                decision.moves[label] = _add_change(move, change, missed)

    def momentum(self, label: str, days: int) -> float | None:
        """Return the cumulative log return of an asset over its latest `days` sessions; None if any
        of their returns is unknown.
        """
        series = self.returns.get(label, [])
        known = [change for change in series if change is not None]
        if len(known) < days:
            return None
        return math.fsum(known)


def _add_change(move: float | None, change: float | None, missed: int) -> float | None:
    if move is None or change is None or missed:
        return None
    return move + change
