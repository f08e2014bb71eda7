"""Append-only files of lines that are durable, and readable even after a kill or a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ktdeval.errors import wrap_os_error
from ktdeval.values import read_plain, sync_folder

MAX_BYTES = 256 * 2**20
"""Size in bytes above which a test's file is refused without being read."""


def whole_lines(path: Path) -> list[bytes]:
    """Return the complete lines of a file; empty if the file does not exist.

    A trailing part without a line break is omitted, since a killed process has left it or a process
    is still writing it. Raises StoreError if the file can't be read.
    """
    with wrap_os_error(f"{path}: can't be read"):
        if not path.exists():
            return []
        data = read_plain(path, MAX_BYTES)

    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1]


def append_line(path: Path, line: str) -> None:
    """Append a line durably and atomically. Only one process at a time may write.

    Raises StoreError if the file can't be written.
    """
    is_new = not path.exists()
    with wrap_os_error(f"{path}: can't append a line", "free space on the disk"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _append(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

        if is_new:
            sync_folder(path.parent)


def _append(descriptor: int, line: bytes) -> None:
    end = _end_of_lines(descriptor)
    os.ftruncate(descriptor, end)
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _end_of_lines(descriptor: int) -> int:
    """Return the length of a file up to its last line break."""
    end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        end -= 1
    return end
