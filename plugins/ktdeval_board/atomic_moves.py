"""Move files and folders into place atomically: either all of them or none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from ktdeval.errors import StoreError, UsageError, os_reason
from ktdeval.values import temporary_folder

_FOLDER_MODE = 0o755


class Placement:
    """Context manager that moves files and folders into place together or not at all: if the `with`
    block ends with an error, everything that was moved is removed again.
    """

    def __init__(self) -> None:
        self._moved: list[Path] = []
        self._created: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.undo()

    def put(self, source: Path, target: Path) -> None:
        """Move a file or folder into place, creating missing parent folders."""
        if target.exists() or target.is_symlink():
            raise StoreError(f"{target}: already exists; nothing was written")

        try:
            missing = [folder for folder in target.parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                self._created.append(folder)

            self._moved.append(target)
            shutil.move(source, target)
        except OSError as error:
            raise StoreError(
                f"{target}: can't write: {os_reason(error, 'nothing was written')}"
            ) from error

    def undo(self) -> None:
        """Remove everything that was moved and the parent folders created for it."""
        for path in reversed(self._moved):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

        for folder in reversed(self._created):
            with suppress(OSError):
                folder.rmdir()

        self._moved.clear()
        self._created.clear()


@contextmanager
def replacing(out: Path, marker: str = "") -> Iterator[Path]:
    """Yield a new folder that replaces `out` if the block ends without an error, and is removed
    otherwise.

    Raises UsageError if `out` exists and must not be replaced; raises StoreError if `out` can't be
    written.
    """
    _check_replaceable(out, marker)
    stack = ExitStack()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        above = stack.enter_context(temporary_folder(f".{out.name}.new-", out.parent))
        fresh = above / "content"
        # temporary folders are private, but other users must be able to read the result
        fresh.mkdir(mode=_FOLDER_MODE)
    except OSError as error:
        raise StoreError(
            f"{out}: can't write: {os_reason(error, 'choose another --out')}"
        ) from error

    with stack:
        yield fresh
        _swap(fresh, out)


def _check_replaceable(out: Path, marker: str) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"{out}: is not a folder; choose another --out")

    if out.is_dir() and any(out.iterdir()) and not (marker and (out / marker).is_file()):
        if marker:
            raise UsageError(
                f"{out}: was not built by this command ({marker} is missing); choose another --out"
            )

        raise UsageError(f"{out}: is not empty; choose a new folder with --out, or empty it")


def _swap(fresh: Path, out: Path) -> None:
    """Replace the old folder with the new one. If this fails, restore the old folder."""
    old = fresh.with_name("old")
    try:
        if out.exists():
            out.rename(old)

        try:
            fresh.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)

            raise
    except OSError as error:
        raise StoreError(
            f"{out}: can't be replaced: {os_reason(error, 'choose another --out')}"
        ) from error
