"""Values that templates print, and the printing: whatever is not markup already is cleaned and escaped on its way into a page."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than text: words that stay on one line, code, or a link with a note below it."""

    text: str
    kind: Literal["unbroken", "code", "link"] = "unbroken"
    href: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table to show."""

    caption: str  # what it shows, in a sentence
    heads: Sequence[object]  # names of the columns; empty for none
    #: texts, `Cell`s, or several of these; the first of each row names it. A row of one cell is a heading of those below it.
    rows: Sequence[Sequence[object]]
    words: int = 1  # how many columns, from the left, hold words; the others hold figures

    @property
    def columns(self) -> int:
        """Count of columns."""
        return max(map(len, [self.heads, *self.rows]))


def clean(text: object) -> str:
    """One line without control and direction characters: a card may come from a stranger, and a page obeys what it shows."""
    if isinstance(text, Markup):
        return text
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs") else letter for letter in str(text))


@functools.cache
def templates() -> Environment:
    """Templates of this package; a name that a template uses and was not given is an error."""
    return Environment(
        loader=PackageLoader("ktdeval_report"), autoescape=True, finalize=clean, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def render(name: str, **values: Any) -> str:
    """Text of a template with these values."""
    return templates().get_template(name).render(values)
