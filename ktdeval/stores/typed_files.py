"""Typed values under the keys of a store, one JSON file per value."""

from __future__ import annotations

from collections.abc import Container
from typing import Generic

from ktdeval.stores.store import MissingKey, Store
from ktdeval.values.documents.typed_json import T, Value, decode_json, encode_canonical


def encode_value(value: Value) -> bytes:
    """Return the contents of a value's file."""
    return f"{encode_canonical(value)}\n".encode()


def read_value(store: Store, key: str, kind: type[T]) -> T:
    """Return the value under a key. Raises MissingKey, and StoreError if the value is malformed."""
    return decode_json(store.read(key), kind, f"{store.place}: {key}")


def find_value(store: Store, key: str, kind: type[T]) -> T | None:
    """Return the value under a key; None if the key does not exist. Raises StoreError."""
    try:
        return read_value(store, key, kind)
    except MissingKey:
        return None


def value_name(key: str) -> str:
    """Return the name of a value's file without folder and suffix."""
    return key.rpartition("/")[2].removesuffix(".json")


class ValueFolder(Generic[T]):
    """Values of one type in a folder of a store, by name, as last read."""

    def __init__(self, store: Store, folder: str, kind: type[T]) -> None:
        self.store = store
        self.folder = folder
        self.values: dict[str, T] = {}
        self.versions: dict[str, str] = {}  #: file versions, by name
        self._kind = kind

    def read(self, wanted: Container[str] | None = None) -> dict[str, T]:
        """Read the files that are new or have changed, either those whose names are in `wanted` or
        all, and return all values. Raises StoreError.
        """
        values: dict[str, T] = {}
        versions: dict[str, str] = {}
        for stat in self.store.list(self.folder):
            name = value_name(stat.key)
            if wanted is not None and name not in wanted:
                continue

            value = self.values.get(name)
            if value is None or self.versions.get(name) != stat.version:
                value = find_value(self.store, stat.key, self._kind)
            if value is not None:  # None if the file was deleted after the listing
                values[name] = value
                versions[name] = stat.version

        self.values = values
        self.versions = versions
        return values
