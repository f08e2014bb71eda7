"""Sums that several workers share: dollars or tokens of which no more than a limit may be used.

A sum is a log of numbered entries, each made by `create`: whoever writes entry n + 1 has read entry
n, so that all changes have one order. Each entry holds the whole state after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.stores.beats import Heartbeats, HolderId
from ktdeval.stores.store import Store
from ktdeval.values.typed import Value


class OpenGrant(Value):
    """An amount that is reserved and not settled."""

    amount: int
    purpose: str
    holder: HolderId


class SumState(Value):
    """State of a sum: what is used, and what is reserved, by the ids of grants."""

    used: int
    open: dict[str, OpenGrant]

    @property
    def reserved(self) -> int:
        """Sum of open grants."""
        return sum(grant.amount for grant in self.open.values())


@dataclass(frozen=True)
class Grant:
    """A reserved amount, which its holder may use up to, and must settle."""

    id: str
    amount: int
    purpose: str


class SharedSum:
    """A sum under `PREFIX`, whose used and reserved amounts never exceed `limit` (None: no limit)
    as long as nobody uses more than its grants.

    Amounts are whole numbers of the smallest unit, such as tokens or millionths of a dollar.
    `beats` says which holders live; grants of dead ones are returned when their lease has run out.
    """

    def __init__(self, store: Store, prefix: str, limit: int | None, beats: Heartbeats) -> None:
        raise NotImplementedError

    def reserve(self, amount: int, purpose: str = "") -> Grant | None:
        """Reserve an amount; None if used, reserved and this amount would exceed the limit, even
        after grants of dead holders are returned. `purpose` is shown in the state, e.g. a unit.
        """

    def settle(self, grant: Grant, used: int) -> None:
        """End a grant, with what was used of it. What is above the grant is recorded as well, since
        it has been spent; then further reservations are refused. Safe to call again.
        """

    def charge(self, used: int, purpose: str = "") -> None:
        """Record an amount that was used without a grant, limit or not: what a dead worker's own
        records show it has spent.
        """

    def state(self) -> SumState:
        """Return the current state."""
        raise NotImplementedError
