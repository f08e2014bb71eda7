"""Calls of a run whose folder is at a URL. Calls that are written together form a group. Before any
reply in a group is used, the group is uploaded as one file, together with its paid replies.

calls/log.json                identity of the call log
calls/000007.bin              the seventh group
calls/000001-000120.bin       the first 120 groups, compacted
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.calls.records.database import RECORD, CallDatabase, LogIdentity
from ktdeval.calls.records.record import CALL_COLUMNS, ReplyRow
from ktdeval.errors import StoreError
from ktdeval.stores.concurrent_requests import at_once
from ktdeval.stores.mirror import Mirror, mirror_at, mirrored_folder
from ktdeval.stores.store import MissingKey, Stat
from ktdeval.values.disk.temporary import temporary_folder
from ktdeval.values.documents.typed_json import Value, decode_json, encode_canonical
from ktdeval.values.hashes import content_hash

LOG_FILE = "calls.sqlite"  #: name of the call log in a run's folder

LOG_FOLDER = "calls"  #: folder of the call groups at the store
_IDENTITY = "log.json"
_NAME = re.compile(r"([0-9]{6,})(?:-([0-9]{6,}))?\.bin")
_MAGIC = b"ktdc1"
_HEAD_BYTES = len(_MAGIC) + 32
#: maximum total bytes of the groups that are compacted into one file
_PACK_BYTES = 32 * 1024 * 1024
#: maximum number of attempts to list the files without a gap; a file may be compacted during a
#: listing
_LISTINGS = 5

Cell = str | int | float | None


class Identity(Value):
    """Identity of a call log (`calls/log.json`)."""

    id: str
    begun_at: str


class PackedRow(msgspec.Struct, array_like=True, frozen=True):
    """A row of `CALL_COLUMNS`. The reply is stored separately, because msgspec distinguishes bytes
    from strings only by type.
    """

    values: tuple[Cell, ...]  #: all columns except the last
    reply: bytes | None

    @classmethod
    def of(cls, row: Sequence[Any]) -> PackedRow:
        """Return the packed form of a row."""
        *values, reply = row
        return cls(tuple(values), reply)

    @property
    def row(self) -> tuple[Any, ...]:
        """Return the row as stored in the call log."""
        return (*self.values, self.reply)


class CallGroup(msgspec.Struct, array_like=True, frozen=True):
    """Calls that were written together, with their packed replies."""

    replies: tuple[ReplyRow, ...]
    calls: tuple[PackedRow, ...]


@dataclass(frozen=True, slots=True)
class _CallFile:
    """A file that contains the groups from `first` to `last`, inclusive."""

    first: int
    last: int
    stat: Stat


class CallParts:
    """Calls of one run at its store, and the local log built from them."""

    def __init__(self, mirror: Mirror, prefix: str) -> None:
        """`prefix` is the key of the run folder with a trailing slash; it may be empty."""
        self._mirror = mirror
        self._folder = f"{prefix}{LOG_FOLDER}"
        self._record = f"{prefix}{LOG_FILE}"
        self._next: int | None = None  #: number of the next group
        self._pending: list[tuple[int, bytes]] = []  #: groups that are not at the store yet
        self._putting = threading.Lock()

    def restore(self) -> None:
        """Rebuild the local log from the store; if the store has no log, delete the local one.
        Raises StoreError if a file is missing or damaged.
        """
        self._next = None
        identity = self._identity()
        parts, _ = self._parts()
        path = self._mirror.path / self._record
        if identity is None:
            if parts:
                raise StoreError(f"{self._where}: {_IDENTITY} is missing; restore it")

            path.unlink(missing_ok=True)
            return

        keys = [[part.stat.key, str(part.stat.version)] for part in parts]
        version = content_hash([identity.id, keys])
        if self._mirror.has(self._record, version):
            return

        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".calls-", path.parent) as folder:
            built = folder / LOG_FILE
            with CallDatabase(built, RECORD) as database:
                database.identity(LogIdentity(identity.id, identity.begun_at))
                for group in self._read_groups(parts):
                    database.write(group.replies, [call.row for call in group.calls])

            self._mirror.replace_local(self._record, version, built)

    def restore_working(self) -> None:
        """Do the same as `restore`, but for the process that owns the run. A killed process on this
        machine may have recorded calls here without uploading them; they are uploaded now, since
        their replies were paid for. Raises as `restore` does.
        """
        path = self._mirror.path / self._record
        left = path.with_name(f"left-{LOG_FILE}")
        for name in ("", "-wal", "-shm"):
            file = path.with_name(f"{path.name}{name}")
            if file.exists():
                file.replace(left.with_name(f"{left.name}{name}"))

        self.restore()
        # A damaged file is skipped, and the run continues from the store's record.
        with contextlib.suppress(StoreError):
            if left.exists() and path.exists():
                self._put_left(left, path)

        for file in path.parent.glob(f"{left.name}*"):
            file.unlink()

    def _put_left(self, left: Path, path: Path) -> None:
        """Upload the calls in the log at `left` that follow those in the log at `path`, if the
        former begins with all calls of the latter.
        """
        with CallDatabase(left, RECORD) as before, CallDatabase(path, RECORD) as restored:
            nobody = LogIdentity("", "")
            if before.identity(nobody) != restored.identity(nobody):
                return

            had = before.rows()
            has = restored.rows()
            replies = before.replies(before.keys() - restored.keys())
            if had[: len(has)] != has or (len(had) == len(has) and not replies):
                return

            new = had[len(has) :]
            self.add(replies, new)
            restored.write(replies, new)

    def identify(self, identity: LogIdentity) -> None:
        """Record the log's identity at the store. Raises StoreError if the store has a different
        identity.
        """
        data = encode_canonical(Identity(id=identity.id, begun_at=identity.begun_at)).encode()
        self._mirror.put_new(f"{self._folder}/{_IDENTITY}", data, "the record of calls")
        # From here on, a group uploaded by another process is a conflict.
        with self._putting:
            self._next = self._next_number()

    def add(self, replies: Sequence[ReplyRow], calls: Sequence[tuple[Any, ...]]) -> None:
        """Upload a group of calls to the store. The calls are durable once this method returns. If
        it raises StoreError, the group stays here and is uploaded before the next group, or by
        `flush`.
        """
        data = _encoded_group(CallGroup(tuple(replies), tuple(map(PackedRow.of, calls))))
        with self._putting:
            if self._next is None:
                self._next = self._next_number()

            self._pending.append((self._next, data))
            self._next += 1

        self.flush()

    def flush(self) -> None:
        """Upload the groups that are not at the store yet. Raises StoreError."""
        with self._putting:
            while self._pending:
                number, data = self._pending[0]
                key = f"{self._folder}/{number:06}.bin"
                self._mirror.put_new(key, data, "the run's calls")
                del self._pending[0]

    def leftovers(self) -> list[str]:
        """Return the keys of files that a compacted file has replaced. Raises StoreError if a file
        is missing.
        """
        return self._parts()[1]

    def check(self) -> Iterator[str]:
        """Yield a line for each damaged file and for a gap between files."""
        try:
            parts, _ = self._parts()
        except StoreError as error:
            yield str(error)
            return

        for part in parts:
            try:
                _decode_group(self._mirror.store.read(part.stat.key), part.stat.key)
            except StoreError as error:
                yield str(error)

    def compact(self) -> int:
        """Merge small files and delete the files that a merged file replaces. Return how many files
        were removed. Only the process that owns the run may call this method. If the process is
        killed meanwhile, nothing is lost.
        """
        parts, leftovers = self._parts()
        before = len(parts) + len(leftovers)
        after = 0
        for batch in _batches(parts):
            after += 1
            if len(batch) == 1:
                continue

            replies: list[ReplyRow] = []
            calls: list[PackedRow] = []
            for group in self._read_groups(batch):
                replies += group.replies
                calls += group.calls

            key = f"{self._folder}/{batch[0].first:06}-{batch[-1].last:06}.bin"
            data = _encoded_group(CallGroup(tuple(replies), tuple(calls)))
            self._mirror.put_new(key, data, "the run's calls")
            leftovers += [part.stat.key for part in batch]

        at_once(self._mirror.store.delete, leftovers)
        return before - after

    @property
    def _where(self) -> str:
        return f"{self._mirror.url}/{self._folder}"

    def _identity(self) -> Identity | None:
        key = f"{self._folder}/{_IDENTITY}"
        try:
            data = self._mirror.store.read(key)
        except MissingKey:
            return None
        return decode_json(data, Identity, f"{self._where}/{_IDENTITY}: not readable")

    def _parts(self) -> tuple[list[_CallFile], list[str]]:
        """Return the files that together contain every group once, in order, and the keys of the
        files that these replace. Raises StoreError if a group is missing.
        """
        gap = 0
        for _ in range(_LISTINGS):
            every = _parts_from_stats(self._mirror.stats(self._folder).values())
            parts, leftovers, gap = _covering(every)
            if not gap:
                return parts, leftovers

        raise StoreError(
            f"{self._where}: group {gap:06} of the run's calls is missing, but later ones exist;"
            " restore it, or start again with another --out"
        )

    def _next_number(self) -> int:
        parts, _ = self._parts()
        return parts[-1].last + 1 if parts else 1

    def _read_groups(self, parts: Sequence[_CallFile]) -> Iterator[CallGroup]:
        """Yield groups in order. Only some are read ahead, since groups may be large."""
        ahead = 64
        for start in range(0, len(parts), ahead):
            batch = parts[start : start + ahead]
            keys = [part.stat.key for part in batch]
            for key, data in zip(keys, at_once(self._mirror.store.read, keys)):
                yield _decode_group(data, key)


def call_parts_at(folder: Path) -> CallParts | None:
    """Return the calls of a run folder that is at a store; None if the folder is on this machine."""
    home = mirrored_folder(folder)
    return None if home is None else CallParts(*home)


def call_record(folder: Path) -> Path:
    """Return the path of a run's call log. If the folder is a copy of a URL, fetch the log first.
    Raises StoreError.
    """
    mirror = mirror_at(folder)
    if mirror is not None and not mirror.is_working:
        parts = call_parts_at(folder)
        if parts is not None:
            parts.restore()

    return folder / LOG_FILE


def _parts_from_stats(stats: Iterable[Stat]) -> list[_CallFile]:
    parts = []
    for stat in stats:
        match = _NAME.fullmatch(stat.key.rpartition("/")[2])
        if match is not None:
            first = int(match[1])
            last = first if match[2] is None else int(match[2])
            parts.append(_CallFile(first, last, stat))

    return parts


def _covering(parts: Iterable[_CallFile]) -> tuple[list[_CallFile], list[str], int]:
    """Return the files that cover all groups from the first one on, the keys of redundant files,
    and the number of the first missing group that is followed by a later one (0 if there is no
    gap).
    """
    chosen: list[_CallFile] = []
    leftovers: list[str] = []
    end = 0
    for part in sorted(parts, key=lambda part: (part.first, -part.last)):
        if part.last <= end:
            leftovers.append(part.stat.key)
            continue
        if part.first != end + 1:
            return chosen, leftovers, end + 1

        chosen.append(part)
        end = part.last

    return chosen, leftovers, 0


def _batches(parts: Sequence[_CallFile]) -> Iterator[list[_CallFile]]:
    """Yield lists of adjacent files that are small enough to be merged into one file."""
    batch: list[_CallFile] = []
    size = 0
    for part in parts:
        if batch and size + part.stat.size > _PACK_BYTES:
            yield batch
            batch = []
            size = 0

        batch.append(part)
        size += part.stat.size

    if batch:
        yield batch


def _encoded_group(group: CallGroup) -> bytes:
    body = msgspec.msgpack.encode(group)
    return _MAGIC + sha256(body).digest() + body


def _decode_group(data: bytes, key: str) -> CallGroup:
    """Return the group stored in a file. Raises StoreError if the file is incomplete or is not one
    of ours.
    """
    body = data[_HEAD_BYTES:]
    if data[:_HEAD_BYTES] != _MAGIC + sha256(body).digest():
        raise StoreError(f"{key}: is damaged (its checksum does not match); restore it")

    try:
        group = msgspec.msgpack.decode(body, type=CallGroup)
    except msgspec.DecodeError as error:
        raise StoreError(f"{key}: not a group of calls: {error}") from error

    if any(len(call.row) != len(CALL_COLUMNS) for call in group.calls):
        raise StoreError(f"{key}: not a group of calls: a row has the wrong columns")

    return group
