"""Fold tables and texts to the width of a terminal: no line is cut, and every figure stays whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells

GAP = "  "

Row = Sequence[str]


def aligned_lines(table: Sequence[Row], left: Sequence[bool]) -> list[str]:
    """Return rows as aligned lines. `table`: heads, then rows; `left`: whether each column is flush
    left. Wide characters take two columns.
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
    """Return rows as lines of at most `width` columns; other arguments as of `aligned_lines`.

    A table that is too wide becomes several, one below the other, each with the columns that name
    the rows: the first ones, flush left. Where these leave no room for a figure, each row becomes a
    list of its cells.
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
    """Return a line of text as lines of at most `width` columns; further ones are indented by two
    more. A word that is longer than a line is divided.
    """
    indent = text[: len(text) - len(text.lstrip())]
    return _divide_words(text, indent, indent + GAP, width)


def folded_texts(texts: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield lines of text as lines of at most `width` columns, or as long as they are."""
    for text in texts:
        if width is None:
            yield text
        else:
            yield from folded_text(text, width)


def column_widths(table: Sequence[Row]) -> list[int]:
    """Return the width of each column: that of its longest cell. A cell may be of several lines."""
    widths = []
    for cells in zip(*table, strict=True):
        lines = "\n".join(cells).split("\n")
        widths.append(max(map(cell_len, lines)))

    return widths


def row_width(widths: Sequence[int]) -> int:
    """Return the width of a row whose columns have these widths."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def pad_cell(cell: str, width: int, is_left: bool) -> str:
    """Return a cell as wide as its column: flush left, or right."""
    padding = " " * (width - cell_len(cell))
    return cell + padding if is_left else padding + cell


def bands(
    groups: Sequence[Sequence[int]], names: int, widths: Sequence[int], width: int
) -> Iterator[list[int]]:
    """Yield the columns of each of the tables that a wide one becomes: the first `names`, and as
    many groups as fit into `width`, at least one.
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
    """Return words as lines of at most `width` columns, which begin with `first` and `further`. A
    word that is wider has a line of its own. (`textwrap` takes wide characters for narrow ones.)
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
    """Return how many of the first columns are flush left."""
    for column, is_left in enumerate(left):
        if not is_left:
            return column

    return len(left)


def _column_groups(heads: Row, names: int) -> list[list[int]]:
    """Return the columns after the names; one without a head, a unit, stays with that before it."""
    groups: list[list[int]] = []
    for column in range(names, len(heads)):
        if groups and not heads[column].strip():
            groups[-1].append(column)
        else:
            groups.append([column])

    return groups


def _record_lines(table: Sequence[Row], width: int) -> list[str]:
    """Return each row as a list of its cells, below one another and named by their heads."""
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
    """Return the cells of a row that are not empty, with their heads; a unit joins its figure."""
    cells: list[tuple[str, str]] = []
    for head, cell in zip(heads, row, strict=True):
        if cells and not head.strip():
            label, value = cells.pop()
            cells.append((label, f"{value} {cell}".rstrip()))
        elif cell.strip():
            cells.append((head, cell))

    return cells


def _value_lines(label: str, value: str, width: int) -> list[str]:
    """Return a value after its label, wrapped below itself; below its label if that is long."""
    indent = " " * cell_len(label)
    if len(indent) > width // 2:
        return [*folded_text(label.strip(), width), *folded_text(GAP + value, width)]

    return _divide_words(value, label, indent, width)


def _divide_words(text: str, first: str, further: str, width: int) -> list[str]:
    """Return a text as of `wrap_words`; a word that is wider than a line in pieces."""
    room = max(width - max(cell_len(first), cell_len(further)), 1)
    pieces: list[str] = []
    for word in text.split():
        pieces += chop_cells(word, room)

    return wrap_words(pieces, first, further, width)
