"""Makes replies and the record of their calls durable, for many threads at the price of one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType

from ktdeval.calls.book import CallBook, CallRecord
from ktdeval.calls.cache import CacheEntry, Intent, ReplyCache
from ktdeval.errors import StoreError

_LATEST_S = 0.5
"""How long something that nobody waits for may lie in memory."""


@dataclass(slots=True)
class _Group:
    """What has gathered while the disk was busy, and becomes durable together."""

    calls: list[CallRecord] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    entries: list[tuple[CacheEntry, bytes]] = field(default_factory=list)
    is_awaited: bool = False
    is_partly_unawaited: bool = False
    is_done: threading.Event = field(default_factory=threading.Event)
    problem: str = ""


class Recorder:
    """One thread that writes to the reply cache and to the book what the threads of a run hand it.

    Everything that gathers while it writes goes to disk as one group: one transaction of the cache and one sync of the book.

    The two are one record. Replies are committed to the cache together with the intent to book their calls: what is to be
    written to the book, and where. Should the process be killed between the two, the next Recorder on the same cache and book
    writes down what is missing, so a reply that is found again is also booked as paid. Therefore make it before
    `CallBook.spent` is read.

    The thread is a daemon: what a caller was told to be durable is on disk, whatever becomes of the interpreter.
    """

    def __init__(self, cache: ReplyCache, book: CallBook) -> None:
        """Finish what a killed process began, and start the thread.

        Args:
            cache: where replies are kept. It stays the caller's to close, after this.
            book: the run's book; likewise.

        Raises:
            StoreError: one of them can't be read or written.
        """
        self._cache, self._book = cache, book
        self._name = str(book.path.resolve())
        intent = cache.intent(self._name)
        if intent is not None and book.is_new:
            cache.drop_intent(self._name)  # of a run that was in this place before, and was deleted
        elif intent is not None:
            book.recover(*intent)
        self._has_intent = intent is not None
        self._group, self._writing = _Group(), _Group()
        self._writing.is_done.set()
        self._calls: list[CallRecord] = []
        self._lines: list[bytes] = []
        self._late = ""
        self._is_closing = self._is_closed = False
        self._has_work = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="ktdeval-recorder", daemon=True)
        self._thread.start()

    def record(self, call: CallRecord, entry: CacheEntry | None = None, durable: bool = True) -> None:
        """Hand over one call, and its reply where that is to be kept.

        Args:
            call: for the book.
            entry: for the cache; None keeps no reply.
            durable: True returns when both are on disk. False returns at once: they are written with the next group, within
                half a second; should that fail, the next call of `record`, `flush` or `close` says so.

        Raises:
            StoreError: the disk failed, or this is closed.
            ValueError: a number in the record is NaN or infinite.
        """
        # Made into text here, so that something that can't be written harms nobody but its caller.
        line, text = call.to_line(), b"" if entry is None else entry.text()
        with self._has_work:
            if self._is_closing:
                raise StoreError(f"{self._book.path}: the record of calls is closed")
            self._check_late()
            group = self._group
            group.calls.append(call)
            group.lines.append(line)
            if entry is not None:
                group.entries.append((entry, text))
            group.is_partly_unawaited |= not durable
            if (durable and not group.is_awaited) or len(group.calls) == 1:
                group.is_awaited |= durable
                self._has_work.notify()
        if durable:
            _wait_for(group)

    def flush(self) -> None:
        """Return when everything handed over so far is on disk.

        Raises:
            StoreError: the disk failed, now or before at something that nobody waited for.
        """
        with self._has_work:
            group = self._group if self._group.calls else self._writing
            group.is_awaited = True
            self._has_work.notify()
        group.is_done.wait()
        with self._has_work:
            self._check_late()
        _wait_for(group)

    def close(self) -> None:
        """Write everything and end the thread; safe to call again. Cache and book stay open.

        Raises:
            StoreError: the disk failed, now or before at something that nobody waited for.
        """
        with self._has_work:
            self._is_closing = True
            self._has_work.notify()
        self._thread.join()
        if self._is_closed:
            return
        self._is_closed = True
        if self._calls:
            self._commit(_Group())  # what the disk refused before
        if self._has_intent:
            self._cache.drop_intent(self._name)
        self._check_late()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_late(self) -> None:
        problem, self._late = self._late, ""
        if problem:
            raise StoreError(problem)

    # --- the thread

    def _write_all(self) -> None:
        group: _Group | None = None
        try:
            while (group := self._next_group()) is not None:
                self._write(group)
        finally:  # also where a defect ends it: nobody may wait for ever, or take for written what is not
            with self._has_work:
                self._is_closing = True
                for left in (group, self._group):
                    if left is not None and left.calls and not left.is_done.is_set():
                        left.problem = f"{self._book.path}: the thread that writes the record of calls has ended early"
                        left.is_done.set()

    def _next_group(self) -> _Group | None:
        """Wait for work; None when there will be none."""
        with self._has_work:
            self._has_work.wait_for(lambda: self._group.calls or self._is_closing)
            self._has_work.wait_for(lambda: self._group.is_awaited or self._is_closing, _LATEST_S)
            group, self._group = self._group, _Group()
            if not group.calls:
                return None
            self._writing = group
            return group

    def _write(self, group: _Group) -> None:
        """Write one group, and tell those who wait for it how that went."""
        try:
            self._commit(group)
        except StoreError as error:
            group.problem = str(error)
            if group.is_partly_unawaited:
                with self._has_work:
                    self._late = self._late or group.problem
        group.is_done.set()

    def _commit(self, group: _Group) -> None:
        self._calls += group.calls
        self._lines += group.lines
        lines = b"".join(self._lines)
        try:
            if group.entries:
                self._has_intent = True
                self._cache.put_texts(group.entries, self._name, Intent(self._book.size, lines))
        finally:  # also where the cache fails: the money is spent
            self._book.append_lines(self._calls, lines)
            self._calls, self._lines = [], []  # where the book fails they stay, and come first in the next group


def _wait_for(group: _Group) -> None:
    group.is_done.wait()
    if group.problem:
        raise StoreError(group.problem)  # for each thread an error of its own
