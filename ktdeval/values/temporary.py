"""Temporary files and folders next to what they become. The kernel releases the lock of a process
that is killed, so that the next one knows what it left behind, and removes that; what a living
process writes is never touched.
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
    """Take the lock of an open file or folder, which ends with the process; False if another
    process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep(parent: Path, prefix: str) -> None:
    """Remove the temporary files and folders of a prefix that no living process holds."""
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
    """Give a folder of this process, readable by its owner only, which is removed when the block
    ends; by default where the system keeps temporary files. What killed processes left of this
    prefix is removed first. Raises OSError if it can't be made.
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

        # Until it is locked, another process may take it for left behind, and remove it.
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
    """Give an empty file next to `target`, open for writing, to be renamed to it; where it is not,
    it is removed. Its name is the same each time, so that what a killed process left is written
    over. Raises OSError if it can't be made.
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
        if not is_ours:  # a living process writes the same file
            own, name = tempfile.mkstemp(prefix=f".{target.name}.new-", dir=target.parent)
            return Path(name), own


@contextmanager
def filling(folder: Path, last: str = "") -> Iterator[Path]:
    """Give a temporary folder whose files come into `folder` when the block ends well: all at once
    where that is absent or empty, else one by one. The file `last` is taken away before, and comes
    after all others: where it is, the folder is whole. Raises OSError if they can't be written.
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
