"""Aligned plain text for tables in a terminal or a file."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

UNDEFINED = "-"


def width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def clean(text: object) -> str:
    """One line without control characters: a card may come from a stranger, and a terminal obeys what it prints."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in str(text))


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """Lines of a table: columns named in `left` are flush left, the others right; columns that are empty throughout are dropped."""
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    head = [columns[place] for place in kept]
    body = [[clean(row[place]) for place in kept] for row in rows]
    widths = [max(width(line[place]) for line in (head, *body)) for place in range(len(head))]
    lines = []
    for line in (head, *body):
        cells = []
        for place, cell in enumerate(line):
            gap = " " * (widths[place] - width(cell))
            cells.append(f"{cell}{gap}" if head[place] in left else f"{gap}{cell}")
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def figure(value: float | None, unit: str) -> str:
    """A signed figure; fractions in per cent."""
    if value is None:
        return UNDEFINED
    scaled = 100.0 * value if unit == "fraction" else value
    text = f"{scaled:+.{3 if abs(scaled) < 10 else 2}f}"
    return text.replace("+", " ").strip() if float(text) == 0 else text


def interval(low: float | None, high: float | None, unit: str) -> str:
    """Both ends, or a dash."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit)} … {figure(high, unit)}"


def p_value(value: float | None) -> str:
    """A p-value to three significant digits."""
    if value is None:
        return UNDEFINED
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def unit_name(unit: str) -> str:
    """The unit as shown beside a figure."""
    return {"fraction": "%", "ratio": ""}.get(unit, unit)
