"""Cache of arrays that are derived only from a market. Their files are written once, atomically,
and all processes of a user map them into memory, read-only.

An entry is a folder named by the hash of its key, with one `.npy` file per array and a manifest of
their checksums. A damaged entry is removed and rebuilt. A process that can't read or write the
cache builds the arrays itself, so the cache affects only time and memory. If the cache grows too
large, the least recently used entries are removed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.values.disk.files import new_folder, sweep_new_folder
from ktdeval.values.documents.typed_json import Value
from ktdeval.values.hashes import content_hash

View = TypeVar("View")
Arrays = Mapping[str, npt.NDArray[Any]]

MAX_BYTES = 4 << 30  #: Maximum total size of all entries
_MANIFEST = "manifest.json"
_LARGEST_SHARE = 0.5  # maximum fraction of the limit that one entry may take


class _Manifest(Value):
    """Contents of an entry."""

    title: str  #: description of the contents
    sums: dict[str, str]  #: array name -> SHA-256 of its file


@dataclass(frozen=True, slots=True)
class ArrayCacheEntry:
    """A cache entry, as listed."""

    path: Path
    title: str  #: description of the contents; empty for a damaged entry
    bytes: int  #: total size of its files
    used_s: float  #: time of last use, in seconds since 1970


class ArrayCache:
    """An array cache in a folder, which need not exist."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def arrays(self, title: str, key: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays for a key, mapped into memory; if they can't be stored, return the
        result of `make`.

        `key`: everything that determines the arrays, as plain JSON, including the code version;
        `title`: description of the arrays for `entries`.
        """
        found = self.find(key)
        if found is not None:
            return found

        made = make()
        return self.keep(title, key, made) or _read_only(made)

    def find(self, key: Mapping[str, Any]) -> Arrays | None:
        """Return the arrays for a key, mapped into memory; None if there is no entry. A damaged
        entry is removed and treated as absent.
        """
        path = self._path(key)
        try:
            arrays = _open_entry(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError):
            shutil.rmtree(path, ignore_errors=True)
            return None

        with suppress(OSError):  # another user's entry: its time of use is not updated
            os.utime(path / _MANIFEST)
        return arrays

    def keep(self, title: str, key: Mapping[str, Any], made: Arrays) -> Arrays | None:
        """Write arrays and return them mapped into memory; None if they can't be kept."""
        if sum(array.nbytes for array in made.values()) > self._max_bytes * _LARGEST_SHARE:
            return None

        path = self._path(key)
        try:
            sweep_new_folder(path)
            with new_folder(path) as content:
                _write_arrays(content, title, made)
        except OSError:
            # The disk is full or read-only, or another process has written the same entry.
            return self.find(key)

        self._make_room(path)
        return self.find(key)

    def entries(self) -> list[ArrayCacheEntry]:
        """Return all entries, most recently used first."""
        listed = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                if path.is_dir() and not path.name.startswith("."):
                    listed.append(_read_entry(path))

        return sorted(listed, key=lambda entry: (-entry.used_s, entry.path.name))

    def clear(self) -> list[ArrayCacheEntry]:
        """Remove all entries and return them. Processes that have mapped an entry keep their
        mapping.
        """
        removed = self.entries()
        for entry in removed:
            shutil.rmtree(entry.path, ignore_errors=True)
        return removed

    def _path(self, key: Mapping[str, Any]) -> Path:
        return self.folder / content_hash(key)[:32]

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used entries until the total is within the limit."""
        left = self.entries()
        total = sum(entry.bytes for entry in left)
        while left and total > self._max_bytes:
            oldest = left.pop()
            if oldest.path != newest:
                total -= oldest.bytes
                shutil.rmtree(oldest.path, ignore_errors=True)


def _read_only(arrays: Arrays) -> Arrays:
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


def _write_arrays(folder: Path, title: str, arrays: Arrays) -> None:
    sums = {}
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, np.ascontiguousarray(array), allow_pickle=False)
        sums[name] = _file_sha256(path)

    (folder / _MANIFEST).write_bytes(msgspec.json.encode(_Manifest(title=title, sums=sums)))


def _open_entry(folder: Path) -> Arrays:
    """Return the arrays of an entry. Raises OSError, ValueError or MsgspecError if the entry is
    absent or damaged.
    """
    manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=_Manifest)
    arrays = {}
    for name, expected in manifest.sums.items():
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not a name of an array")
        path = folder / f"{name}.npy"
        try:
            if _file_sha256(path) != expected:
                raise ValueError(f"{path}: damaged")
        except FileNotFoundError as error:
            raise ValueError(f"{path}: missing") from error

        # A plain array, because slicing a `memmap` takes several times longer.
        arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)

    return arrays


def _file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_entry(path: Path) -> ArrayCacheEntry:
    title = ""
    size = 0
    used_s = 0.0
    with suppress(OSError, msgspec.MsgspecError):
        size = sum(file.stat().st_size for file in path.iterdir())
        manifest = path / _MANIFEST
        used_s = manifest.stat().st_mtime
        title = msgspec.json.decode(manifest.read_bytes(), type=_Manifest).title

    return ArrayCacheEntry(path, title, size, used_s)


_BLOCK_SIZE = 1 << 14  # assets times days in one entry
_MIN_DAYS = 8
_MAX_BLOCKS = 192  # over all names of arrays


class StoredRows:
    """Daily arrays of one market, stored in blocks of days; the most recently used blocks stay
    open.

    `cache`: stores the blocks for all processes. Without a cache, arrays are rebuilt on each
    request.
    """

    def __init__(
        self, snapshot_id: str, market: str, days: npt.NDArray[np.datetime64], assets: int
    ) -> None:
        self.cache: ArrayCache | None = None
        self._snapshot_id = snapshot_id
        self._market = market
        self._days = days
        self._size = max(_MIN_DAYS, _BLOCK_SIZE // max(1, assets))
        self._blocks: OrderedDict[tuple[str, int], Arrays] = OrderedDict()

    def row(
        self,
        as_of: Callable[[int], View],
        day: int,
        name: str,
        version: str,
        make: Callable[[View], Arrays],
    ) -> Arrays:
        """Return the arrays that `make` computes from the market view at the close of row `day`;
        `as_of` creates such views.
        """
        if self.cache is None:
            return make(as_of(day))

        first = day - day % self._size
        last = min(first + self._size, len(self._days))

        def make_block() -> Arrays:
            rows = [make(as_of(row)) for row in range(first, last)]
            return {part: np.stack([row[part] for row in rows]) for part in rows[0]}

        block = self._blocks.get((name, first))
        if block is None:
            days = f"{self._days[first]} to {self._days[last - 1]}"
            of = {"snapshot": self._snapshot_id, "name": name, "version": version}
            key = {**of, "rows": [first, last]}
            block = self.cache.arrays(f"{name} of {self._market}, {days}", key, make_block)
            self._blocks[name, first] = block
            if len(self._blocks) > _MAX_BLOCKS:
                self._blocks.popitem(last=False)

        return {part: rows[day - first] for part, rows in block.items()}


def code_version(*modules: str) -> str:
    """Return a hash of the source code of some modules and of the numeric platform. Arrays stored
    under another version are not used.
    """
    sources = [np.__version__, platform.machine()]
    for name in modules:
        spec = find_spec(name)
        origin = None if spec is None else spec.origin
        if origin is None:
            raise ModuleNotFoundError(name)
        sources.append(hashlib.sha256(Path(origin).read_bytes()).hexdigest())

    return content_hash(sources)
