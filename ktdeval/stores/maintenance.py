"""Compaction, retention and integrity check of what claims and sums keep in a store.

Compaction and retention are safe while workers run. Listings are read lazily; what is held in memory is the names
of the units that are done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ktdeval.errors import StoreError
from ktdeval.stores.claims import ClaimRecord
from ktdeval.stores.heartbeats import Beat, Heartbeats, below
from ktdeval.stores.shared_sum_log import (
    Change,
    ClosedEpoch,
    Entry,
    OpenGrant,
    PackedEpoch,
    SumState,
)
from ktdeval.stores.store import MissingKey, Store
from ktdeval.values.typed_json import T, decode_json

_CLAIM = re.compile(r"(?P<unit>.+)/(?P<generation>\d{4,})\.json")
_EPOCH = re.compile(r"(?P<epoch>\d{4,})/")


@dataclass(frozen=True)
class Finding:
    """A file that is not as its writer leaves it."""

    key: str
    problem: str


def compact_claims(store: Store, prefix: str) -> int:
    """Delete the claims of units that are done, and return how many files there were.

    `done/` alone then says that these units need no work.
    """
    done = below(prefix, "done")
    units = {found.key.removeprefix(f"{done}/").removesuffix(".json") for found in store.list(done)}

    claims = below(prefix, "claims")
    deleted = 0
    for found in store.list(claims):
        match = _CLAIM.fullmatch(found.key.removeprefix(f"{claims}/"))
        if match and match["unit"] in units:
            store.delete(found.key)
            deleted += 1

    return deleted


def remove_dead_beats(store: Store, prefix: str, beats: Heartbeats) -> int:
    """Delete the heartbeats of workers whose lease has run out by `beats`, and return how many.

    The first call starts the leases on this observer's clock; call it again a lease later.
    """
    deleted = 0
    for found in store.list(below(prefix, "beats")):
        try:
            beat = decode_json(store.read(found.key), Beat, found.key)
        except MissingKey:
            continue

        if beats.is_expired(beat.holder):
            store.delete(found.key)
            deleted += 1

    return deleted


def check_claims(store: Store, prefix: str) -> Iterator[Finding]:
    """Yield the claims and heartbeats that can't be read or do not fit their keys."""
    claims = below(prefix, "claims")
    for found in store.list(claims):
        match = _CLAIM.fullmatch(found.key.removeprefix(f"{claims}/"))
        record = _read_record(store, found.key, ClaimRecord)
        if isinstance(record, Finding):
            yield record
        elif record is not None:
            named = (match["unit"], int(match["generation"])) if match else None
            if named != (record.unit, record.generation):
                stated = f"{record.unit}, generation {record.generation}"
                yield Finding(found.key, f"holds a claim of {stated}")

    beats = below(prefix, "beats")
    for found in store.list(beats):
        beat = _read_record(store, found.key, Beat)
        if isinstance(beat, Finding):
            yield beat
        elif beat is not None and found.key != f"{beats}/{beat.holder.worker}.json":
            yield Finding(found.key, f"holds a heartbeat of {beat.holder.worker}")


def check_sum(store: Store, prefix: str, limit: int | None = None) -> Iterator[Finding]:
    """Yield the first entry of a shared sum whose state does not follow from the one before, and
    all whose reservations exceed `limit`.

    Workers may add entries meanwhile; a compaction must not run.
    """
    state = SumState()
    for step in _steps(store, prefix):
        if isinstance(step, Finding):
            yield step
            return

        if step.change is not None:
            state = applied(step.change, state)
            yield from _excess(step.key, step.change, state, limit)

        if step.state is not None and step.state != state:
            yield Finding(step.key, "its state does not follow from the changes before it")
            return


def applied(change: Change, state: SumState) -> SumState:
    """State of a sum after a change."""
    left = {name: grant for name, grant in state.open.items() if name not in change.grants}
    used = state.used
    if change.kind == "reserve":
        opened = OpenGrant(amount=change.amount, purpose=change.purpose, holder=change.holder)
        left |= dict.fromkeys(change.grants, opened)
    elif change.kind in ("settle", "charge"):
        used += change.amount

    return SumState(used=used, open=left)


def _excess(key: str, change: Change, state: SumState, limit: int | None) -> Iterator[Finding]:
    total = state.used + state.reserved
    if change.kind == "reserve" and limit is not None and total > limit:
        yield Finding(key, f"reserves up to {total}, above the limit of {limit}")


@dataclass(frozen=True)
class _RecordedStep:
    """A recorded change, and the recorded state after it; either may be missing."""

    key: str
    change: Change | None
    state: SumState | None


def _steps(store: Store, prefix: str) -> Iterator[_RecordedStep | Finding]:
    """Steps of a sum, in order, or what can't be read."""
    for epoch in _epochs(store, prefix):
        folder = f"{prefix}/{epoch:04}"
        key = f"{folder}/packed.json"
        packed = _read_record(store, key, PackedEpoch)
        if isinstance(packed, PackedEpoch):
            yield from (_RecordedStep(key, change, None) for change in packed.changes)
        elif packed is None:
            yield from _entries(store, f"{folder}/entries")
        else:
            yield packed

        key = f"{folder}/closed.json"
        closed = _read_record(store, key, ClosedEpoch)
        if isinstance(closed, ClosedEpoch):
            yield _RecordedStep(key, None, closed.state)
        elif closed is not None:
            yield closed


def _epochs(store: Store, prefix: str) -> list[int]:
    """Epochs of a sum, in order; keys of entries are passed over without being kept."""
    names = (found.key.removeprefix(f"{prefix}/") for found in store.list(prefix))
    return sorted({int(match["epoch"]) for name in names if (match := _EPOCH.match(name))})


def _entries(store: Store, folder: str) -> Iterator[_RecordedStep | Finding]:
    """Steps of an epoch that is not packed, by rising numbers up to the first that is missing."""
    number = 1
    key = f"{folder}/{number:08}.json"
    while (entry := _read_record(store, key, Entry)) is not None:
        if isinstance(entry, Finding):
            yield entry
        elif entry.number != number:
            yield Finding(key, f"holds entry {entry.number}")
        else:
            yield _RecordedStep(key, entry.change, entry.state)

        number += 1
        key = f"{folder}/{number:08}.json"


def _read_record(store: Store, key: str, kind: type[T]) -> T | Finding | None:
    """Value under a key; None if there is none, a Finding if it is malformed."""
    try:
        data = store.read(key)
    except MissingKey:
        return None

    try:
        return decode_json(data, kind, key)
    except StoreError as error:
        return Finding(key, str(error).removeprefix(f"{key}: "))
