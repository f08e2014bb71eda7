"""Sums that several workers share: dollars or tokens of which no more than a limit may be used.

A worker reserves an amount before it is spent and settles it afterwards. All changes are entries of
one log (`ktdeval.stores.shared_sum_log`), each made from the state after the one before it, so that no two
workers can reserve the same remainder.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from ktdeval.errors import StoreError
from ktdeval.stores.heartbeats import Heartbeats
from ktdeval.stores.shared_sum_log import Change, ChangeKind, OpenGrant, SumLog, SumState
from ktdeval.stores.store import Store, StoreUnavailable


@dataclass(frozen=True)
class Grant:
    """A reserved amount, which its holder may use up to, and must settle. `epoch` and `number` are
    the place of its entry in the log.
    """

    id: str
    amount: int
    purpose: str
    epoch: int
    number: int


class SharedSum:
    """A sum under `PREFIX`, whose used and reserved amounts never exceed `limit` (None: no limit)
    as long as nobody uses more than its grants.

    Amounts are whole numbers of the smallest unit, such as tokens or millionths of a dollar.
    `beats` says which holders live; grants of dead ones are returned when their lease has run out.
    Safe for threads.
    """

    def __init__(self, store: Store, prefix: str, limit: int | None, beats: Heartbeats) -> None:
        self.limit = limit
        self._beats = beats
        self._log = SumLog(store, prefix)
        self._uncertain: set[str] = set()  # grants whose reservation raised StoreUnavailable
        self._lock = threading.Lock()

    def reserve(self, amount: int, purpose: str = "") -> Grant | None:
        """Reserve an amount; None if used, reserved and this amount would exceed the limit, even
        after grants of dead holders are returned. `purpose` is shown in the state, e.g. a unit.
        """
        _check_amount(amount)
        grant_id = uuid.uuid4().hex
        opened = OpenGrant(amount=amount, purpose=purpose, holder=self._beats.me)

        def reserved(state: SumState) -> SumState | None:
            if not self._has_room(state, amount):
                return None
            return SumState(used=state.used, open={**state.open, grant_id: opened})

        change = self._change("reserve", amount, [grant_id], purpose)
        with self._lock:
            self._log.refresh()
            self._settle_uncertain()
            if not self._has_room(self._log.state, amount):
                self._return_expired()

            try:
                is_made = self._make(change, reserved)
            except StoreUnavailable:
                self._uncertain.add(grant_id)
                raise

            if not is_made:
                return None

            return Grant(grant_id, amount, purpose, self._log.epoch, self._log.number)

    def settle(self, grant: Grant, used: int) -> None:
        """End a grant, with what was used of it. What is above the grant is recorded as well, since
        it has been spent; then further reservations are refused. Safe to call again.
        """
        _check_amount(used)
        change = self._change("settle", used, [grant.id], grant.purpose, f"settle-{grant.id}")

        def settled(state: SumState) -> SumState | None:
            if grant.id not in state.open and self._is_settled(grant, change.id):
                return None
            return SumState(used=state.used + used, open=_without_grants(state.open, [grant.id]))

        with self._lock:
            self._log.refresh()
            self._make(change, settled)

    def charge(self, used: int, purpose: str = "") -> None:
        """Record an amount that was used without a grant, limit or not: what a dead worker's own
        records show it has spent.

        After StoreUnavailable it may have been recorded: a repeated call may count it twice, which
        errs on the safe side of the limit.
        """
        _check_amount(used)

        def charged(state: SumState) -> SumState:
            return SumState(used=state.used + used, open=state.open)

        with self._lock:
            self._log.refresh()
            self._make(self._change("charge", used, [], purpose), charged)

    def give_back(self, amount: int, purpose: str = "") -> None:
        """Count an amount as not used that this process had settled as used before it spent it.

        After StoreUnavailable it may have been recorded: do not call it again.
        """
        _check_amount(amount)

        def given_back(state: SumState) -> SumState:
            return SumState(used=max(state.used - amount, 0), open=state.open)

        with self._lock:
            self._log.refresh()
            self._make(self._change("unused", amount, [], purpose), given_back)

    def state(self) -> SumState:
        """Return the current state."""
        with self._lock:
            self._log.refresh()
            return self._log.state

    def compact(self) -> int:
        """Pack the log's entries into one file, and return how many there were. Safe while others
        write.
        """
        with self._lock:
            return self._log.compact(self._beats.me)

    def _make(self, change: Change, changed: Callable[[SumState], SumState | None]) -> bool:
        """Append a change to the latest state, and return True; False if `changed` refuses that
        state.
        """
        while True:
            state = changed(self._log.state)
            if state is None:
                return False
            if self._log.append(change, state):
                return True

            self._log.refresh()

    def _has_room(self, state: SumState, amount: int) -> bool:
        return self.limit is None or state.used + state.reserved + amount <= self.limit

    def _is_settled(self, grant: Grant, change_id: str) -> bool:
        """Whether an earlier call settled a grant that is not open; else it was returned."""
        changes = self._log.changes_since(grant.epoch, grant.number)
        return any(change.id == change_id for change in changes)

    def _return_expired(self) -> None:
        """Return the grants of holders whose lease has run out."""
        holders = {grant.holder.session: grant.holder for grant in self._log.state.open.values()}
        dead = {session for session, holder in holders.items() if self._beats.is_expired(holder)}
        self._close_grants(lambda _, grant: grant.holder.session in dead)

    def _settle_uncertain(self) -> None:
        """Return grants of this process that its caller never got, since the store's answer to
        their reservation was lost.
        """
        self._close_grants(lambda grant_id, _: grant_id in self._uncertain)

    def _close_grants(self, is_meant: Callable[[str, OpenGrant], bool]) -> None:
        def meant_in(state: SumState) -> list[str]:
            return [name for name, grant in state.open.items() if is_meant(name, grant)]

        def closed(state: SumState) -> SumState | None:
            meant = meant_in(state)
            return (
                SumState(used=state.used, open=_without_grants(state.open, meant))
                if meant
                else None
            )

        meant = meant_in(self._log.state)
        if meant:
            self._make(self._change("return", 0, meant, ""), closed)

    def _change(
        self,
        kind: ChangeKind,
        amount: int,
        grants: list[str],
        purpose: str,
        change_id: str | None = None,
    ) -> Change:
        return Change(
            id=change_id or uuid.uuid4().hex,
            kind=kind,
            amount=amount,
            grants=grants,
            purpose=purpose,
            holder=self._beats.me,
        )


def _without_grants(grants: dict[str, OpenGrant], ids: list[str]) -> dict[str, OpenGrant]:
    return {name: grant for name, grant in grants.items() if name not in ids}


def _check_amount(amount: int) -> None:
    if amount < 0:
        raise StoreError(f"an amount of {amount}: must not be negative")
