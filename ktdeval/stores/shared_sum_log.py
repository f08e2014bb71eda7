"""Log of a shared sum: numbered entries, each made by `create`, so that changes have one order.

An entry holds the whole state after it, so that the latest one is all that is read. Entries lie in
epochs: compaction ends one, packs its entries into one file, and marks it as closed for good. A
process that slept meanwhile may still create an entry where one was deleted; it finds the mark then,
and looks into the packed file whether its entry counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Literal

import msgspec

from ktdeval.stores.heartbeats import HolderId, below
from ktdeval.stores.store import MissingKey, Store
from ktdeval.values.typed_json import T, Value, decode_json, encode_canonical

ChangeKind = Literal["reserve", "settle", "charge", "unused", "return", "close"]


class OpenGrant(Value):
    """An amount that is reserved and not settled."""

    amount: int
    purpose: str
    holder: HolderId


class SumState(Value):
    """State of a sum: what is used, and what is reserved, by the ids of grants."""

    used: int = 0
    open: dict[str, OpenGrant] = msgspec.field(default_factory=dict)

    @property
    def reserved(self) -> int:
        """Sum of open grants."""
        return sum(grant.amount for grant in self.open.values())


class Change(Value):
    """One change of a sum: `amount` is reserved or used, `grants` are the ids that it concerns."""

    id: str
    kind: ChangeKind
    amount: int
    grants: list[str]
    purpose: str
    holder: HolderId


class Entry(Value):
    """Entry of the log: a change, and the state after it."""

    number: int
    change: Change
    state: SumState


class ClosedEpoch(Value):
    """Mark of an epoch that has ended: its last number, and the state that the next begins with."""

    number: int
    state: SumState


class PackedEpoch(Value):
    """Changes of an epoch that has ended, in their order."""

    changes: list[Change]


class SumLog:
    """A sum's log under `PREFIX`, and the latest entry that this process knows of. Not safe for
    threads.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self.epoch = 1
        self.number = 0  #: of the latest known entry of the epoch; 0 before its first
        self.state = SumState()

    def refresh(self) -> None:
        """Read the latest entry. Costs two look-ups for a log that has not changed."""
        is_at_end = False
        while not is_at_end:
            is_at_end = self._advance()

    def _advance(self) -> bool:
        """Read the latest entry of the epoch, and return True; False if the epoch has ended and the
        next one begins.

        Entries are deleted only after the mark, so that what was found before a missing mark was
        whole.
        """
        epoch = self.epoch
        latest = self._latest_number()
        entry = self._entry(epoch, latest) if latest > self.number else None
        closed = self._closed(epoch)
        if closed is not None:
            self._begin_epoch(epoch + 1, closed.state)
            return False
        if entry is not None:
            self._come_to(entry)

        return self.epoch == epoch

    def append(self, change: Change, state: SumState) -> bool:
        """Add an entry after the latest known one; False if another process was first, or the
        epoch has ended: refresh, and make the change anew.
        """
        entry = Entry(number=self.number + 1, change=change, state=state)
        key = self._entry_key(self.epoch, entry.number)
        if not self._store.create(key, _encoded_value(entry)):
            return False

        if self._closed(self.epoch) is not None and not self._is_packed(change):
            self._store.delete(key)  # made where a compacted entry had been
            return False

        self._come_to(entry)
        return True

    def changes_since(self, epoch: int, number: int) -> Iterator[Change]:
        """Yield changes from an entry on, up to the latest one; of a packed epoch, all of them."""
        first = number
        for past in range(epoch, self.epoch + 1):
            packed = self._packed(past)
            if packed is not None:
                yield from packed.changes
            else:
                yield from (entry.change for entry in self._entries(past, first))

            first = 1

    def compact(self, holder: HolderId) -> int:
        """End the epoch, pack its entries into one file and delete them; finish first what an
        interrupted compaction left. Return the number of entries deleted.
        """
        self.refresh()
        ended = self.epoch
        while self.number > 0 and self.epoch == ended:
            change = Change(
                id=uuid.uuid4().hex, kind="close", amount=0, grants=[], purpose="", holder=holder
            )
            if not self.append(change, self.state):
                self.refresh()

        return sum(self._pack(epoch) for epoch in range(1, self.epoch))

    def _pack(self, epoch: int) -> int:
        """Pack an epoch that has ended, if it is not packed yet, and delete its entries."""
        if self._closed(epoch) is None:
            entries = list(self._entries(epoch, 1))
            packed = PackedEpoch(changes=[entry.change for entry in entries])
            closed = ClosedEpoch(number=entries[-1].number, state=entries[-1].state)
            self._store.create(self._key(epoch, "packed.json"), _encoded_value(packed))
            self._store.create(self._key(epoch, "closed.json"), _encoded_value(closed))

        keys = [found.key for found in self._store.list(self._key(epoch, "entries"))]
        for key in keys:
            self._store.delete(key)

        return len(keys)

    def _come_to(self, entry: Entry) -> None:
        """Take an entry for the latest one; after the last of an epoch the next begins."""
        if entry.change.kind == "close":
            self._begin_epoch(self.epoch + 1, entry.state)
        else:
            self.number = entry.number
            self.state = entry.state

    def _begin_epoch(self, epoch: int, state: SumState) -> None:
        self.epoch = epoch
        self.number = 0
        self.state = state

    def _latest_number(self) -> int:
        """Number of the latest entry of the epoch: steps double until one is missing, then halve.

        Entries of an open epoch have no gaps. A listing would take a request for each 1,000 of
        them.
        """
        latest = self.number
        step = 1
        while self._has(latest + step):
            latest += step
            step *= 2

        while step > 1:
            step //= 2
            if self._has(latest + step):
                latest += step

        return latest

    def _has(self, number: int) -> bool:
        return self._store.exists(self._entry_key(self.epoch, number))

    def _entries(self, epoch: int, first: int) -> Iterator[Entry]:
        """Entries of an epoch that is not packed, from a number on."""
        number = first
        while (entry := self._entry(epoch, number)) is not None:
            yield entry
            number += 1

    def _is_packed(self, change: Change) -> bool:
        packed = self._packed(self.epoch)
        return packed is not None and any(past.id == change.id for past in packed.changes)

    def _entry(self, epoch: int, number: int) -> Entry | None:
        return self._read(self._entry_key(epoch, number), Entry)

    def _closed(self, epoch: int) -> ClosedEpoch | None:
        return self._read(self._key(epoch, "closed.json"), ClosedEpoch)

    def _packed(self, epoch: int) -> PackedEpoch | None:
        return self._read(self._key(epoch, "packed.json"), PackedEpoch)

    def _read(self, key: str, kind: type[T]) -> T | None:
        try:
            return decode_json(self._store.read(key), kind, f"{self._store.place}: {key}")
        except MissingKey:
            return None

    def _key(self, epoch: int, name: str) -> str:
        return below(self._prefix, f"{epoch:04}/{name}")

    def _entry_key(self, epoch: int, number: int) -> str:
        return self._key(epoch, f"entries/{number:08}.json")


def _encoded_value(value: Value) -> bytes:
    return encode_canonical(value).encode()
