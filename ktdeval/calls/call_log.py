"""Record of a run's calls: every attempt and reply is on disk before it is used.

One thread writes for all others, so that many calls share one disk access.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from ktdeval.calls.call_counts import EpisodeCalls, tally_episode
from ktdeval.calls.database import (
    RECORD,
    CallDatabase,
    LogIdentity,
    read_episode,
    read_records,
)
from ktdeval.calls.prices import Price
from ktdeval.calls.record import CacheEntry, CallRecord, Spent, pack
from ktdeval.calls.remote_call_log import LOG_FILE as LOG_FILE, call_parts_at, call_record
from ktdeval.errors import StoreError
from ktdeval.harness.chat_messages import Reply
from ktdeval.values.files import Closing

#: Position of a call in the record: its episode (or `canary`, `check`) and the first digits of its
#: key
CallPosition = tuple[str, str]

_ROOM_MB = 16  #: Least free space for a call: without room, a reply would be paid and lost
_LATEST_S = 0.5  #: Longest time until a record that need not be durable at once is written


def read_calls(folder: Path) -> Iterator[CallRecord]:
    """Yield the calls of a run in their order, without opening its record for writing.

    Raises StoreError if the record is unreadable.
    """
    path = call_record(folder)
    if path.exists():
        yield from read_records(path)


@dataclass(frozen=True)
class ResumedCounts:
    """State that earlier sessions of a run left."""

    #: money and tokens used; replies without a price when they were recorded count at today's price
    spent: Spent
    was_answered: bool  #: whether the model ever answered
    #: replies that the cache does not take, such as truncated ones; a step that runs again uses
    #: them, since they were paid
    kept: dict[CallPosition, Reply]
    #: US dollars of the model's replies that had no price when they were recorded; part of `spent`
    unpriced_usd: float = 0.0


@dataclass(slots=True)
class _PendingCalls:
    """Calls that arrived while the disk was busy, written in one transaction."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    entries: list[CacheEntry] = field(default_factory=list)
    is_awaited: bool = False  #: whether a thread waits until they are on disk
    is_done: threading.Event = field(default_factory=threading.Event)
    problem: str = ""  #: why they could not be written


class CallLog(Closing):
    """Record of one run's calls and replies; only the process that owns the run folder opens it.

    One thread writes for all threads of a run. Calls that arrive while it writes go to disk in the
    next transaction. A call and its reply are written together, so a killed process leaves both or
    neither. Where the run folder is at a URL, they are then put there, too, before anyone sees the
    reply. Replies are then copied to the cache that runs share; an interrupted copy is made when
    the resumed run asks again. The thread is a daemon, since a durable call is on disk before
    `record` returns.
    """

    def __init__(self, folder: Path, cache: CallDatabase | None = None) -> None:
        """Open or create a run's record.

        Replies are also stored in and taken from `cache`, which the caller closes.
        """
        self.path = folder / LOG_FILE
        self._own = CallDatabase(self.path, RECORD)
        self._cache = cache
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        #: id of this record and when it was begun
        self.identity = self._own.identity(LogIdentity(secrets.token_hex(16), now))
        self._parts = call_parts_at(folder)  # None where the run folder is of this machine
        if self._parts is not None:
            self._parts.identify(self.identity)

        self._keys = self._own.keys()
        self._openings: Counter[str] = Counter()  #: how often each episode was opened
        self._paid: dict[str, float | None] = {}  #: as of `paid`
        #: group of the latest call of each episode that no thread has waited for
        self._unawaited: dict[str, _PendingCalls] = {}

        self._group = _PendingCalls()  # gathers new calls
        self._writing = _PendingCalls()  # is being written, or was the last to be
        self._writing.is_done.set()
        self._left = _PendingCalls()  # could not be written
        self._is_closing = False
        self._is_closed = False
        self._has_work = threading.Condition()
        self._thread = threading.Thread(
            target=self._write_all, name="ktdeval-call-log", daemon=True
        )
        self._thread.start()

    def resume(self, price: Price | None, model: str | None = None) -> ResumedCounts:
        """Read the state that earlier sessions left, as the client of a model needs it: `price` is
        that of `model`, PROVIDER/NAME (None: the only one). Raises StoreError for an unreadable
        record.
        """
        spent = Spent()
        unpriced = 0.0
        was_answered = False
        kept: dict[CallPosition, Reply] = {}
        paid: dict[str, float | None] = {}

        for record in read_calls(self.path.parent):
            spent = spent.plus(record)
            _add_paid(paid, record)
            self._openings[record.episode] = max(self._openings[record.episode], record.opening)
            if not record.is_answered or model not in (None, record.model):
                continue

            was_answered = True
            if record.reply is not None:
                kept[record.episode, record.key] = record.reply

            if price is not None and record.cost_usd is None and record.usage is not None:
                unpriced += price.call_cost(record.usage)

        with self._has_work:
            self._paid = paid

        total = structs.replace(spent, cost_usd=spent.cost_usd + unpriced)
        return ResumedCounts(total, was_answered, kept, unpriced)

    def new_opening(self, episode: str) -> int:
        """Count and return an opening of an episode; earlier ones count if they made a call."""
        with self._has_work:
            self._openings[episode] += 1
            return self._openings[episode]

    def paid(self) -> dict[str, float | None]:
        """Return the US dollars of the answered calls of each episode (and of `canary`, `check`)
        that made one; None where a price is not known.
        """
        with self._has_work:
            return dict(self._paid)

    def episode_calls(self, episode: str) -> EpisodeCalls:
        """Write an episode's calls to disk and return their counts. Raises StoreError on failure of
        a file.
        """
        self.flush()
        return tally_episode(self._own.records(episode))

    def take_over(self, episode: str, other: Path) -> list[CallRecord]:
        """Replace the calls of an episode, which is not being run, by those that the record of
        another folder has of it, with their replies; return them. Raises StoreError.
        """
        self.flush()
        rows = read_episode(other / LOG_FILE, episode)
        self._own.replace_episode(episode, rows)
        with self._has_work:
            self._openings[episode] = max((call.opening for call in rows.calls), default=0)
            self._keys.update(reply.key for reply in rows.replies)
            self._paid.pop(episode, None)
            for call in rows.calls:
                _add_paid(self._paid, call)

        return rows.calls

    def reply(self, key: str) -> Reply | None:
        """Return the undamaged reply under a key, from the cache or this run's record; None if
        there is none. Raises StoreError on failure of a file.
        """
        entry = None
        if self._cache is not None:
            entry = self._cache.entry(key)

        if entry is None and key in self._keys:
            entry = self._own.entry(key)
            if entry is not None and self._cache is not None:
                self._cache.put([entry])  # its copy was interrupted

        if entry is None:
            return None
        return entry.reply

    def check_room(self) -> None:
        """Raise StoreError if the disk has too little room for the replies of calls under way, or
        the store of the run does not take what it was given before.

        Call it before each model call.
        """
        if self._parts is not None:
            self._parts.flush()

        disk = os.statvfs(self.path.parent)
        free_bytes = disk.f_bavail * disk.f_frsize
        is_known = disk.f_blocks > 0  # some network file systems report 0 for everything
        if is_known and free_bytes < _ROOM_MB * 1_000_000:
            raise StoreError(
                f"{self.path}: less than {_ROOM_MB} MB are free on its disk, too little to keep"
                " replies that are paid; free space and run the same command again to go on"
            )

    def record(
        self, call: CallRecord, entry: CacheEntry | None = None, durable: bool = True
    ) -> None:
        """Add one call, and its reply for the cache (`entry`).

        With `durable`, returns when both are on disk. Otherwise they are written within half a
        second; if that fails, with the next calls, at the latest by `close`. Raises StoreError if
        the disk failed or the log is closed, ValueError for a number that is NaN or infinite.
        """
        # Encode it in this thread: an error then reaches only its caller, not the whole group.
        row = call.to_row()
        with self._has_work:
            if self._is_closing:
                raise StoreError(f"{self.path}: the record of calls is closed")

            _add_paid(self._paid, call)
            group = self._group
            group.calls.append(row)
            if entry is not None:
                group.entries.append(entry)
            if not durable:
                self._unawaited[call.episode] = group

            # Wake the writer only for its first call, and for the first that a thread waits for.
            if (durable and not group.is_awaited) or len(group.calls) == 1:
                group.is_awaited |= durable
                self._has_work.notify()

        if durable:
            _wait_for(group)

    def settle(self, episode: str) -> None:
        """Return when all calls of an episode recorded so far are on disk, without waiting for those
        of others. Raises StoreError if the disk failed.
        """
        with self._has_work:
            group = self._unawaited.get(episode)
            if group is None:  # `record` has waited for each
                return

            group.is_awaited = True
            self._has_work.notify()

        group.is_done.wait()
        if group.problem:
            self.flush()  # raises, unless a later group has made up for it

        with self._has_work:
            if self._unawaited.get(episode) is group:
                del self._unawaited[episode]

    def flush(self) -> None:
        """Return when all calls recorded so far are on disk. Raises StoreError if the disk
        failed.
        """
        with self._has_work:
            group = self._group
            if not group.calls:
                group = self._writing

            group.is_awaited = True
            self._has_work.notify()

        _wait_for(group)

    def close(self) -> None:
        """Write all calls, end the thread and close the file; errors as of `flush`.

        It is safe to call again.
        """
        with self._has_work:
            self._is_closing = True
            self._has_work.notify()

        self._thread.join()
        if self._is_closed:
            return

        self._is_closed = True
        try:
            if self._left.calls:
                self._commit(_PendingCalls())  # try once more to write `_left`

            if self._parts is not None:
                self._parts.flush()
        finally:
            self._own.close()

    def _write_all(self) -> None:
        """Write group after group until the log is closed; the body of the thread."""
        group: _PendingCalls | None = None
        try:
            while (group := self._next_group()) is not None:
                try:
                    self._commit(group)
                except StoreError as error:
                    group.problem = str(error)

                group.is_done.set()
        finally:
            # If a defect ended the thread, no other thread may wait for ever, or believe that its
            # call is on disk.
            with self._has_work:
                self._is_closing = True
                for left in (group, self._group):
                    if left is not None and left.calls and not left.is_done.is_set():
                        left.problem = (
                            f"{self.path}: the thread that writes the record of calls has ended"
                            " early"
                        )
                        left.is_done.set()

    def _next_group(self) -> _PendingCalls | None:
        """Wait for calls and return them; None when the log is closing and nothing is left."""
        with self._has_work:
            self._has_work.wait_for(lambda: self._group.calls or self._is_closing)
            self._has_work.wait_for(lambda: self._group.is_awaited or self._is_closing, _LATEST_S)
            group = self._group
            self._group = _PendingCalls()
            if not group.calls:
                return None

            self._writing = group
            return group

    def _commit(self, group: _PendingCalls) -> None:
        """Write a group together with all calls that could not be written before.

        If the write fails, they all stay in `_left` for the next one: their replies are paid.
        """
        self._left.calls += group.calls
        self._left.entries += group.entries
        replies = [pack(entry) for entry in self._left.entries]
        self._own.write(replies, self._left.calls)
        self._keys.update(entry.key for entry in self._left.entries)
        calls = self._left.calls
        self._left = _PendingCalls()
        if self._parts is not None:
            self._parts.add(replies, calls)

        if self._cache is not None and replies:
            self._cache.write(replies, ())


def _add_paid(paid: dict[str, float | None], call: CallRecord) -> None:
    """Add the US dollars of a call, if it was answered, to those of its episode."""
    if not call.is_answered:
        return

    before = paid.get(call.episode, 0.0)
    is_known = before is not None and call.cost_usd is not None
    paid[call.episode] = (before or 0.0) + (call.cost_usd or 0.0) if is_known else None


def _wait_for(group: _PendingCalls) -> None:
    group.is_done.wait()
    if group.problem:
        raise StoreError(group.problem)  # a new error per thread: each adds its own traceback
