"""The money book of a run: one line for each attempt made of a model call and for each reply taken from the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ktdeval.errors import StoreError
from ktdeval.harness.messages import USAGE_FIELDS, Usage
from ktdeval.harness.text import encodable
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict, sync_folder

ANSWERED = "answered"
CACHED = "cached"
REFUSED = "refused"
"""Outcomes of a call beside the kinds of `ModelError`: it was answered, taken from the cache, or ended in a `ProviderError`."""

NO_EPISODE = ("canary", "check")
"""In the place of an episode: calls that a run makes for itself: its fixed questions, and the check how a model takes tools."""
KEY_DIGITS = 16
"""Digits of a request's key that the book has: enough to tell the calls of a run apart."""

_RESUME = "free space or mend access, and run the same command again to resume"
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One attempt of a model call, or one reply taken from the cache.

    Attributes:
        at: when it ended, ISO 8601 in UTC, such as `2026-01-31T23:59:59.123Z`.
        episode: id of the episode that asked; `canary` or `check` where none did.
        key: the first 16 hexadecimal digits of the request's key.
        outcome: `ANSWERED`, `CACHED`, `REFUSED`, or the kind of the `ModelError` that it ended in.
        attempt: number of the attempt at this call, from 1.
        latency_s: seconds from sending the request to the end of the reply; for a cached reply, of finding it.
        usage: tokens of the reply; None where there is none.
        cost_usd: what the reply cost in US dollars; None where no price is known or there is no reply.
        held_usd: US dollars that may have been billed for an attempt without a reply: what was reserved for it.
        served_by: what the provider says it answered with.
        reply: a reply that no cache keeps (`Reply.to_json`), so that a resumed run need not pay for it again; else None.
    """

    at: str
    episode: str
    key: str
    outcome: str
    attempt: int
    latency_s: float
    usage: Usage | None = None
    cost_usd: float | None = None
    held_usd: float = 0.0
    served_by: str = ""
    reply: Mapping[str, JsonValue] | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """All fields by name."""
        values = {name: getattr(self, name) for name in _TYPES}
        return values | {"usage": None if self.usage is None else self.usage.to_json(), "served_by": encodable(self.served_by)}

    def to_line(self) -> bytes:
        """The record as a line of the book.

        Raises:
            ValueError: a number in it is NaN or infinite.
        """
        return dumps_canonical(self.to_json()).encode() + b"\n"


_NUMBER = (int, float)
_USAGE_TYPES: Mapping[str, tuple[type, ...]] = dict.fromkeys(USAGE_FIELDS, (int,))
_TYPES: Mapping[str, tuple[type, ...]] = {
    "at": (str,),
    "episode": (str,),
    "key": (str,),
    "outcome": (str,),
    "attempt": (int,),
    "latency_s": _NUMBER,
    "usage": (dict, type(None)),
    "cost_usd": (*_NUMBER, type(None)),
    "held_usd": _NUMBER,
    "served_by": (str,),
    "reply": (dict, type(None)),
}
"""Fields of `CallRecord` in its order, with the types that JSON may give them."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the calls of a run have used so far, those before a resume included. Cached replies count nothing.

    Attributes:
        cost_usd: US dollars of the replies; those without a known price count nothing.
        possibly_usd: further US dollars that may have been billed for attempts without a reply.
        input_tokens: tokens of the prompts that were answered.
        output_tokens: tokens of the replies.
    """

    cost_usd: float = 0.0
    possibly_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, record: CallRecord) -> Spent:
        """These totals and one more call."""
        if record.outcome == CACHED:
            return self
        usage = record.usage or Usage()
        return Spent(
            self.cost_usd + (record.cost_usd or 0.0),
            self.possibly_usd + record.held_usd,
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
        )


class CallBook:
    """`calls.jsonl` of one run, open for appending by the one process that holds the run folder. Not thread-safe.

    A crash can leave one torn line at the end; opening the book cuts it off. A line that is broken anywhere else is corruption
    and raises, since a sum of money over the rest would be wrong.

    Attributes:
        path: the file.
        is_new: whether there was none before.
    """

    def __init__(self, path: Path) -> None:
        """Open or create a book and add up what it holds.

        Raises:
            StoreError: it can't be opened, or holds a line that is no record; then it is left as it is.
        """
        self.path = path
        self._spent = Spent()
        self._count = self._end = 0
        try:
            self.is_new = not path.exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if self.is_new:
                sync_folder(path.parent)
            for record, size in _records(path):
                self._take(record, size)
            self._cut()
        except OSError as error:
            raise _cannot("open", path, error) from error

    @property
    def spent(self) -> Spent:
        """Totals over everything in the book."""
        return self._spent

    @property
    def size(self) -> int:
        """Bytes of the book: where the next record will begin."""
        return self._end

    def append_many(self, records: Sequence[CallRecord]) -> None:
        """Write records durably, with one sync of the disk for all.

        Raises:
            StoreError: the disk is full or the file can't be written; then none of them is in the book.
        """
        self.append_lines(records, b"".join(record.to_line() for record in records))

    def append_lines(self, records: Sequence[CallRecord], lines: bytes) -> None:
        """As `append_many`, for records whose lines have been made already."""
        try:
            self._cut()  # what an append that failed may have left
            written = 0
            while written < len(lines):
                written += os.pwrite(self._descriptor, lines[written:], self._end + written)
            _sync_data(self._descriptor)
        except OSError as error:
            raise _cannot("write", self.path, error, f"; its {self._count} records are kept: {_RESUME}") from error
        for record in records:
            self._take(record, 0)
        self._end += len(lines)

    def recover(self, offset: int, lines: bytes) -> int:
        """Write records that a killed process left elsewhere and may have written to the book only in part.

        Args:
            offset: size of the book before them.
            lines: the records, as `CallRecord.to_line` gives them.

        Returns:
            How many of them were missing; 0 also where the book holds something else in their place.

        Raises:
            StoreError: they are no records, or the book can't be read or written.
        """
        if not offset <= self._end < offset + len(lines):
            return 0
        try:
            tail = os.pread(self._descriptor, self._end - offset, offset)
        except OSError as error:
            raise _cannot("read", self.path, error) from error
        if not lines.startswith(tail):
            return 0
        try:
            missing = [_record_from_line(line) for line in lines[len(tail) :].splitlines()]
        except ValueError as error:
            raise StoreError(f"{self.path}: what a killed process left for it is no record of a call: {error}") from error
        self.append_many(missing)
        return len(missing)

    def close(self) -> None:
        """Release the file; safe to call again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> CallBook:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _take(self, record: CallRecord, size: int) -> None:
        self._spent = self._spent.plus(record)
        self._count += 1
        self._end += size

    def _cut(self) -> None:
        """Drop what lies behind the last whole record."""
        if os.fstat(self._descriptor).st_size > self._end:
            os.ftruncate(self._descriptor, self._end)
            _sync_data(self._descriptor)


def read_calls(path: Path) -> Iterator[CallRecord]:
    """The records of a book one by one, without opening it for writing; none where there is no such file.

    A torn last line, as a crash or a process that is still running leaves it, is left out.

    Raises:
        StoreError: it can't be read, or holds a line that is no record.
    """
    try:
        for record, _ in _records(path):
            yield record
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot("read", path, error) from error


def _records(path: Path) -> Iterator[tuple[CallRecord, int]]:
    """Each whole record with the number of bytes that it takes."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield _record_from_line(line), len(line)
            except ValueError as error:
                mend = "restore the file, or delete the line: its call then counts in no sum of costs"
                raise StoreError(f"{path}:{number}: not the record of a call: {error}; {mend}") from error


def _record_from_line(line: bytes) -> CallRecord:
    """The record that `CallRecord.to_line` wrote.

    Raises:
        ValueError: it is not one; says why.
    """
    try:
        value = loads_strict(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    _check_types(value, _TYPES)
    if value["usage"] is not None:
        _check_types(value["usage"], _USAGE_TYPES)
        value["usage"] = Usage(**value["usage"])
    return CallRecord(**value)


def _check_types(value: Any, types: Mapping[str, tuple[type, ...]]) -> None:
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - every way of being no record is one error to the caller
    if value.keys() != types.keys():
        raise ValueError(f"its fields are not {', '.join(types)}")
    for name, kinds in types.items():
        if type(value[name]) not in kinds:
            raise ValueError(f"{name} is {value[name]!r:.40}")


def _cannot(do: str, path: Path, error: OSError, more: str = f"; {_RESUME}") -> StoreError:
    return StoreError(f"{path}: can't {do} the record of calls: {error.strerror or error}{more}")
