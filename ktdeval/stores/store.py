"""Stores: files under keys, in a folder or an object store, shared by any number of processes.

`create`, which succeeds for only one caller, is the basis of all coordination: it needs no server,
lock file or common clock. docs/grid-workers.md lists what each kind of store guarantees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ktdeval.errors import StoreError
from ktdeval.values.lazy import maker

#: size limit of a key in UTF-8 bytes; object stores allow 1,024, including the prefix
MAX_KEY_BYTES = 900
MAX_NAME_BYTES = 200  #: size limit in bytes of one part of a key; file systems allow 255
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\?#*<>|"\[\]{}\ud800-\udfff]')
_FILE_URL = "file://"
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


class BadKey(StoreError):
    """A key is not a relative path of plain names."""


class MissingKey(StoreError):
    """Nothing is stored under a key."""


class StoreUnavailable(StoreError):
    """A store did not respond, even after all retries. The data being written may or may not have
    been stored.
    """


class NoConditionalWrites(StoreError):
    """A store can't make the creation of a file conditional on its absence, so processes can't use
    it for coordination.
    """


@dataclass(frozen=True)
class Stat:
    """Listing entry for a key. `size` is in bytes; `version` changes with the contents."""

    key: str
    size: int
    version: str


class Store(Protocol):
    """Files under keys. A key is a relative path of plain names, separated by `/`.

    Every method raises BadKey if a key is malformed, StoreUnavailable if the store does not respond
    after retries, and StoreError for any other failure. A key is never also a folder of other keys.
    """

    place: str  #: path or URL for opening this store again

    def read(self, key: str) -> bytes:
        """Return all bytes under a key. Raises MissingKey."""

    def exists(self, key: str) -> bool:
        """Return whether a key exists."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a new key and return True. Returns False if the key exists.

        However many callers there are, only one gets True. Readers see either all of `data` or
        nothing. Raises NoConditionalWrites.
        """

    def replace(self, key: str, data: bytes) -> None:
        """Write a key, whether it exists or not. Readers see either the old contents or all of the
        new contents; the last writer wins.
        """

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Yield the keys below a folder (`""`: all keys) lazily, in code-point order.

        A key that was created before the call is listed unless it is deleted in the meantime.
        """

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""

    def local_path(self, key: str) -> Path | None:
        """Return the path of a key's file, whether it exists or not; None if the store is not a
        folder.
        """


def open_store(place: str | Path) -> Store:
    """Return the store in a folder, which need not exist, or at a URL such as `s3://BUCKET/PREFIX`.

    Raises StoreError if the URL's driver is unknown, is not installed, or rejects its settings.
    """
    text = str(place)
    is_url = isinstance(place, str) and _URL.match(text) is not None
    is_remote = is_url and not text.startswith(_FILE_URL)

    store: Store
    if is_remote:
        store = maker("ktdeval.stores.remote:open_remote")(text)
    else:
        store = maker("ktdeval.stores.local:LocalStore")(Path(text.removeprefix(_FILE_URL)))

    return store


def checked_key(key: str) -> str:
    """Return the key unchanged. Raises BadKey if the key is not a relative path of plain names."""
    problem = _key_problem(key)
    if problem:
        raise BadKey(f"key {key[:100]!r}: {problem}; use plain names, separated by '/'")
    return key


def is_key(text: str) -> bool:
    """Return whether a string is a valid key. Listings omit all other files."""
    return not _key_problem(text)


def checked_prefix(prefix: str) -> str:
    """Return a folder of keys without a trailing slash, or `""`. Raises BadKey."""
    return checked_key(prefix.removesuffix("/")) if prefix else prefix


def _key_problem(key: str) -> str:
    """Return what is wrong with a key; empty if the key is valid.

    Names that begin with a dot, including `.` and `..`, are reserved for temporary files, which
    listings omit.
    """
    if _FORBIDDEN.search(key):
        return "has a character that not every store takes"
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"is longer than {MAX_KEY_BYTES} bytes"

    for name in key.split("/"):
        if not name:
            return "is empty or has an empty part"
        if name.startswith("."):
            return "has a part that begins with a dot"
        if name != name.strip() or name.endswith("."):
            return "has a part with a space or a dot at its end"
        if len(name.encode()) > MAX_NAME_BYTES:
            return f"has a part longer than {MAX_NAME_BYTES} bytes"

    return ""
