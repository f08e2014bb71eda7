"""Clock of a workspace: prices, events and broker all answer as of it, and it only goes forward."""

from __future__ import annotations

from ktdeval_qfinzero.errors import conflict
from ktdeval_qfinzero.moments import moment_text


class Clock:
    """A moment that only grows. `as_of_ns`: where it starts."""

    def __init__(self, as_of_ns: int) -> None:
        self._as_of_ns = as_of_ns

    @property
    def as_of_ns(self) -> int:
        """Present moment."""
        return self._as_of_ns

    def advance(self, to_ns: int) -> None:
        """Go forward. Raises ServiceError: `conflict`: the moment lies in the past, which would be known already."""
        if to_ns < self._as_of_ns:
            raise conflict(f"the clock stands at {moment_text(self._as_of_ns)} and can't go back to {moment_text(to_ns)}")
        self._as_of_ns = to_ns
