"""Sums that several workers share, such as dollars or tokens, with a limit on the total.

A worker draws an amount before it spends it, and returns what it has not used. Each change is a
numbered file, written with `create`, that contains the complete resulting state. The changes are
therefore totally ordered, no two workers draw the same remainder, and only the latest file has to
be read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from ktdeval.errors import StoreError
from ktdeval.stores import Store, encode_value, read_value
from ktdeval.values import Value
from ktdeval_grid.coordination.heartbeats import Heartbeats, HolderId, below


class Drawer(Value):
    """Process that has drawn from a sum and may still return part of it. Earlier versions recorded
    an amount and a purpose.
    """

    holder: HolderId
    amount: int = 0
    purpose: str = ""


class SumState(Value):
    """State of a sum: the amount taken as used, and the processes, by id, that may still
    return part of it.
    """

    used: int = 0
    open: dict[str, Drawer] = msgspec.field(default_factory=dict)


class SumEntry(Value, forbid_unknown_fields=False):
    """State of a sum after a numbered change. Earlier versions also recorded the change itself."""

    number: int
    state: SumState


class SharedSum:
    """Sum under `PREFIX`. The total amount drawn never exceeds `limit` (None: no limit).

    Amounts are whole numbers of the smallest unit, such as tokens or millionths of a dollar.
    Amounts drawn by a killed process remain used. Thread-safe.
    """

    def __init__(self, store: Store, prefix: str, limit: int | None, beats: Heartbeats) -> None:
        self.limit = limit
        self._store = store
        self._prefix = prefix
        self._beats = beats
        self._latest = SumEntry(number=0, state=SumState())
        self._lock = threading.Lock()

    def draw(self, amount: int) -> bool:
        """Count an amount as used and return True. Returns False if the limit leaves less than the
        amount.

        After StoreUnavailable, the amount may already have been counted. Repeating the call may
        then count it twice, which errs on the safe side. Raises StoreError.
        """
        if amount < 0:
            raise StoreError(f"an amount of {amount}: must not be negative")

        me = self._beats.me

        def draw(state: SumState) -> SumState | None:
            used = state.used + amount
            if self.limit is not None and used > self.limit:
                return None
            return SumState(used=used, open={**state.open, me.session: Drawer(holder=me)})

        return self._change(draw)

    def give_back(self, amount: int) -> None:
        """Return an unused amount that this process has drawn. A negative amount is
        additional use, regardless of the limit. Do not repeat this call after StoreUnavailable.
        Raises StoreError.
        """

        def given_back(state: SumState) -> SumState:
            return SumState(used=max(state.used - amount, 0), open=state.open)

        self._change(given_back)

    def leave(self, amount: int) -> None:
        """Do the same as `give_back`, and tell others that this process will return no more."""
        session = self._beats.me.session

        def leave(state: SumState) -> SumState | None:
            if session not in state.open and not amount:
                return None

            others = {name: drawer for name, drawer in state.open.items() if name != session}
            return SumState(used=max(state.used - amount, 0), open=others)

        self._change(leave)

    def state(self) -> SumState:
        """Return the current state. Raises StoreError."""
        with self._lock:
            self._refresh()
            return self._latest.state

    def may_others_give_back(self) -> bool:
        """Return whether another living process has drawn an amount and not left. Raises
        StoreError.
        """
        may_give_back = False
        for drawer in self.state().open.values():
            is_other = drawer.holder.session != self._beats.me.session
            # every drawer is checked, since the first look at a drawer starts its lease
            if is_other and not self._beats.is_expired(drawer.holder):
                may_give_back = True

        return may_give_back

    def _change(self, changed: Callable[[SumState], SumState | None]) -> bool:
        """Add an entry after the latest one and return True. Returns False if `changed` rejects the
        state in the latest entry.
        """
        with self._lock:
            while True:
                self._refresh()
                state = changed(self._latest.state)
                if state is None:
                    return False

                entry = SumEntry(number=self._latest.number + 1, state=state)
                # If another process was faster, the change is recomputed from its state.
                if self._store.create(self._key(entry.number), encode_value(entry)):
                    self._latest = entry
                    return True

    def _refresh(self) -> None:
        """Read the latest entry. Step sizes double until an entry is missing, then halve, since a
        listing would take one request per 1,000 entries. Entries have no gaps.
        """
        number = self._latest.number
        step = 1
        while self._has(number + step):
            number += step
            step *= 2

        while step > 1:
            step //= 2
            if self._has(number + step):
                number += step

        if number > self._latest.number:
            self._latest = read_value(self._store, self._key(number), SumEntry)
        elif number == 0 and self._store.exists(below(self._prefix, "0001/closed.json")):
            raise StoreError(
                f"{self._store.place}: {self._prefix}: an earlier version of ktdeval compacted"
                " this sum, which this version can't read; start again in another folder"
            )

    def _has(self, number: int) -> bool:
        return self._store.exists(self._key(number))

    def _key(self, number: int) -> str:
        return below(self._prefix, f"0001/entries/{number:08}.json")
