"""Versions of the files in a local copy, stored in one SQLite file that processes share."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktdeval.errors import StoreError
from ktdeval.values.disk.rollback import undone_on_error

_BUSY_S = 60.0  #: maximum seconds to wait for another process that is writing a file


class FileVersions:
    """File versions by key. This is a cache: if it is deleted, files are merely fetched again."""

    def __init__(self, path: Path) -> None:
        """Open the file, and create it if necessary. Raises StoreError."""
        self.path = path
        self._lock = threading.RLock()
        with self._wrap_errors():
            self._sql = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._sql.execute("PRAGMA synchronous=NORMAL")
            self._sql.execute(
                "CREATE TABLE IF NOT EXISTS files (key TEXT PRIMARY KEY, version TEXT NOT NULL)"
            )

    def get(self, key: str) -> str | None:
        """Return the version of a local file; None if no version is recorded."""
        with self._lock, self._wrap_errors():
            rows = self._sql.execute("SELECT version FROM files WHERE key = ?", (key,)).fetchall()
        return str(rows[0][0]) if rows else None

    def add(self, versions: Iterable[tuple[str, str]]) -> None:
        """Record the versions of several files."""
        with self._lock, self._wrap_errors():
            self._sql.execute("BEGIN IMMEDIATE")
            self._sql.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", list(versions))
            self._sql.execute("COMMIT")

    @contextlib.contextmanager
    def replacing(self, key: str, version: str) -> Iterator[None]:
        """Record a version while its file is written. No other process writes the file or its
        version at the same time, so the two stay consistent. If the block raises an exception, the
        version is not recorded.
        """
        with self._lock, self._wrap_errors():
            self._sql.execute("BEGIN IMMEDIATE")
            with undone_on_error(lambda _: self._sql.execute("ROLLBACK")):
                yield
                self._sql.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (key, version))

            self._sql.execute("COMMIT")

    @contextlib.contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: {error}; delete it, or set KTDEVAL_CACHE_DIR to another folder"
            ) from error
