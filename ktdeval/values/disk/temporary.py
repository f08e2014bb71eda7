"""Temporary files and folders next to their targets.

The kernel releases the lock of a killed process, so that the next process can recognise and remove
leftovers. Files that a living process is writing are never touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until the process ends. Returns False if another process holds
    the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep(parent: Path, prefix: str) -> None:
    """Remove the temporary files and folders with a prefix, except those that a living process
    holds.
    """
    with suppress(OSError):
        left = [entry for entry in os.scandir(parent) if entry.name.startswith(prefix)]
        for entry in left:
            _remove_dead(Path(entry.path))


def _remove_dead(path: Path) -> None:
    import shutil  # noqa: PLC0415 - `ktdeval --help` needs none

    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        try:
            mode = os.fstat(descriptor).st_mode
            if not try_lock(descriptor):
                return

            if stat.S_ISDIR(mode):
                shutil.rmtree(path, ignore_errors=True)
            elif stat.S_ISREG(mode):
                path.unlink()
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder for this process that only its owner can read, and that is removed when the
    block ends. By default it is created in the system's temporary folder. Leftovers from killed
    processes with the same prefix are removed first. Raises OSError if the folder can't be created.
    """
    import shutil  # noqa: PLC0415 - `ktdeval --help` needs none
    import tempfile  # noqa: PLC0415 - as above

    above = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(above, prefix)
    path, descriptor = _locked_folder(above, prefix)

    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked_folder(above: Path, prefix: str) -> tuple[Path, int]:
    import tempfile  # noqa: PLC0415 - `ktdeval --help` needs none

    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=above))

        # Until the folder is locked, another process may take it for a leftover and remove it.
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
            if try_lock(descriptor) and _is_at(descriptor, path):
                return path, descriptor

            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file or folder is still the one at its path."""
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


@contextmanager
def temporary_file(target: Path) -> Iterator[tuple[Path, int]]:
    """Yield an empty file next to `target`, open for writing, to be renamed to `target`. If it is
    not renamed, it is removed. Its name is always the same, so that leftovers from a killed process
    are overwritten. Raises OSError if the file can't be created.
    """
    path, descriptor = _locked_file(target)
    try:
        yield path, descriptor
    finally:
        if _is_at(descriptor, path):
            path.unlink()

        os.close(descriptor)


def _locked_file(target: Path) -> tuple[Path, int]:
    import tempfile  # noqa: PLC0415 - `ktdeval --help` needs none

    path = target.with_name(f".{target.name}.new")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        is_ours = stat.S_ISREG(os.fstat(descriptor).st_mode) and try_lock(descriptor)
        if is_ours and _is_at(descriptor, path):
            os.ftruncate(descriptor, 0)
            return path, descriptor

        os.close(descriptor)
        if not is_ours:  # a living process is writing the same file
            own, name = tempfile.mkstemp(prefix=f".{target.name}.new-", dir=target.parent)
            return Path(name), own


@contextmanager
def filling(folder: Path, last: str = "") -> Iterator[Path]:
    """Yield a temporary folder whose files move into `folder` when the block succeeds: all at once
    if `folder` is absent or empty, otherwise one by one. The file `last` is deleted beforehand and
    written after all others, so that its existence means that the folder is complete. Raises
    OSError if the files can't be written.
    """
    is_there = folder.is_dir() and any(folder.iterdir())
    if is_there:
        parent = folder
        prefix = ".new-"
    else:
        parent = folder.parent
        prefix = f".{folder.name}.new-"

    parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(prefix, parent) as temporary:
        content = temporary / "content"
        content.mkdir()
        yield content

        if is_there:
            _move_files(content, folder, last)
        else:
            content.rename(folder)


def _move_files(content: Path, folder: Path, last: str) -> None:
    if last:
        (folder / last).unlink(missing_ok=True)

    for path in sorted(content.iterdir(), key=lambda path: (path.name == last, path.name)):
        target = folder / path.name
        if target.exists() and not target.is_file():
            raise OSError(errno.EEXIST, "there is something that is not a plain file", str(target))

        path.replace(target)
