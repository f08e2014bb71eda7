"""How a check of the plugin contract fails."""

from __future__ import annotations


class ConformanceError(AssertionError):
    """A plugin does not keep the contract."""


def expect(holds: bool, message: str) -> None:
    """Raise a ConformanceError that says `message`, unless `holds`."""
    if not holds:
        raise ConformanceError(message)
