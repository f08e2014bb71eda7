"""Findings of a check: the file, the rule, and one line that is safe to print whatever a submission holds."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

_LONGEST_MESSAGE = 400
_LONGEST_PATH = 300
_UNPRINTED = ("C", "Z", "M")
"""Unicode categories that are shown by their number: controls, formats, surrogates, separators, marks that pile up."""


class At(NamedTuple):
    """Message of a rule on another file than the one that is looked at."""

    path: str
    message: str


@dataclass(frozen=True, order=True)
class Finding:
    """One reason to refuse.

    Both texts are made printable here, whoever made them: a submission can't colour a terminal, hide what is said or speak to the
    machine that runs the check through them.
    """

    path: str  #: the file or folder, relative to the board
    rule: str  #: id of a rule of the check
    message: str  #: what is wrong, what was found and what is asked for, on one line

    def __post_init__(self) -> None:
        path = printable(self.path, _LONGEST_PATH)
        # `::name::` and `##[name]` at the start of a line are commands to hosted CI.
        object.__setattr__(self, "path", path if path[:1].isalnum() or path[:1] in "._" else f"./{path}")
        object.__setattr__(self, "message", printable(self.message, _LONGEST_MESSAGE))

    def __str__(self) -> str:
        return f"{self.path}: {self.message} [{self.rule}]"


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return a foreign text on one line: what can't be seen is written as its number, what is too long is cut."""
    shown = "".join(map(_shown, text[:longest]))
    return shown if len(text) <= longest else f"{shown}…"


def _shown(sign: str) -> str:
    if sign == " " or (sign.isascii() and sign.isprintable()) or unicodedata.category(sign)[0] not in _UNPRINTED:
        return sign
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
