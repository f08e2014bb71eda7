"""Tables of text and figures, independent of layout."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

Row = tuple[str, str]  #: name and text of a row

UNDEFINED = "-"  #: placeholder for an undefined figure

_LONGEST_TEXT = 64  # characters; tables fit in 80 columns


@dataclass(frozen=True)
class Grid:
    """Small table: the first `left` columns are text, the others are numbers. A row with one cell
    is a heading.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    @property
    def used_columns(self) -> list[int]:
        """Indices of the first `left` columns and of other columns with a non-empty cell."""
        rows = [row for row in self.rows if len(row) > 1]
        used = []
        for column in range(len(self.columns)):
            if column < self.left or any(row[column] for row in rows):
                used.append(column)

        return used

    def with_columns(self, columns: Sequence[int]) -> Grid:
        """Return the table with only the given columns, selected by index."""
        rows: list[tuple[str, ...]] = []
        for row in self.rows:
            if len(row) == 1:
                rows.append(row)
            else:
                rows.append(tuple(row[column] for column in columns))

        heads = tuple(self.columns[column] for column in columns)
        return replace(self, columns=heads, rows=tuple(rows))


@dataclass(frozen=True)
class Report:
    """Printed card, independent of layout. The first screen runs from title to first grid."""

    title: str
    labels: tuple[str, ...]
    ranking: str
    facts: Grid
    grids: tuple[Grid, ...]
    activity: Grid
    notes: tuple[str, ...]
    claims: tuple[str, ...] = ()  #: the card's claims, as sentences


def word_grid(title: str, rows: Iterable[Row]) -> Grid:
    """Return a grid of names and texts. Long texts span several lines."""
    lines: list[tuple[str, ...]] = []
    for name, value in rows:
        parts = textwrap.wrap(
            clean(value), _LONGEST_TEXT, break_long_words=False, break_on_hyphens=False
        )
        for number, part in enumerate(parts):
            lines.append((name if number == 0 else "", part))

    return Grid(title, ("", ""), tuple(lines), left=2)


def clean(text: object) -> str:
    """Return text on one line, without control characters. A card may be untrusted, and a terminal
    interprets what is printed.
    """
    return "".join(
        " " if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") else letter
        for letter in str(text)
    )


def tally(counts: Mapping[str, int]) -> str:
    """Return counts as `schema 12, bad_json 4`, most frequent first; `none` if all are zero."""
    present = [(name, number) for name, number in counts.items() if number]
    present.sort(key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {number:,}" for name, number in present) or "none"


def share_of(number: int, total: int) -> str:
    """Return `4 of 6`, or `6` if the number equals the total."""
    return str(total) if number == total else f"{number} of {total}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `2 steps`, `3 replies`."""
    plural = re.sub("([^aeiou])y$", r"\1ie", noun) + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def percent(share: float, form: str = ".1f") -> str:
    """Return a share in per cent, such as `12.5 %`. `form` is the number format."""
    return f"{points(share, form)} %"


def points(share: float | None, form: str = ".2f") -> str:
    """Return a share in per cent without the sign, for table columns; `-` for None."""
    return UNDEFINED if share is None else f"{100 * share:{form}}"


def dollars(value: float) -> str:
    """Return an amount of money such as `1,234.57`. A small amount has enough decimals to show two
    significant digits.
    """
    if value == 0 or value >= 1:
        return f"{value:,.2f}"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.2g}"
