"""Folders that are there whole or not at all, whenever a process ends or the power fails. POSIX only."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ktdeval.errors import StoreError
from ktdeval.jsonio import sync_folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; it ends with the process too. Raises StoreError: another process holds it, or the folder can't be
    opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StoreError(f"{folder}: can't open the folder: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{folder}: another process writes this dataset; wait until it has ended") from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside `folder` to be filled; it becomes `folder` when the block ends well, and goes otherwise. What
    earlier processes left behind when they were killed is removed first. There may be an empty `folder`, and nothing else of that
    name. A block that removes the temporary folder wants nothing to become of it. Raises OSError: it can't be made, made durable or
    renamed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.new-"
    for path in folder.parent.iterdir():
        if path.name.startswith(prefix):
            with suppress(StoreError, OSError), locked(path):
                shutil.rmtree(path)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        with locked(temporary):
            # A folder inside, since the temporary one is readable by its owner only.
            inside = temporary / "dataset"
            inside.mkdir()
            yield inside
            if inside.exists():
                sync_files(inside, (path.relative_to(inside) for path in inside.rglob("*") if path.is_file()))
                inside.rename(folder)
                sync_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync_files(folder: Path, files: Iterable[Path | str]) -> None:
    """Make some files of a folder durable, with the folders between. Raises OSError: it can't be done."""
    paths = [folder / file for file in files]
    between = {parent for path in paths for parent in path.parents if parent == folder or folder in parent.parents}
    for path in [*sorted(paths), *sorted(between, reverse=True)]:
        sync_folder(path)
