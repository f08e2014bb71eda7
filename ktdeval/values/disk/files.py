"""Files and folders that are read with care and written as a whole: regular files from untrusted
sources, outputs that are checked in advance, and atomic and durable writes.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from ktdeval.errors import StoreError, os_reason, wrap_os_error
from ktdeval.values.disk.temporary import sweep, temporary_file, temporary_folder

BUFFER_BYTES = 1 << 18  # journal lines can exceed 15 kB


def open_plain(path: Path, follow: bool = True) -> io.BufferedReader:
    """Open a regular file for reading, for paths where an untrusted party may have put something.
    Symbolic links are followed only if `follow` is set. Raises OSError if the file can't be read,
    or if it is a pipe, a device or a socket, which could block a reader forever.
    """
    try:
        # O_NONBLOCK, since opening a pipe would wait for someone to write to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return io.BufferedReader(io.FileIO(descriptor), BUFFER_BYTES)

        os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "is a link, not a plain file", str(path)) from None
        if error.errno != errno.ENXIO:  # a socket
            raise

        mode = stat.S_IFSOCK

    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))

    raise OSError(errno.EINVAL, "is not a plain file but a pipe, a device or a socket", str(path))


def read_plain(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file. Raises as `open_plain` does, and raises OSError if the
    file has more than `most` bytes.
    """
    with open_plain(path) as stream:
        data = stream.read() if most is None else stream.read(most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", str(path))
    return data


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table that is shipped with the code, keyed by column name."""
    import csv  # noqa: PLC0415 - most commands do not read a table

    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def sync_folder(path: Path) -> None:
    """Make a file's contents durable or, for a folder, the renames and creations in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Closing:
    """Base class of objects that are closed at the end of a `with` block."""

    def close(self) -> None:
        """Release the resources held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_folder(path: Path, advice: str = "choose another") -> None:
    """Create a folder and its parents. Raises StoreError, ending in `advice`, if this fails."""
    with wrap_os_error(f"{path}: can't make the folder", advice):
        path.mkdir(parents=True, exist_ok=True)


def make_lasting_folder(path: Path) -> None:
    """Create a folder durably if it does not exist. Its parent must exist. Raises OSError."""
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        sync_folder(path.parent)


OutputKind = Literal["file", "folder", "new folder"]


def check_output(path: Path, kind: OutputKind, option: str, mark: str | None = None) -> None:
    """Check that an output can be written, before the work on it begins. Anything already there is
    left unchanged.

    If `kind` is a `new folder`, the path must be absent, empty, or contain a file named `mark`.
    Parent folders may be absent if they can be created. Raises StoreError if the path is of another
    kind or not writable.
    """
    advice = f"choose another {option}"
    with wrap_os_error(f"{path}: can't be written", advice):
        is_folder = path.is_dir()
        if kind == "file" and is_folder:
            raise StoreError(f"{path}: is a folder, not a file; {advice}")
        if kind != "file" and not is_folder and os.path.lexists(path):
            raise StoreError(f"{path}: is a file, not a folder; {advice}")

        is_marked = mark is not None and (path / mark).exists()
        if kind == "new folder" and is_folder and not is_marked and any(path.iterdir()):
            raise StoreError(f"{path}: holds something else; {advice}, or empty it")

        # Since a rename replaces a file, the parent folder must be writable.
        above = path if is_folder else path.parent
        while not os.path.lexists(above):
            above = above.parent

        if not above.is_dir():
            raise StoreError(f"{path}: {above} is a file, not a folder; {advice}")

        import tempfile  # noqa: PLC0415 - see `ktdeval.values.disk.temporary`: slow to import

        probe = tempfile.mkdtemp(prefix=".ktdeval-probe-", dir=above)
        Path(probe).rmdir()
        with suppress(FileNotFoundError):
            path.lstat()  # raises if the name is too long


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` (which is absent or empty) when the block
    succeeds, unless the block removes it. Leftovers from killed processes are removed first. Raises
    OSError if the folder can't be created, made durable or renamed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(_temporary_prefix(folder), folder.parent) as temporary:
        # A subfolder, since only its owner can read the temporary folder itself.
        inside = temporary / "content"
        inside.mkdir()
        yield inside

        if inside.exists():
            sync_files(
                inside, (path.relative_to(inside) for path in inside.rglob("*") if path.is_file())
            )
            inside.rename(folder)
            sync_folder(folder.parent)


def sweep_new_folder(folder: Path) -> None:
    """Remove files left behind by processes that were killed while creating a folder with
    `new_folder`.
    """
    sweep(folder.parent, _temporary_prefix(folder))


def _temporary_prefix(folder: Path) -> str:
    return f".{folder.name}.new-"


def sync_files(folder: Path, files: Iterable[Path | str]) -> None:
    """Make the given files in a folder durable, including the folders on the way to them. Raises
    OSError if this fails.
    """
    paths = [folder / file for file in files]
    between = {
        parent
        for path in paths
        for parent in path.parents
        if parent == folder or folder in parent.parents
    }
    for path in [*sorted(paths), *sorted(between, reverse=True)]:
        sync_folder(path)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file durably, so that after a crash it has either the old contents or the new. Raises
    StoreError if the file can't be written.
    """
    content = data.encode() if isinstance(data, str) else data
    try:
        if path.exists() and not path.is_file():  # /dev/null would be replaced
            raise OSError(errno.EEXIST, "there is something that is not a plain file", str(path))

        with temporary_file(path) as (temporary, descriptor):
            with os.fdopen(descriptor, "wb", closefd=False) as stream:
                stream.write(content)

            # Temporary files are private, but output should be readable by others.
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
            temporary.replace(path)

        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path}: can't write: {os_reason(error, 'free space or choose another folder')}"
        ) from error
