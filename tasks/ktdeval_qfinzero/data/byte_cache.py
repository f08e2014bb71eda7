"""A bounded cache of decoded data, shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """Values by key; those used longest ago are dropped when they are too many bytes together.

    Args:
        capacity: bytes. A value larger than this is made anew each time.
        size_of: bytes of a value.
    """

    def __init__(self, capacity: int, size_of: Callable[[Value], int]) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._held: OrderedDict[Key, Value] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes_held(self) -> int:
        """Bytes of all values that are held."""
        return self._bytes

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not held.

        Two threads that miss at once both make it, and one of the equal values is kept: no thread waits for another's reading.
        """
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        value = make()
        size = self._size_of(value)
        with self._lock:
            if key in self._held:
                return self._held[key]
            if size <= self._capacity:
                self._held[key] = value
                self._bytes += size
            while self._bytes > self._capacity:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= self._size_of(dropped)
        return value
