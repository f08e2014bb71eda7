"""Progress of long-running work, reported to a callback."""

from __future__ import annotations

from collections.abc import Callable

#: Called before each unit of work with the name of the unit, the number done and the total.
Tell = Callable[[str, int, int], None]


def tell_nobody(_name: str, _done: int, _total: int) -> None:
    """Ignore progress."""
