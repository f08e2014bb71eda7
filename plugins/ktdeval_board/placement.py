"""Files and folders that are put into their places together, or not at all."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from ktdeval.api import StoreError


class Placement:
    """Files and folders that are put into their places together, or not at all."""

    def __init__(self) -> None:
        self._put: list[Path] = []
        self._made: list[Path] = []

    def put(self, source: Path, target: Path) -> None:
        """Move a file or folder; folders above its new place are made.

        Raises:
            StoreError: something is there, or it can't be written.
        """
        if target.exists() or target.is_symlink():
            raise StoreError(f"{target}: is there already; nothing was written")
        try:
            missing = [folder for folder in target.parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                self._made.append(folder)
            self._put.append(target)
            shutil.move(source, target)
        except OSError as error:
            raise StoreError(f"{target}: can't write: {error.strerror or error}; nothing was written") from error

    def undo(self) -> None:
        """Take everything away again, and the folders that were made for it."""
        for path in reversed(self._put):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()
        self._put, self._made = [], []
