"""Record of a run's calls: every attempt and every reply, durable before anyone sees it, and cheap with many threads."""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ktdeval.calls.database import RECORD, CallDatabase, LogIdentity, read_records
from ktdeval.calls.prices import Price
from ktdeval.calls.record import ANSWERED, CacheEntry, CallRecord, Spent, pack
from ktdeval.calls.tally import EpisodeCalls, tally_episode
from ktdeval.errors import StoreError
from ktdeval.harness.messages import Reply
from ktdeval.jsonio import Closing

LOG_FILE = "calls.sqlite"  #: Name of the record in a run's folder

CallPosition = tuple[
    str, str
]  #: Position of a call in the record: its episode (or `canary`, `check`) and the first digits of its key

_ROOM_MB = 16  #: Free space below which nothing is asked: a reply that finds none is paid, and lost
_LATEST_S = 0.5  #: Longest time for which something that nobody waits for stays in memory


def read_calls(folder: Path) -> Iterator[CallRecord]:
    """Yield the calls of a run in their order, without opening its record for writing. Raises StoreError where it is unreadable."""
    if (folder / LOG_FILE).exists():
        yield from read_records(folder / LOG_FILE)


@dataclass(frozen=True)
class Resumed:
    """Earlier sessions of a run."""

    spent: Spent  #: what they used. Replies that were paid when no price was known count at today's.
    was_answered: bool  #: whether the provider ever answered
    #: replies that no cache keeps, truncated ones among them: they were paid for, so a step that is run again has them
    kept: Mapping[CallPosition, Reply]


@dataclass(slots=True)
class _Group:
    """Calls that gathered while the disk was busy, and become durable together."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    entries: list[CacheEntry] = field(default_factory=list)
    is_awaited: bool = False
    is_done: threading.Event = field(default_factory=threading.Event)
    problem: str = ""


class CallLog(Closing):
    """Record of one run's calls and replies, held by the one process that holds the run folder. One thread writes what the threads
    of a run hand it. Everything that gathers while it writes goes to disk as one transaction: a call and its reply are one record,
    and a process that is killed leaves both or neither. Replies are then copied to the cache that runs share; a copy that was cut
    off is made when the resumed run asks again. The thread is a daemon: a durable call is on disk once `record` returns, whatever
    becomes of the interpreter.
    """

    def __init__(self, folder: Path, cache: CallDatabase | None = None) -> None:
        """Open or create a run's record. Replies are also kept in, and taken from, `cache`, which stays the caller's to close."""
        self.path = folder / LOG_FILE
        self._own, self._cache = CallDatabase(self.path, RECORD), cache
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.identity = self._own.identity(LogIdentity(secrets.token_hex(16), now))  #: which record this is, since when
        self._keys = self._own.keys()
        self._openings: Counter[str] = Counter()  #: of each episode, how often it was opened
        self._group, self._writing, self._left = _Group(), _Group(), _Group()
        self._writing.is_done.set()
        self._is_closing = self._is_closed = False
        self._has_work = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="ktdeval-call-log", daemon=True)
        self._thread.start()

    def resume(self, price: Price | None) -> Resumed:
        """Read what earlier sessions left. Raises StoreError: a record is not readable."""
        spent, unpriced, was_answered = Spent(), 0.0, False
        kept: dict[CallPosition, Reply] = {}
        for record in read_calls(self.path.parent):
            spent = spent.plus(record)
            self._openings[record.episode] = max(self._openings[record.episode], record.opening)
            if record.outcome != ANSWERED:
                continue
            was_answered = True
            if record.reply is not None:
                kept[record.episode, record.key] = record.reply
            if price is not None and record.cost_usd is None and record.usage is not None:
                unpriced += price.cost(record.usage)
        return Resumed(
            Spent(spent.cost_usd + unpriced, spent.possibly_usd, spent.input_tokens, spent.output_tokens), was_answered, kept
        )

    def new_opening(self, episode: str) -> int:
        """Return how often an episode has been opened now, earlier sessions included, if they asked anything."""
        with self._has_work:
            self._openings[episode] += 1
            return self._openings[episode]

    def episode_calls(self, episode: str) -> EpisodeCalls:
        """Return the counts of an episode's calls so far, which are on disk then. Raises StoreError where a file fails."""
        self.flush()
        return tally_episode(self._own.records(episode))

    def reply(self, key: str) -> Reply | None:
        """Return the sound reply kept under a key, by the cache or by this run. Raises StoreError where a file fails."""
        entry = None if self._cache is None else self._cache.entry(key)
        if entry is None and key in self._keys:
            entry = self._own.entry(key)
            if entry is not None and self._cache is not None:
                self._cache.put([entry])  # the copy that a kill cut off
        return None if entry is None else entry.reply

    def check_room(self) -> None:
        """Raise StoreError where the disk has too little room for the replies of calls under way. Ask before each call."""
        disk = os.statvfs(self.path.parent)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < _ROOM_MB * 1_000_000:  # some network file systems count nothing
            raise StoreError(
                f"{self.path}: less than {_ROOM_MB} MB are free on its disk, too little to keep replies that are paid; "
                "free space and run the same command again to go on"
            )

    def record(self, call: CallRecord, entry: CacheEntry | None = None, durable: bool = True) -> None:
        """Add one call, and its reply where that is to be kept; with `durable` return when both are on disk. Otherwise they
        are written within half a second, or, should that fail, with what comes next, at the latest by `close`. Raises StoreError
        where the disk failed or this is closed, ValueError for a number that is NaN or infinite.
        """
        row = call.to_row()  # here, so that something that can't be written harms nobody but its caller
        with self._has_work:
            if self._is_closing:
                raise StoreError(f"{self.path}: the record of calls is closed")
            group = self._group
            group.calls.append(row)
            if entry is not None:
                group.entries.append(entry)
            if (durable and not group.is_awaited) or len(group.calls) == 1:
                group.is_awaited |= durable
                self._has_work.notify()
        if durable:
            _wait_for(group)

    def flush(self) -> None:
        """Return when everything handed over so far is on disk. Raises StoreError where the disk failed."""
        with self._has_work:
            group = self._group if self._group.calls else self._writing
            group.is_awaited = True
            self._has_work.notify()
        _wait_for(group)

    def close(self) -> None:
        """Write everything, end the thread and release the file; safe to call again. Errors as of `flush`."""
        with self._has_work:
            self._is_closing = True
            self._has_work.notify()
        self._thread.join()
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._left.calls:
                self._commit(_Group())  # what the disk refused before
        finally:
            self._own.close()

    def _write_all(self) -> None:
        group: _Group | None = None
        try:
            while (group := self._next_group()) is not None:
                try:
                    self._commit(group)
                except StoreError as error:
                    group.problem = str(error)
                group.is_done.set()
        finally:  # also where a defect ends it: nobody may wait for ever, or believe that a call is on disk
            with self._has_work:
                self._is_closing = True
                for left in (group, self._group):
                    if left is not None and left.calls and not left.is_done.is_set():
                        left.problem = f"{self.path}: the thread that writes the record of calls has ended early"
                        left.is_done.set()

    def _next_group(self) -> _Group | None:
        with self._has_work:
            self._has_work.wait_for(lambda: self._group.calls or self._is_closing)
            self._has_work.wait_for(lambda: self._group.is_awaited or self._is_closing, _LATEST_S)
            group, self._group = self._group, _Group()
            if not group.calls:
                return None
            self._writing = group
            return group

    def _commit(self, group: _Group) -> None:
        """Write a group, after what the disk refused before; where it refuses again, all of it is kept, since it is paid."""
        self._left.calls += group.calls
        self._left.entries += group.entries
        replies = [pack(entry) for entry in self._left.entries]
        self._own.write(replies, self._left.calls)
        self._keys.update(entry.key for entry in self._left.entries)
        self._left = _Group()
        if self._cache is not None and replies:
            self._cache.write(replies, ())


def _wait_for(group: _Group) -> None:
    group.is_done.wait()
    if group.problem:
        raise StoreError(group.problem)  # for each thread an error of its own
