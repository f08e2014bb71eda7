"""An append-only journal: a record is either wholly on disk or was never written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict, sync_folder

_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class Journal:
    """JSON lines, each durable (fdatasync) before `append` returns.

    A crash can leave one torn line at the end; opening the journal cuts it off, so the step that it belonged to is simply run
    again. A line that is broken anywhere else is corruption and raises.

    Attributes:
        recovered: the records that were already there when it was opened.
    """

    def __init__(self, path: Path, is_own: Callable[[int, JsonValue], bool] | None = None) -> None:
        """Open or create a journal for appending.

        Args:
            path: the file.
            is_own: tells of a place (from 0) and a record found there whether the one belongs at the other; default: any may.

        Raises:
            StoreError: it can't be opened, or holds a corrupt line; then it is left as it is.
        """
        self.path = path
        self.recovered: list[JsonValue] = []
        created = not path.exists()
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if created:
                sync_folder(path.parent)
            else:
                self.recovered, keep = _read_records(path, is_own)
                if keep < os.fstat(self._descriptor).st_size:
                    os.ftruncate(self._descriptor, keep)
                    _sync_data(self._descriptor)
            self._end = os.lseek(self._descriptor, 0, os.SEEK_END)
            self._count = len(self.recovered)
        except OSError as error:
            raise StoreError(f"{path}: can't open the journal: {error.strerror or error}") from error

    def append(self, record: JsonValue) -> None:
        """Write one record durably.

        Raises:
            StoreError: the disk is full or the file can't be written; everything appended before stays, and the same command
                resumes after it.
        """
        data = dumps_canonical(record).encode() + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            _sync_data(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
                os.lseek(self._descriptor, self._end, os.SEEK_SET)
            raise StoreError(
                f"{self.path}: can't write: {error.strerror or error}; all {self._count} finished records are kept: "
                "free space and run the same command again to resume"
            ) from error
        self._end += len(data)
        self._count += 1

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _read_records(path: Path, is_own: Callable[[int, JsonValue], bool] | None = None) -> tuple[list[JsonValue], int]:
    """All whole records and the number of bytes they take."""
    records: list[JsonValue] = []
    keep = 0
    for record, size in _records(path, is_own):
        records.append(record)
        keep += size
    return records, keep


def _records(path: Path, is_own: Callable[[int, JsonValue], bool] | None = None) -> Iterator[tuple[JsonValue, int]]:
    """Each whole record with the number of bytes it takes."""
    for number, line in _lines(path):
        corrupt = StoreError(f"{path}:{number}: the journal is corrupt here; delete the episode's folder to run it anew")
        try:
            record = loads_strict(line)
        except (ValueError, RecursionError) as error:
            raise corrupt from error
        if is_own is not None and not is_own(number - 1, record):
            raise corrupt
        yield record, len(line)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that end with a newline; a torn last line is left out."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.endswith(b"\n"):
                yield number, line


def read_journal(path: Path) -> Iterator[JsonValue]:
    """The whole records of a journal one by one, without opening it for writing: parsed and together they may not fit in memory."""
    return (record for record, _ in _records(path))
