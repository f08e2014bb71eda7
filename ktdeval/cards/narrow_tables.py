"""Fit tables on cards to the width of a terminal: a wide table becomes several, one below the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.cells import cell_len

from ktdeval.cards.table_types import Grid
from ktdeval.cards.text_wrapping import (
    GAP,
    bands,
    column_widths as widths_of,
    row_width,
    wrap_words,
)

_MIN_TEXT = 20  # columns: text is never wrapped narrower than this


def indent_of(grid: Grid) -> str:
    """Return the indent of a grid's rows, which are indented further under headings."""
    has_headings = any(len(row) == 1 for row in grid.rows)
    return 2 * GAP if has_headings else GAP


def column_widths(grid: Grid) -> list[int]:
    """Return the width of each column: the width of its longest cell. A head may span several
    lines.
    """
    full = [row for row in (grid.columns, *grid.rows) if len(row) > 1]
    return widths_of(full)


def fit_grid(grid: Grid, width: int) -> list[Grid]:
    """Split a grid into grids whose rows take up at most `width` columns, if possible.

    Columns that do not fit go to an additional grid, which repeats the first `left` columns.
    Columns without any figure are omitted. Long text and long heads are wrapped.
    """
    room = width - len(indent_of(grid))
    if row_width(column_widths(grid)) <= room:
        return [grid]
    if grid.left >= len(grid.columns):
        return [_rewrap_grid(grid, width)]

    grid = grid.with_columns(grid.used_columns)
    grid = replace(grid, columns=tuple(_short_heads(grid)))
    figures = [[column] for column in range(grid.left, len(grid.columns))]
    grids: list[Grid] = []
    for columns in bands(figures, grid.left, column_widths(grid), room):
        title = "" if grids else grid.title
        grids.append(replace(grid, title=title).with_columns(columns))

    return grids


def _short_heads(grid: Grid) -> Iterator[str]:
    """Yield the column heads, wrapped to the width of their cells or of the longest word in the
    head.
    """
    rows = [row for row in grid.rows if len(row) > 1]
    for column, head in enumerate(grid.columns):
        cells = [cell_len(row[column]) for row in rows]
        words = [cell_len(word) for word in head.split()]
        room = max([*cells, *words, 1])
        yield "\n".join(wrap_words(head.split(), "", "", room))


def _rewrap_grid(grid: Grid, width: int) -> Grid:
    """Return a table of names and texts, wrapped to a width. A row without a name continues the
    text above it.
    """
    if len(grid.columns) != 2:
        return grid

    texts: list[tuple[str, str]] = []
    for name, text in grid.rows:
        if name or not texts:
            texts.append((name, text))
        else:
            before = texts.pop()
            texts.append((before[0], f"{before[1]} {text}"))

    names = max(cell_len(name) for name, _ in texts)
    room = max(width - len(indent_of(grid)) - names - len(GAP), _MIN_TEXT)
    rows: list[tuple[str, ...]] = []
    for name, text in texts:
        for number, part in enumerate(wrap_words(text.split(), "", "", room)):
            rows.append((name if number == 0 else "", part))

    return replace(grid, rows=tuple(rows))
