"""Progress of long-running work, which is reported to a callback."""

from __future__ import annotations

from collections.abc import Callable

#: Called before each unit of work with the unit's name, the number of units done, and their total
#: number.
Tell = Callable[[str, int, int], None]


def tell_nobody(_name: str, _done: int, _total: int) -> None:
    """Ignore progress."""
