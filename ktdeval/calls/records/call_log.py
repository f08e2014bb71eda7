"""Log of a run's calls. Every attempt and reply is on disk before it is used.

A single thread writes for all other threads, so that many calls share one disk access.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from ktdeval.calls.costs.prices import Price
from ktdeval.calls.records.call_counts import EpisodeCalls, tally_episode
from ktdeval.calls.records.database import (
    RECORD,
    CallDatabase,
    LogIdentity,
    read_episode,
    read_records,
)
from ktdeval.calls.records.record import CacheEntry, CallRecord, Spent, pack
from ktdeval.calls.records.remote_call_log import LOG_FILE as LOG_FILE, call_parts_at, call_record
from ktdeval.errors import StoreError
from ktdeval.harness.chat_messages import Reply
from ktdeval.values.disk.files import Closing

#: position of a call in the log: the episode (or `canary`, `check`) and the first digits of the
#: request key
CallPosition = tuple[str, str]

#: minimum free space (MB) before a call; without it, a reply would be paid for and lost
_ROOM_MB = 16
_LATEST_S = 0.5  #: maximum seconds until a call is written if no thread waits for it


def read_calls(folder: Path) -> Iterator[CallRecord]:
    """Yield the calls of a run in order, without opening the log for writing.

    Raises StoreError if the log is unreadable.
    """
    path = call_record(folder)
    if path.exists():
        yield from read_records(path)


@dataclass(frozen=True)
class ResumedCounts:
    """State left by earlier sessions of a run."""

    #: money and tokens used; replies recorded without a price are charged at today's price
    spent: Spent
    was_answered: bool  #: True if the model has ever answered
    #: replies that the cache does not store, such as truncated replies; a step that runs again uses
    #: them because they were paid for
    kept: dict[CallPosition, Reply]
    #: cost in US dollars of the model's replies that were recorded without a price; included in
    #: `spent`
    unpriced_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class _WaitingCall:
    """A call that is not on disk yet: the episode, the row, and the reply for the cache."""

    episode: str
    row: tuple[Any, ...]
    entry: CacheEntry | None


class CallLog(Closing):
    """Log of one run's calls and replies. Only the process that owns the run folder opens it.

    A single thread writes for all threads of a run. Calls that arrive while it writes, or before
    any thread waits for a call, are written in the next transaction. A call and its reply are
    written together, so that a killed process leaves either both or neither.

    If the run folder is at a URL, the calls and replies are then uploaded before any reply is used.
    Finally, replies are copied to the cache that runs share; a copy that was interrupted is made
    when the resumed run makes the call again.
    """

    def __init__(self, folder: Path, cache: CallDatabase | None = None) -> None:
        """Open a run's log, or create it if it does not exist.

        Replies are also stored in `cache` and taken from it. The caller closes the cache.
        """
        self.path = folder / LOG_FILE
        self._own = CallDatabase(self.path, RECORD)
        self._cache = cache
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        #: id of this log, and when it was created
        self.identity = self._own.identity(LogIdentity(secrets.token_hex(16), now))
        self._parts = call_parts_at(folder)  # None if the run folder is on this machine
        if self._parts is not None:
            self._parts.identify(self.identity)

        self._keys = self._own.keys()
        self._lock = threading.Lock()  # guards the fields below
        self._openings: Counter[str] = Counter()  #: number of openings by episode
        #: cost of the answered calls by episode, as in `list_costs`
        self._paid: dict[str, float | None] = {}
        #: calls that are not on disk yet, in order; they stay here if a write fails
        self._waiting: list[_WaitingCall] = []
        self._queued: Future[None] | None = None  #: the next write, which has not begun yet
        self._is_awaited = threading.Event()  #: set if a thread waits for the queued write
        self._is_closed = False
        # An interrupt reaches only the main thread, so it can't end a write halfway.
        self._writer = ThreadPoolExecutor(1, "ktdeval-call-log")

    def resume(self, price: Price | None, model: str | None = None) -> ResumedCounts:
        """Read the state that earlier sessions left, in the form that a model's client needs.
        `price` is the price of `model`, PROVIDER/NAME (None: the run's only model). Raises
        StoreError if the log is unreadable.
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

        with self._lock:
            self._paid = paid

        total = structs.replace(spent, cost_usd=spent.cost_usd + unpriced)
        return ResumedCounts(total, was_answered, kept, unpriced)

    def new_opening(self, episode: str) -> int:
        """Count an opening of an episode and return its number. Earlier openings count only if they
        made a call.
        """
        with self._lock:
            self._openings[episode] += 1
            return self._openings[episode]

    def list_costs(self) -> dict[str, float | None]:
        """Return the cost in US dollars of the answered calls, by episode (and for `canary`,
        `check`). The cost is None if a price is unknown. Labels without an answered call are
        omitted.
        """
        with self._lock:
            return dict(self._paid)

    def episode_calls(self, episode: str) -> EpisodeCalls:
        """Write an episode's calls to disk and return the counts. Raises StoreError if a file can't
        be accessed.
        """
        self.flush()
        return tally_episode(self._own.records(episode))

    def take_over(self, episode: str, other: Path) -> list[CallRecord]:
        """Replace the calls of an episode, including replies, with the calls recorded for it by the
        log in another folder, and return the new calls. The episode must not be running. Raises
        StoreError.
        """
        self.flush()
        rows = read_episode(other / LOG_FILE, episode)
        self._own.replace_episode(episode, rows)
        with self._lock:
            self._openings[episode] = max((call.opening for call in rows.calls), default=0)
            self._keys.update(reply.key for reply in rows.replies)
            self._paid.pop(episode, None)
            for call in rows.calls:
                _add_paid(self._paid, call)

        return rows.calls

    def reply(self, key: str) -> Reply | None:
        """Return the undamaged reply stored under a key, from the cache or from this run's log;
        None if neither contains it. Raises StoreError if a file can't be accessed.
        """
        entry = None
        if self._cache is not None:
            entry = self._cache.entry(key)

        if entry is None and key in self._keys:
            entry = self._own.entry(key)
            if entry is not None and self._cache is not None:
                self._cache.put([entry])  # the earlier copy was interrupted

        if entry is None:
            return None
        return entry.reply

    def check_room(self) -> None:
        """Raise StoreError if the disk has too little room for the replies to calls under way, or
        if the run's store did not accept earlier data.

        To be called before each model call.
        """
        if self._parts is not None:
            self._parts.flush()

        disk = os.statvfs(self.path.parent)
        free_bytes = disk.f_bavail * disk.f_frsize
        is_known = disk.f_blocks > 0  # some network file systems report 0 for everything
        if is_known and free_bytes < _ROOM_MB * 1_000_000:
            raise StoreError(
                f"{self.path}: less than {_ROOM_MB} MB are free on its disk, too little to keep"
                " paid replies; free space and run the same command again to resume"
            )

    def record(
        self, call: CallRecord, entry: CacheEntry | None = None, durable: bool = True
    ) -> None:
        """Add one call to the log, together with its reply for the cache (`entry`).

        With `durable`, return only once both are on disk. Otherwise they are written soon, together
        with other calls; if that write fails, they are written with the next calls or, at the
        latest, by `close`. Raises StoreError if the disk failed or the log is closed, and
        ValueError if a number is NaN or infinite.
        """
        # Encoded in this thread, so that an error reaches only its caller and not the whole group.
        waiting = _WaitingCall(call.episode, call.to_row(), entry)
        with self._lock:
            if self._is_closed:
                raise self._closed_error()

            _add_paid(self._paid, call)
            self._waiting.append(waiting)
            written = self._next_write(durable)

        if durable:
            written.result()

    def settle(self, episode: str) -> None:
        """Return once all calls of an episode recorded so far are on disk, without waiting for the
        calls of other episodes. Raises StoreError if the disk failed.
        """
        with self._lock:
            is_settled = all(call.episode != episode for call in self._waiting)

        if not is_settled:
            self.flush()
        elif self._parts is not None:
            self._parts.flush()

    def flush(self) -> None:
        """Return once all calls recorded so far are on disk. Raises StoreError if the disk
        failed.
        """
        with self._lock:
            written = self._next_write(is_awaited=True)

        written.result()

    def close(self) -> None:
        """Write all calls, end the thread and close the file. Raises as `flush` does.

        It is safe to call `close` more than once.
        """
        with self._lock:
            was_closed = self._is_closed
            self._is_closed = True

        if was_closed:
            return

        try:
            self.flush()
        finally:
            self._writer.shutdown()
            self._own.close()

    def _next_write(self, is_awaited: bool) -> Future[None]:
        """Return the next write, which is shared by all calls that arrive before it begins. It
        begins immediately if a caller waits for it. The caller must hold the lock. Raises
        StoreError if the log is closed.
        """
        if self._queued is None:
            try:
                self._queued = self._writer.submit(self._write_waiting)
            except RuntimeError as error:  # the log is closed, or the process is ending
                raise self._closed_error() from error

        if is_awaited:
            self._is_awaited.set()

        return self._queued

    def _closed_error(self) -> StoreError:
        return StoreError(f"{self.path}: the record of calls is closed")

    def _write_waiting(self) -> None:
        """Write all waiting calls together. Runs on the writer thread.

        If the write fails, all calls wait for the next write, since their replies were paid for.
        """
        self._is_awaited.wait(_LATEST_S)
        with self._lock:
            self._is_awaited.clear()
            self._queued = None
            group = list(self._waiting)

        calls = [call.row for call in group]
        replies = [pack(call.entry) for call in group if call.entry is not None]
        if group:
            self._own.write(replies, calls)
            try:
                if self._parts is not None:
                    self._parts.add(replies, calls)
            finally:  # the parts keep whatever the store did not accept
                with self._lock:
                    del self._waiting[: len(group)]
                    self._keys.update(reply.key for reply in replies)

        if self._parts is not None:
            self._parts.flush()

        if self._cache is not None and replies:
            self._cache.write(replies, ())


def _add_paid(paid: dict[str, float | None], call: CallRecord) -> None:
    """Add the cost of an answered call to the total for its episode."""
    if not call.is_answered:
        return

    before = paid.get(call.episode, 0.0)
    is_known = before is not None and call.cost_usd is not None
    paid[call.episode] = (before or 0.0) + (call.cost_usd or 0.0) if is_known else None
