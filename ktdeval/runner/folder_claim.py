"""Claim of this process on a run folder, and whether a folder is one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ktdeval.calls.call_parts import LOG_FILE
from ktdeval.errors import StoreError, explained
from ktdeval.runner.run_files import MANIFEST
from ktdeval.values.formats import check_version, format_version, stated_version
from ktdeval.values.jsonio import read_plain
from ktdeval.values.temporary import try_lock
from ktdeval.values.typed import decode_json

FORMAT = "run folder"
MANIFEST_VERSION = format_version(FORMAT)
_LOCK = ".lock"


class NotARunError(StoreError):
    """A manifest.json does not describe a run."""


def check_head(data: bytes, path: Path) -> None:
    """Raise StoreError where a manifest is not that of a run, or of another version."""
    head = decode_json(data, dict[str, msgspec.Raw], f"{path}: not a readable manifest")
    if "episodes" not in head:
        raise NotARunError(
            f"{path}: is not the manifest of a run; name a folder that `ktdeval run` made, or a"
            " new one"
        )

    version = stated_version(head, str(path))
    check_version(FORMAT, version, path, "use the ktdeval that wrote it, or run it anew")


class FolderClaim:
    """Lock of this process on a run folder, which it makes where there is none. Until released no
    other process can run it.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises StoreError where the folder can't be made, is no run, or is another
        process's.
        """
        self.path = path
        self._lock: int | None = None
        with explained(f"{path}: can't make the run folder", "choose another --out"):
            path.mkdir(parents=True, exist_ok=True)
            check_vacant(path)

        self._lock_folder()

    def _lock_folder(self) -> None:
        """Take the lock, which ends with this process."""
        path = self.path
        with explained(f"{path}: can't lock the run folder", "choose another --out"):
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            is_ours = try_lock(self._lock)

        if not is_ours:
            self.release()
            raise StoreError(
                f"{path}: another process is running this; wait for it or choose another --out"
            )

    def release(self) -> None:
        """Let other processes run the folder; safe to call again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def check(self) -> None:
        """Raise FencedError where another process has taken the folder over, which only a claim at a
        store can lose.
        """


def check_vacant(path: Path) -> None:
    """Raise StoreError where a folder holds something else than a run, or the traces of a start.
    Raises OSError: not readable.
    """
    if (path / MANIFEST).exists():
        check_head(read_plain(path / MANIFEST), path / MANIFEST)
    elif path.exists() and any(not _is_trace_of_a_start(entry.name) for entry in path.iterdir()):
        raise StoreError(f"{path}: the folder is not empty and holds no run; choose another --out")


def _is_trace_of_a_start(name: str) -> bool:
    """Whether a run that was killed before it wrote its manifest can have left a file of this
    name.
    """
    return name == _LOCK or name.startswith((f".{MANIFEST}.", LOG_FILE, f".{LOG_FILE}."))
