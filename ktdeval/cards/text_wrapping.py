"""Fold tables and text to the width of a terminal. No line is truncated, and no figure is split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells

GAP = "  "

Row = Sequence[str]


def aligned_lines(table: Sequence[Row], left: Sequence[bool]) -> list[str]:
    """Return rows as aligned lines. `table` contains the heads, then the rows; `left` says whether
    each column is left-aligned. Wide characters take up two columns.
    """
    widths = column_widths(table)
    lines = []
    for row in table:
        aligned = []
        for cell, width, is_left in zip(row, widths, left, strict=True):
            aligned.append(pad_cell(cell, width, is_left))

        lines.append(GAP.join(aligned).rstrip())

    return lines


def folded_lines(table: Sequence[Row], left: Sequence[bool], width: int) -> list[str]:
    """Return rows as lines of at most `width` columns. The other arguments are as in
    `aligned_lines`.

    A table that is too wide becomes several, one below the other. Each repeats the columns that
    identify the rows: the leading left-aligned ones. If these leave no room for a figure, each row
    becomes a list of its cells.
    """
    widths = column_widths(table)
    if row_width(widths) <= width:
        return aligned_lines(table, left)

    names = _leading(left)
    groups = _column_groups(table[0], names)
    for group in groups:
        together = [*range(names), *group]
        if row_width([widths[column] for column in together]) > width:
            return _record_lines(table, width)

    lines: list[str] = []
    for columns in bands(groups, names, widths, width):
        part = []
        for row in table:
            part.append([row[column] for column in columns])

        if lines:
            lines.append("")

        lines += aligned_lines(part, [left[column] for column in columns])

    return lines


def folded_text(text: str, width: int) -> list[str]:
    """Fold a line of text into lines of at most `width` columns. Continuation lines are indented by
    two more columns. A word that is longer than a line is split.
    """
    indent = text[: len(text) - len(text.lstrip())]
    return _divide_words(text, indent, indent + GAP, width)


def folded_texts(texts: Iterable[str], width: int | None) -> Iterator[str]:
    """Fold lines of text into lines of at most `width` columns; if `width` is None, leave the lines
    unchanged.
    """
    for text in texts:
        if width is None:
            yield text
        else:
            yield from folded_text(text, width)


def column_widths(table: Sequence[Row]) -> list[int]:
    """Return the width of each column: the width of its longest cell. A cell may span several
    lines.
    """
    widths = []
    for cells in zip(*table, strict=True):
        lines = "\n".join(cells).split("\n")
        widths.append(max(map(cell_len, lines)))

    return widths


def row_width(widths: Sequence[int]) -> int:
    """Return the total width of a row with columns of the given widths."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def pad_cell(cell: str, width: int, is_left: bool) -> str:
    """Pad a cell to the width of its column, left-aligned or right-aligned."""
    padding = " " * (width - cell_len(cell))
    return cell + padding if is_left else padding + cell


def bands(
    groups: Sequence[Sequence[int]], names: int, widths: Sequence[int], width: int
) -> Iterator[list[int]]:
    """Split a wide table into several, and yield the columns of each: the first `names` columns,
    plus as many groups as fit into `width`, but at least one.
    """
    taken = list(range(names))
    for group in groups:
        wider = [*taken, *group]
        if len(taken) > names and row_width([widths[column] for column in wider]) > width:
            yield taken
            wider = [*range(names), *group]

        taken = wider

    yield taken


def wrap_words(words: Iterable[str], first: str, further: str, width: int) -> list[str]:
    """Join words into lines of at most `width` columns. The first line begins with `first`, the
    others with `further`. A word that is too wide gets its own line. `textwrap` is not used because
    it treats wide characters as narrow ones.
    """
    lines: list[str] = []
    line = first
    is_empty = True
    for word in words:
        if not is_empty and cell_len(f"{line} {word}") > width:
            lines.append(line)
            line = further
            is_empty = True

        line += word if is_empty else f" {word}"
        is_empty = False

    lines.append(line.rstrip())
    return lines


def _leading(left: Sequence[bool]) -> int:
    """Return the number of leading columns that are left-aligned."""
    for column, is_left in enumerate(left):
        if not is_left:
            return column

    return len(left)


def _column_groups(heads: Row, names: int) -> list[list[int]]:
    """Return the columns after the names, in groups. A column without a head, such as a unit, is
    grouped with the column before it.
    """
    groups: list[list[int]] = []
    for column in range(names, len(heads)):
        if groups and not heads[column].strip():
            groups[-1].append(column)
        else:
            groups.append([column])

    return groups


def _record_lines(table: Sequence[Row], width: int) -> list[str]:
    """Return each row as a list of its cells, one below another, each labelled with its column
    head.
    """
    heads, *rows = table
    label_width = max(map(cell_len, heads))
    lines: list[str] = []
    for row in rows:
        if lines:
            lines.append("")

        for label, value in _named_cells(heads, row):
            lines += _value_lines(pad_cell(label, label_width, True) + GAP, value, width)

    return lines


def _named_cells(heads: Row, row: Row) -> list[tuple[str, str]]:
    """Return the non-empty cells of a row with their heads. A unit is joined to its figure."""
    cells: list[tuple[str, str]] = []
    for head, cell in zip(heads, row, strict=True):
        if cells and not head.strip():
            label, value = cells.pop()
            cells.append((label, f"{value} {cell}".rstrip()))
        elif cell.strip():
            cells.append((head, cell))

    return cells


def _value_lines(label: str, value: str, width: int) -> list[str]:
    """Return a value after its label, with wrapped lines aligned under the value. A value with a
    long label starts on the next line.
    """
    indent = " " * cell_len(label)
    if len(indent) > width // 2:
        return [*folded_text(label.strip(), width), *folded_text(GAP + value, width)]

    return _divide_words(value, label, indent, width)


def _divide_words(text: str, first: str, further: str, width: int) -> list[str]:
    """Wrap text like `wrap_words`, but split words that are wider than a line."""
    room = max(width - max(cell_len(first), cell_len(further)), 1)
    pieces: list[str] = []
    for word in text.split():
        pieces += chop_cells(word, room)

    return wrap_words(pieces, first, further, width)
