"""Stores in a folder, either on a local disk or on a network file system that several nodes share.

Nothing here takes a lock, since not every network file system supports locks. A file is written
under a temporary name next to its key, made durable, and then linked or renamed to its key in one
step.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ktdeval.errors import StoreError, os_reason, wrap_os_error
from ktdeval.stores.store import (
    MissingKey,
    NoConditionalWrites,
    Stat,
    checked_key,
    checked_prefix,
    is_key,
)
from ktdeval.values.disk.files import open_plain, sync_folder

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalStore:
    """A store in a folder, which is created at the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.place = str(self.root)

    def __repr__(self) -> str:
        return f"LocalStore({self.place!r})"

    def local_path(self, key: str) -> Path:
        """Return the path of a key's file, whether it exists or not."""
        return self.root / checked_key(key)

    def read(self, key: str) -> bytes:
        """Return the bytes under a key. Raises MissingKey."""
        path = self.local_path(key)
        try:
            with open_plain(path, follow=False) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise MissingKey(f"{path}: there is no such file") from None
        except OSError as error:
            raise StoreError(f"{path}: can't read: {os_reason(error)}") from error

    def exists(self, key: str) -> bool:
        """Return whether a file exists under a key."""
        path = self.local_path(key)
        with wrap_os_error(f"{path}: can't be looked up"):
            return _plain_stat(path) is not None

    def create(self, key: str, data: bytes) -> bool:
        """Write a new file and return True. Returns False if the file exists.

        Raises NoConditionalWrites if the file system has no hard links.
        """
        if self.exists(key):  # avoids a needless write; the link below decides
            return False

        path = self.local_path(key)
        with self._write_temporary(path, data) as temporary:
            is_created = _link_into_place(temporary, path)

        if is_created:
            sync_folder(path.parent)

        return is_created

    def replace(self, key: str, data: bytes) -> None:
        """Write a file, whether it exists or not."""
        path = self.local_path(key)
        with self._write_temporary(path, data) as temporary:
            temporary.replace(path)
            sync_folder(path.parent)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Yield the files below a folder in key order, with only one folder in memory at a time."""
        folder = checked_prefix(prefix)
        return self._list(self.root / folder, f"{folder}/" if folder else "")

    def _list(self, folder: Path, prefix: str) -> Iterator[Stat]:
        try:
            entries = [entry for entry in os.scandir(folder) if is_key(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StoreError(f"{folder}: can't list: {os_reason(error)}") from error

        for entry in sorted(entries, key=_place_in_order):
            key = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from self._list(folder / entry.name, f"{key}/")
                continue

            found = _plain_stat(folder / entry.name)
            if found is not None:
                yield Stat(key, found.st_size, f"{found.st_mtime_ns:x}-{found.st_ino:x}")

    def delete(self, key: str) -> None:
        """Remove a file if it exists."""
        path = self.local_path(key)
        with (
            wrap_os_error(f"{path}: can't be removed"),
            suppress(FileNotFoundError, NotADirectoryError),
        ):
            path.unlink()

    @contextmanager
    def _write_temporary(self, path: Path, data: bytes) -> Iterator[Path]:
        """Yield a durable temporary file with `data` next to a path, to be linked or renamed to the
        path.

        Raises StoreError if the file can't be created, or if the block fails to link or rename it.
        """
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
        with wrap_os_error(f"{path}: can't write", "free space or choose another folder"):
            _make_folders(path.parent)
            try:
                _write_durably(temporary, data)
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)


def _place_in_order(entry: os.DirEntry[str]) -> str:
    """Return a sort key for a folder entry that puts files in the order of their full keys."""
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _plain_stat(path: Path) -> os.stat_result | None:
    """Return the status of a regular file; None if the file does not exist or is not regular."""
    try:
        found = path.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _make_folders(folder: Path) -> None:
    """Create a folder and its parents durably."""
    if folder.is_dir():
        return

    _make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()

    sync_folder(folder.parent)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _link_into_place(temporary: Path, path: Path) -> bool:
    """Link a temporary file to a path if nothing exists there, and return whether the link was
    made.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        if path.is_dir():
            raise StoreError(f"{path}: is a folder of other keys; choose another key") from None

        # A network file system may lose the response to a link request, resend the request, and
        # then report this error for its own link. The link count distinguishes the two cases.
        return temporary.stat().st_nlink > 1
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise NoConditionalWrites(
                f"{path.parent}: the file system has no hard links ({error.strerror}), so that"
                " processes can't claim work through it; use a folder on another file system"
            ) from error
        raise

    return True
