"""Local copy of the files below a URL. A file is fetched whole when requested, and again only if
its version in the store has changed.

CACHE/remote/<hash of URL>/place.json       the URL
CACHE/remote/<hash>/read/<name>/…           files, as commands read them
CACHE/remote/<hash>/run/<name>/…            working folder of a run on this machine
CACHE/remote/<hash>/read.sqlite             version of each file that was fetched
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ktdeval.errors import StoreError, UsageError, wrap_os_error
from ktdeval.stores.cache_folder import cache_folder
from ktdeval.stores.concurrent_requests import at_once
from ktdeval.stores.mirror_versions import FileVersions
from ktdeval.stores.paths_as_urls import show_as
from ktdeval.stores.store import MissingKey, Stat, Store, checked_key, open_store
from ktdeval.values.disk.files import read_plain, write_atomic
from ktdeval.values.documents.strict_json import dumps_pretty
from ktdeval.values.documents.typed_json import Value, decode_json
from ktdeval.values.hashes import sha256_hex
from ktdeval.values.requests.secret_free_addresses import Address, secret_in

Use = Literal["read", "run"]

_URL = re.compile(r"(?!file://)[a-zA-Z][a-zA-Z0-9+.-]*://")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_HASH_DIGITS = 24


class Place(Value):
    """Origin of the files in a local copy (`place.json`)."""

    url: Address


_OPEN: dict[Path, Mirror] = {}
_OPENING = threading.RLock()


class Mirror:
    """Files below one URL, and their local copies. Threads may share a mirror."""

    def __init__(self, url: str, path: Path, store: Store, use: Use = "read") -> None:
        """Use a local folder for the copies; it is created if missing."""
        self.url = url
        self.path = path
        self.store = store
        #: whether a run writes the local files first, so that the store never contains newer files
        self.is_working = use == "run"
        #: keys of files that this process wrote locally and uploaded to the store
        self._own: set[str] = set()
        with wrap_os_error(f"{path}: can't make the local copy of {url}", "set KTDEVAL_CACHE_DIR"):
            path.mkdir(parents=True, exist_ok=True)

        self._versions = FileVersions(path.parent.with_suffix(".sqlite"))

    def stats(self, folder: str = "") -> dict[str, Stat]:
        """Return the files that are currently below a folder, by key."""
        return {stat.key: stat for stat in self.store.list(folder)}

    def fetch(self, stats: Iterable[Stat]) -> None:
        """Copy files to the local folder, several at once, except files whose version is already
        there. Raises StoreError, and MissingKey if a file was deleted in the meantime.
        """
        stale = [stat for stat in stats if not self._is_current(stat)]
        at_once(self._fetch, stale)

    def fetch_below(self, folder: str) -> None:
        """Copy all files below a folder, and delete local copies of files that no longer exist."""
        stats = self.stats(folder)
        self.fetch(stats.values())
        for path in (self.path / folder).rglob("*"):
            if path.is_file() and path.relative_to(self.path).as_posix() not in stats:
                path.unlink(missing_ok=True)

    def fetch_file(self, key: str) -> bool:
        """Fetch one file by reading it, without a listing, and return whether it exists. If it does
        not, its local copy is deleted.
        """
        if self.owns(key):
            return True
        try:
            data = self.store.read(key)
        except MissingKey:
            (self.path / key).unlink(missing_ok=True)
            return False

        version = sha256_hex(data)
        if not self.has(key, version):
            self.keep(key, version, data)

        return True

    def put(self, key: str, data: bytes) -> None:
        """Replace a file in the store with the contents of its local copy. Durable on return."""
        self.store.replace(key, data)
        self._own.add(key)

    def put_new(self, key: str, data: bytes, where: str) -> None:
        """Create a file in the store. Durable on return. Raises StoreError if another process has
        written the file, in which case this process must stop.
        """
        # A request that was repeated after a lost response finds the file that it created.
        if not self.store.create(key, data) and self.store.read(key) != data:
            raise StoreError(
                f"{self.url}: another process has continued {where} ({key}); this one stops, and"
                " nothing is lost"
            )

    def keep(self, key: str, version: str, data: bytes) -> None:
        """Write a local file derived from files in the store. `version` identifies the versions of
        these files.
        """
        with self._versions.replacing(key, version):
            path = self.path / checked_key(key)  # a key from a listing must not be trusted
            with wrap_os_error(f"{path}: can't keep the local copy", "free space"):
                path.parent.mkdir(parents=True, exist_ok=True)

            write_atomic(path, data)

    def replace_local(self, key: str, version: str, source: Path) -> None:
        """Move a local file into place that was derived from files in the store."""
        with self._versions.replacing(key, version):
            source.replace(self.path / key)

    def has(self, key: str, version: str) -> bool:
        """Return whether the local file exists in the given version."""
        return self._versions.get(key) == version and (self.path / key).is_file()

    def owns(self, key: str) -> bool:
        """Return whether this process wrote the file."""
        return key in self._own

    def forget_own(self) -> None:
        """Stop treating any file as this process's own, since other processes may have changed the
        files.
        """
        self._own.clear()

    def remember(self, stats: Iterable[Stat]) -> None:
        """Treat the local files that this process wrote as copies of the given versions."""
        own = [stat for stat in stats if self.owns(stat.key)]
        self._versions.add((stat.key, str(stat.version)) for stat in own)

    def _is_current(self, stat: Stat) -> bool:
        return self.owns(stat.key) or self.has(stat.key, str(stat.version))

    def _fetch(self, stat: Stat) -> None:
        self.keep(stat.key, str(stat.version), self.store.read(stat.key))


def is_url(text: str | Path) -> bool:
    """Return whether the user's input is a URL rather than a local path."""
    return _URL.match(str(text)) is not None


def checked_url(text: str) -> str:
    """Return a URL in the normalised form that determines its local copy. Raises UsageError if the
    URL contains a password or a query, which would end up in files and logs.
    """
    if secret_in(text) is not None or "?" in text:
        raise UsageError(
            "a URL with a password or a query is refused, because URLs are recorded; give"
            " credentials through the driver's environment variables or configuration file"
        )
    return text.rstrip("/")


def open_mirror(url: str, use: Use) -> Mirror:
    """Return the local copy of a URL, for reading or for a run. Raises StoreError if the store
    can't be opened.
    """
    url = checked_url(url)
    home = _homes() / sha256_hex(url)[:_HASH_DIGITS]
    path = home / use / _name_of(url)
    with _OPENING:
        if path not in _OPEN:
            store = open_store(url)
            _OPEN[path] = Mirror(url, path, store, use)
            for folder in {str(path), str(path.resolve())}:
                show_as(folder, url)

            place = home / "place.json"
            if not place.exists():
                write_atomic(place, dumps_pretty({"url": url}))

        return _OPEN[path]


def mirror_at(path: Path) -> Mirror | None:
    """Return the local copy that contains a path, even if another process made the copy; None for
    any other path.
    """
    homes = _homes()
    absolute = path.absolute()
    if not absolute.is_relative_to(homes):
        absolute = path.resolve()
        homes = homes.resolve()
        if not absolute.is_relative_to(homes):
            return None

    parts = absolute.relative_to(homes).parts
    if len(parts) < 3 or parts[1] not in ("read", "run"):
        return None

    place = _homes() / parts[0] / "place.json"
    with wrap_os_error(f"{place}: can't read", "name the run by its URL"):
        url = decode_json(read_plain(place), Place, str(place)).url

    if sha256_hex(url)[:_HASH_DIGITS] != parts[0]:
        raise StoreError(f"{place}: has been changed; delete the folder {place.parent}")

    return open_mirror(url, "read" if parts[1] == "read" else "run")


def key_at(mirror: Mirror, path: Path) -> str:
    """Return the key of a local file or folder in a copy; empty for the root of the copy."""
    root = mirror.path
    if path.absolute().is_relative_to(root):
        relative = path.absolute().relative_to(root)
    else:
        relative = path.resolve().relative_to(root.resolve())

    key = relative.as_posix()
    return "" if key == "." else key


def mirrored_folder(path: Path) -> tuple[Mirror, str] | None:
    """Return the copy that contains a folder, and the prefix of the folder's keys; None if the
    folder is not in the local copy of a URL.
    """
    mirror = mirror_at(path)
    if mirror is None:
        return None

    key = key_at(mirror, path)
    return mirror, f"{key}/" if key else ""


def keep_file(path: Path, data: bytes | str) -> None:
    """Write a file atomically and durably on this machine. If its folder is the local copy of a
    URL, also write the file to the store. Raises StoreError.
    """
    write_atomic(path, data)
    mirror = mirror_at(path)
    if mirror is not None:
        content = data.encode() if isinstance(data, str) else data
        mirror.put(key_at(mirror, path), content)


def _homes() -> Path:
    return cache_folder().absolute() / "remote"


def _name_of(url: str) -> str:
    """Return the last part of a URL as a folder name."""
    name = _UNSAFE.sub("-", url.rpartition("/")[2]).strip(".-")
    return name[:100] or "root"
