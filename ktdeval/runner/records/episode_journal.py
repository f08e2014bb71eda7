"""Append-only journal of an episode, and compressed JSON lines: a record is either entirely on disk
or was never written.

A journal is normally synced after each line, so that no paid step is lost. If replaying steps costs
nothing and gives the same bytes, the journal is synced after groups of lines instead. A power
failure can then leave holes in unsynced lines. In such a journal, a broken line is removed along
with everything after it. In any other journal, a broken line is treated as corruption.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast, get_args

import msgspec
import zstandard
from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.episode_parts import Maker, StepMaker
from ktdeval.errors import StoreError, os_advice, os_reason, wrap_os_error
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.records.transcript_counts import Said, count_said, read_exchanges
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.trading.ledger import StepRecord
from ktdeval.values.disk.decompression_limits import max_bytes
from ktdeval.values.disk.files import Closing, open_plain, read_plain, sync_folder
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value, decode_json, encode_canonical

T = TypeVar("T")
R = TypeVar("R")

_MAX_TIMES = 2000
"""Maximum size of an unpacked file as a multiple of its packed size. The limit is high because a
day's prompts mostly repeat the previous day's prompts.
"""

STEPS_A_GROUP = 32
"""Maximum number of steps that a power failure can remove from a journal that is synced in
groups.
"""

_BYTES_A_GROUP = 1 << 20  # long prompts or slow steps end a group early, at this size

_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS lacks fdatasync


class JournalEntry(Value, Generic[R]):
    """One finished step as written in the journal."""

    step: R  #: record of the step
    transcript: TranscriptEntry  #: conversation of the step
    memory: JsonValue  #: the agent's memory for the next step
    shown: tuple[str, ...] = ()  #: handles that the mask had shown by the end of the step
    wall_s: float = 0.0  #: duration in seconds
    made_by: Maker | None = None  #: code that ran the step; None in records without this field
    #: number of preceding lines that were on disk when it was written; an earlier version wrote
    #: this where lines were synced by groups
    synced: int | UnsetType = UNSET


class _FinishedEntry(msgspec.Struct, Generic[R], frozen=True):
    """Part of a journalled step that remains after its episode ends. The conversation is kept as
    written, without decoding.
    """

    step: R  #: record of the step
    transcript: msgspec.Raw  #: canonical JSON of a `TranscriptEntry`
    wall_s: float = 0.0  #: duration in seconds
    made_by: Maker | None = None  #: code that ran the step


Record = StepRecord | AnswerRecord
Entry = JournalEntry[Any]


class JournalKeeper(Protocol):
    """Stores copies of journal entries outside this machine's disk."""

    def append(self, number: int, line: bytes) -> None:
        """Store an entry, numbered from 1. Once this returns, the entry can't be lost. Raises
        StoreError.
        """


class _NoKeeper:
    """Keeper of a journal that exists only on this machine."""

    def append(self, number: int, line: bytes) -> None:
        """Do nothing."""


class Journal(Closing, Generic[T]):
    """JSON lines of one type, each durable (fdatasync) before `append` returns.

    `max_unsynced` above 1 is meant for steps that can be replayed: lines are then synced in groups
    of at most this many. `is_own` returns whether an entry can belong at its index. If a `keeper`
    is given, it also stores each entry before `append` returns.

    A crash can leave one torn line at the end of the file. Opening the journal cuts this line off,
    so that its step runs again. If a line anywhere else is broken, StoreError is raised and the
    file is not changed. With `max_unsynced` above 1, however, a line with a hole is cut off along
    with all lines after it.
    """

    def __init__(
        self,
        path: Path,
        type_: type[T],
        is_own: Callable[[int, T], bool] | None = None,
        keeper: JournalKeeper | None = None,
        max_unsynced: int = 1,
    ) -> None:
        self.path = path
        self._keeper = _NoKeeper() if keeper is None else keeper
        self._max_unsynced = max_unsynced
        self.recovered: list[T] = []
        # sync the folder too: the process that created the file may have been killed before it did
        self._is_in_folder = False

        with wrap_os_error(f"{path}: can't open the journal"):
            is_new = not path.exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if not is_new:
                self._recover(type_, is_own)

            self._end = os.lseek(self._descriptor, 0, os.SEEK_END)
            self._count = len(self.recovered)
            self._synced_end = self._end
            self._synced = self._count
            if self.recovered:  # a killed process may have left unsynced lines
                self._sync()

    def _recover(self, type_: type[T], is_own: Callable[[int, T], bool] | None) -> None:
        keep = 0
        may_have_holes = self._max_unsynced > 1
        for entry, size in _whole_entries(self.path, type_, may_have_holes):
            number = len(self.recovered) + 1
            if is_own is not None and not is_own(number - 1, entry):
                raise StoreError(_corrupt(self.path, number))

            self.recovered.append(entry)
            keep += size

        if keep < os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, keep)
            _sync_data(self._descriptor)

    def append(self, entry: T) -> None:
        """Write one entry, as durably as the class docstring describes.

        If the entry can't be written, raises StoreError. Synced entries stay on disk, and running
        the same command again resumes the episode.
        """
        data = encode_canonical(entry).encode() + b"\n"
        try:
            done = 0
            while done < len(data):
                done += os.write(self._descriptor, data[done:])

            self._end += len(data)
            self._count += 1
            if self._is_due(entry):
                self._sync()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._synced_end)
                os.lseek(self._descriptor, self._synced_end, os.SEEK_SET)

            self._end = self._synced_end
            self._count = self._synced
            advice = os_advice(error, "free space")
            raise StoreError(
                f"{self.path}: can't write: {error.strerror or error}; all {self._count} finished"
                f" records are kept: {advice} and run the same command again to resume"
            ) from error

        self._keeper.append(self._count, data)

    def _is_due(self, entry: T) -> bool:
        """Return whether the journal must be synced after this entry."""
        return (
            self._count - self._synced >= self._max_unsynced
            or self._end - self._synced_end >= _BYTES_A_GROUP
            or _reached_outside(entry)
        )

    def _sync(self) -> None:
        _sync_data(self._descriptor)
        if not self._is_in_folder:
            sync_folder(self.path.parent)
            self._is_in_folder = True

        self._synced_end = self._end
        self._synced = self._count

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _reached_outside(entry: object) -> bool:
    """Return whether an external service or agent took part in a step, in which case a replay may
    give a different result.
    """
    if not isinstance(entry, JournalEntry):
        return False
    return entry.transcript.external is not UNSET or entry.transcript.embedded is not UNSET


def read_journal(path: Path, type_: type[T]) -> Iterator[T]:
    """Yield complete entries one at a time, since they may not all fit in memory. Raises StoreError
    if an entry is unreadable or corrupt.
    """
    for entry, _ in _whole_entries(path, type_):
        yield entry


@dataclass(frozen=True, slots=True)
class CompactedJournal:
    """Parts of a complete journal that remain after its episode ends."""

    records: list[Any]
    seconds: list[float]  #: duration of each step
    said: Said  #: counts of the transcript
    made_by: tuple[StepMaker, ...]  #: code that ran its steps, in order of first use
    #: packed transcript, in which each conversation has the same bytes as in the journal
    transcript: bytes


def compact_journal(path: Path, type_: type[Entry]) -> CompactedJournal:
    """Return the parts of a journal that remain after its episode ends.

    Lines are not validated again, so this process must have written them, or read them when it
    opened the journal. Raises StoreError if a line is corrupt.
    """
    records = []
    seconds = []
    transcript = []
    steps: Counter[Maker] = Counter()
    finished = cast(
        "type[_FinishedEntry[Any]]",
        _FinishedEntry[get_args(type_)[0]],  # type: ignore[misc]
    )

    for number, line in _read_whole_lines(path):
        entry = _decode_line(path, number, line, finished)
        records.append(entry.step)
        seconds.append(entry.wall_s)
        transcript.append(bytes(entry.transcript))  # the rest of the line can be freed
        if entry.made_by is not None:
            steps[entry.made_by] += 1

    entries = (decode_json(line, TranscriptEntry, f"{path}: transcript") for line in transcript)
    counts = count_said(entries)
    packed = _pack_lines(transcript)
    made_by = []
    for maker, count in steps.items():
        own = StepMaker(ktdeval=maker.ktdeval, code=maker.code, python=maker.python, steps=count)
        made_by.append(own)

    return CompactedJournal(records, seconds, counts, tuple(made_by), packed)


class _Kind(msgspec.Struct):
    step: dict[str, msgspec.Raw]


def entry_type(path: Path) -> type[Entry]:
    """Return the type of a journal's entries, as determined from its first line: only records of
    samples have a `sample` field.
    """
    for number, line in _read_whole_lines(path):
        kind = _decode_line(path, number, line, _Kind)
        return JournalEntry[AnswerRecord] if "sample" in kind.step else JournalEntry[StepRecord]
    return JournalEntry[StepRecord]


def _read_whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that end with a newline, with their numbers; a torn last line is skipped."""
    with wrap_os_error(f"{path}: can't read"), open_plain(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.endswith(b"\n"):
                yield number, line


def _whole_entries(
    path: Path, type_: type[T], may_have_holes: bool = False
) -> Iterator[tuple[T, int]]:
    """Yield each complete entry with the size of its line in bytes. If `may_have_holes`, stop at
    the first hole. Raises StoreError if a line is broken.
    """
    for number, line in _read_whole_lines(path):
        if may_have_holes and b"\0" in line:  # a hole has NUL bytes, which JSON lacks
            return
        yield _decode_line(path, number, line, type_), len(line)


def _corrupt(path: Path, number: int) -> str:
    return (
        f"{path}:{number}: the journal is corrupt here; delete the episode's folder to run it again"
    )


def _decode_line(path: Path, number: int, line: bytes, type_: type[T]) -> T:
    where = _corrupt(path, number)
    entry = decode_json(line, type_, where)
    if isinstance(entry, JournalEntry):
        read_exchanges(entry.transcript, where)

    return entry


def pack_lines(values: Iterable[Any]) -> bytes:
    """Return values as compressed JSON lines. Equal values give equal bytes."""
    return _pack_lines([encode_canonical(value).encode() for value in values])


def _pack_lines(lines: Iterable[bytes]) -> bytes:
    return zstandard.ZstdCompressor(level=9, write_checksum=True).compress(
        b"".join(line + b"\n" for line in lines)
    )


def unpack_lines(path: Path, type_: type[T], content: str) -> list[T]:
    """Read values written by `pack_lines`. Raises StoreError, with the line number, if the file or
    a line is invalid.
    """
    where = f"{path}: not a readable {content}"
    try:
        packed = read_plain(path)
        if (
            not 0 <= zstandard.frame_content_size(packed) <= max_bytes(len(packed), _MAX_TIMES)
        ):  # decompression allocates this much memory at once
            raise StoreError(f"{where}: its header has no size, or an impossible one")

        lines = zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False).splitlines()
    except (OSError, zstandard.ZstdError) as error:
        raise StoreError(f"{where}: {os_reason(error)}") from error

    values = []
    for number, line in enumerate(lines, 1):
        values.append(decode_json(line, type_, f"{path}: line {number}: no entry of a {content}"))
        # a repeated field or extra whitespace could hide contents
        if encode_canonical(values[-1]).encode() != line:
            raise StoreError(f"{path}: line {number}: is not in the canonical form of a {content}")

    return values
