"""One error for a value that does not fit, wherever it comes from, and one way to print it.

Configs, parameters, tool arguments, plugin objects and files all report where the value is, what
would fit there, what was found, and which known name is similar.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_SHOWN_CHARS = 80
MIN_INTEGER = -(1 << 63)  #: smallest 64-bit integer
MAX_INTEGER = (1 << 63) - 1


class Misfit(ValueError):
    """A value does not fit its field."""

    def __init__(self, where: str, expected: str, was: str = "", near: str = "") -> None:
        super().__init__(where, expected, was, near)
        #: file, field and index of the value, such as `run.yaml: windows.first[2]`
        self.where = where
        self.expected = expected  #: description of valid values, such as `a number`
        #: value found, formatted by `quote_value`; empty if it must not be quoted
        self.was = was
        self.near = near  #: known names similar to the value, formatted by `near_matches`

    def __str__(self) -> str:
        line = f"{self.where}: expected {self.expected}"
        if self.was:
            line += f", was {self.was}"

        return line + self.near


class UnknownField(Misfit):
    """An object has a field that is not declared."""

    def __init__(self, where: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        listed = ", ".join(names) or "none"
        super().__init__(where, f"only these fields: {listed}", near=near_matches(name, names))
        self.name = name

    def __str__(self) -> str:
        return f"{self.where}: unknown field {self.name[:_SHOWN_CHARS]!r}{self.near}"


class MissingField(Misfit):
    """An object lacks a field that has no default."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(where, f"a field {name!r}")
        self.name = name

    def __str__(self) -> str:
        return f"{self.where}: field {self.name!r} is missing"


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?`, or an empty string if no known name is similar."""
    matches = near_names(name, known)
    if not matches:
        return ""

    quoted = " or ".join(repr(match) for match in matches)
    return f"; did you mean {quoted}?"


def near_names(name: str, known: Iterable[str], min_likeness: float = 0.5) -> list[str]:
    """Return up to three known names that are similar to a name, most similar first. `min_likeness`
    is the minimum similarity from 0 to 1, as measured by difflib.
    """
    # longer names are not typos, and comparing them is slow
    return difflib.get_close_matches(name[:100], list(known), n=3, cutoff=min_likeness)


def quote_value(value: object) -> str:
    """Return a value as quoted in error messages: short, and on one line."""
    if value is None:
        return "null"
    if isinstance(value, int) and not fits_64_bits(value):
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str | int | float):
        return f"{value!r:.{_SHOWN_CHARS}}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"

    return type(value).__name__


def fits_64_bits(value: int) -> bool:
    """Return whether an integer fits in 64 bits. Cards and ledgers contain no larger integers."""
    return MIN_INTEGER <= value <= MAX_INTEGER
