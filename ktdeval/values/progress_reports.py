"""Progress of long work, reported to a callback."""

from __future__ import annotations

from collections.abc import Callable

#: Called before each unit of work: with its name, how many are done, and how many there are
Tell = Callable[[str, int, int], None]


def tell_nobody(_name: str, _done: int, _total: int) -> None:
    """Take the progress of work that nobody watches."""
