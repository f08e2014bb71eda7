"""Tables of words and figures for people: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UNDEFINED = "-"
"""In the place of a figure that is not defined."""

_LONGEST_TEXT = 64  # characters; tables fit 80 columns


@dataclass(frozen=True)
class Grid:
    """A small table: the first `left` columns are words, the others numbers. A row of one cell is a heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class Report:
    """What `card show` prints, before any layout."""

    title: str
    labels: tuple[str, ...]
    ranking: str
    facts: Grid
    grids: tuple[Grid, ...]
    activity: Grid
    notes: tuple[str, ...]


def word_grid(title: str, rows: Iterable[tuple[str, str]]) -> Grid:
    """Names and what is to say of them; long texts take several lines."""
    return Grid(
        title,
        ("", ""),
        tuple(
            ("" if place else name, part)
            for name, value in rows
            for place, part in enumerate(textwrap.wrap(clean(value), _LONGEST_TEXT, break_long_words=False, break_on_hyphens=False))
        ),
        left=2,
    )


def clean(text: object) -> str:
    """One line without control characters: a card may come from a stranger, and a terminal obeys what it prints."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in str(text))


def tally(counts: Mapping[str, int]) -> str:
    """`schema 12, bad_json 4`, most frequent first; `none` when all are zero."""
    present = sorted(((count, name) for name, count in counts.items() if count), key=lambda pair: (-pair[0], pair[1]))
    return ", ".join(f"{name} {count:,}" for count, name in present) or "none"


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_lines(lines: Iterable[Text], console: Console | None) -> None:
    """Print with colours in a terminal, as plain text elsewhere; to standard output by default."""
    console = Console() if console is None else console
    for line in lines:
        console.print(line, soft_wrap=True)


def plain(lines: Iterable[Text]) -> str:
    """The lines without colours."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def report_lines(report: Report) -> Iterable[Text]:
    """The report line by line; its plain text is complete without the styles."""
    yield Text(report.title, style="bold")
    if report.labels:
        yield Text(" ").join(Text(f"[{label}]", style="black on yellow") for label in report.labels)
    yield Text(report.ranking, style="green" if report.ranking == "rankable" else "bold red")
    for grid in (report.facts, *report.grids, report.activity):
        if grid.rows:
            yield Text(f"\n{grid.title}" if grid.title else "", style="bold")
            yield from grid_lines(grid)
    if report.notes:
        yield Text("\nNotes", style="bold")
    for note in report.notes:
        yield Text(f"  {note}", style="dim")


def grid_lines(grid: Grid) -> Iterable[Text]:
    """The rows of a table, with its columns above them."""
    # Laid out here and not by a rich Table: a table would fold names in a narrow terminal, and a heading can't span its columns.
    full = [row for row in (grid.columns, *grid.rows) if len(row) > 1]
    widths = [max(cell_len(row[place]) for row in full) for place in range(len(grid.columns))]
    grouped = any(len(row) == 1 for row in grid.rows)
    if any(grid.columns):
        yield _row_text(grid.columns, widths, grid.left, "    " if grouped else "  ", header=True)
    for row in grid.rows:
        yield (
            Text(f"  {row[0]}", style="bold cyan")
            if len(row) == 1
            else _row_text(row, widths, grid.left, "    " if grouped else "  ", header=False)
        )


def _row_text(row: Sequence[str], widths: Sequence[int], left: int, indent: str, header: bool) -> Text:
    line = Text(indent)
    for place, cell in enumerate(row):
        gap = " " * (widths[place] - cell_len(cell))
        loss = place >= left and cell.startswith("-") and cell != UNDEFINED
        line.append(f"{cell}{gap}" if place < left else f"{gap}{cell}", style="dim" if header else "red" if loss else "")
        line.append("  ")
    line.rstrip()
    return line
