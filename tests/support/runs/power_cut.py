"""A disk that loses power: what a cut at any call of the system leaves of the files in a folder.

Nothing is stopped. While a block runs, each sync is noted with what it made durable, and before
chosen calls the folder is copied as a cut at this moment could have left it: what was synced, and
of each later change to a file a random part in blocks of 512 bytes (a hole is zeros), of each later
change to a folder a random part of its names.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ktdeval.runner.records.episode_journal

BLOCK = 512  # bytes that a disk writes whole or not at all
CALLS = (
    "open",
    "write",
    "fsync",
    "fdatasync",
    "replace",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "ftruncate",
    "link",
)
"""Calls of the system at which the power can fail."""

_SYNCS = ("fsync", "fdatasync")


class Disk:
    """The disk below a folder, all of which is durable at first. `held`: one descriptor for each
    file, so that no number of an inode is given again.
    """

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._chance = chance
        self._descriptors: dict[int, int] = {}
        self._contents: dict[int, bytes] = {}
        self._listings: dict[int, dict[str, int]] = {}
        self._root = self._hold(root)
        self.calls = 0  #: of the system so far
        self._take_all(self._root)

    def close(self) -> None:
        """Release all files."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    @contextmanager
    def watched(
        self, cuts: Collection[int] = (), taken: Callable[[], Path] | None = None
    ) -> Iterator[None]:
        """Note what is synced; before each call of the numbers `cuts`, write what a cut leaves to
        the folder that `taken` returns.
        """
        with ExitStack() as stack:
            for name in CALLS:
                watched = self._watched(name, getattr(os, name), cuts, taken)
                stack.enter_context(patch.object(os, name, watched))

            # bound when it was imported
            sync = os.fdatasync
            stack.enter_context(
                patch.object(ktdeval.runner.records.episode_journal, "_sync_data", sync)
            )
            yield

    def _watched(
        self,
        name: str,
        call: Callable[..., Any],
        cuts: Collection[int],
        taken: Callable[[], Path] | None,
    ) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            if self._is_busy:
                return call(*args, **options)

            if taken is not None and self.calls in cuts:
                self._is_busy = True
                self.leave(taken())
                self._is_busy = False

            self.calls += 1
            result = call(*args, **options)
            if name in _SYNCS:
                self._is_busy = True
                self._take(os.fstat(args[0]).st_ino, args[0])
                self._is_busy = False

            return result

        return watched

    _is_busy = False  # with files of its own

    def leave(self, target: Path) -> None:
        """Write what a cut at this moment leaves to a folder."""
        self._leave_folder(self._root, target)

    def _hold(self, path: Path | str, above: int | None = None) -> int:
        """Return the inode of a path, and keep it open."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=above)
        inode = os.fstat(descriptor).st_ino
        if inode in self._descriptors:
            os.close(descriptor)
        else:
            self._descriptors[inode] = descriptor

        return inode

    def _take(self, inode: int, descriptor: int) -> None:
        """Note that a file or folder is durable as it is."""
        if inode not in self._descriptors:
            self._descriptors[inode] = os.dup(descriptor)

        if self._is_folder(inode):
            self._listings[inode] = self._names_in(inode)
        else:
            self._contents[inode] = self._content(inode)

    def _take_all(self, inode: int) -> None:
        self._take(inode, self._descriptors[inode])
        for below in self._listings.get(inode, {}).values():
            self._take_all(below)

    def _is_folder(self, inode: int) -> bool:
        return stat.S_ISDIR(os.fstat(self._descriptors[inode]).st_mode)

    def _names_in(self, inode: int) -> dict[str, int]:
        above = self._descriptors[inode]
        with os.scandir(above) as entries:
            names = sorted(entry.name for entry in entries)
        return {name: self._hold(name, above) for name in names}

    def _content(self, inode: int) -> bytes:
        descriptor = self._descriptors[inode]
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def _leave_folder(self, inode: int, target: Path) -> None:
        target.mkdir(exist_ok=True)
        synced = self._listings.get(inode, {})
        later = self._names_in(inode)
        for name in sorted({*synced, *later}):
            left = self._chance.choice([synced.get(name), later.get(name)])
            if left is None:
                continue

            if self._is_folder(left):
                self._leave_folder(left, target / name)
            else:
                (target / name).write_bytes(self._left_of(left))

    def _left_of(self, inode: int) -> bytes:
        """Return what is left of a file: of each block what was synced, or what came later."""
        synced = self._contents.get(inode, b"")
        later = self._content(inode)
        size = self._chance.choice([len(synced), len(later), self._between(synced, later)])
        likely = self._chance.choice([0.0, 0.5, 0.9, 1.0])
        blocks = []
        for first in range(0, size, BLOCK):
            source = later if self._chance.random() < likely else synced
            block = source[first : first + BLOCK]
            blocks.append(block.ljust(BLOCK, b"\0"))

        return b"".join(blocks)[:size]

    def _between(self, synced: bytes, later: bytes) -> int:
        return self._chance.randint(*sorted((len(synced), len(later))))
