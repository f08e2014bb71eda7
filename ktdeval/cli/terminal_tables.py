"""Listings as columns that `cut` and `grep` can also read, and descriptions of a Spec's
parameters.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from ktdeval.values.documents.strict_json import JsonValue, plain

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec
    from ktdeval.values.findings import Finding

_GAP = "  "
_MIN_WIDTH = 16  # minimum width of a wrapped column


def terminal_width() -> int:
    """Return the width of the terminal in columns, or 100 if the output is not a terminal."""
    return shutil.get_terminal_size(fallback=(100, 24)).columns


def print_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print aligned columns without truncating anything. Empty columns other than the first are
    omitted.

    Each row is one line. If the rows do not fit the terminal, the longest columns wrap.
    """
    rows = list(rows)
    shown = [0]
    for column in range(1, len(header)):
        if any(row[column] for row in rows):
            shown.append(column)

    pick = _picker(shown)
    table = [pick(header), *map(pick, rows)]
    widths = [max(map(len, cells)) for cells in zip(*table)]
    if sys.stdout.isatty():
        widths = _fitted_widths(widths, terminal_width())

    for row in table:
        for line in _wrap_row(row, widths):
            padded = [cell.ljust(width) for cell, width in zip(line, widths)]
            click.echo(_GAP.join(padded).rstrip())


def print_groups(groups: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Print names with their summaries under headings, wrapped to the terminal. If the names are
    too long for a narrow terminal, summaries are placed on the next line.
    """
    for title, rows in groups.items():
        click.secho(title, bold=True)
        for line in _name_lines(rows, terminal_width()):
            click.echo(line)


def _name_lines(rows: Sequence[tuple[str, str]], width: int) -> Iterable[str]:
    """Yield lines with names and their summaries, of at most `width` columns each."""
    import textwrap

    column = max(len(name) for name, _ in rows) + 2 * len(_GAP)
    is_beside = column <= width // 2
    indent = " " * (column if is_beside else 3 * len(_GAP))

    for name, summary in rows:
        room = max(width - len(indent), _MIN_WIDTH)
        lines = [indent + part for part in textwrap.wrap(summary, room, break_on_hyphens=False)]
        head = f"{_GAP}{name}"
        if is_beside and lines:
            head += lines.pop(0)[len(head) :]

        yield head
        yield from lines


def print_grid(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()
) -> None:
    """Print a table of figures, as returned by `grid_lines`, folded to the terminal's width."""
    click.echo("\n".join(grid_lines(columns, rows, left, line_width())))


def grid_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[str] = (),
    width: int | None = None,
    indent: str = "",
) -> list[str]:
    """Return a table of figures as lines, omitting columns that are entirely empty.

    Columns listed in `left` are left-aligned, others right-aligned. Cells may contain third-party
    text: control characters are removed, and wide characters take two columns. Lines begin with
    `indent` and, including it, take at most `width` columns; None means no limit.
    """
    # not at the top, since `ktdeval --help` imports this module
    from ktdeval.cards import clean
    from ktdeval.cards.text_wrapping import aligned_lines, folded_lines

    shown = []
    for column in range(len(columns)):
        if any(row[column] for row in rows):
            shown.append(column)

    pick = _picker(shown)
    head = pick(columns)
    table = [head]
    for row in rows:
        cells = [clean(cell) for cell in pick(row)]
        table.append(cells)

    is_left = [name in left for name in head]
    if width is None:
        lines = aligned_lines(table, is_left)
    else:
        lines = folded_lines(table, is_left, width - len(indent))

    return [f"{indent}{line}".rstrip() for line in lines]


def line_width() -> int | None:
    """Return the maximum width of a line in columns: that of the terminal, or None without a
    terminal.
    """
    return terminal_width() if sys.stdout.isatty() else None


def _picker(columns: Sequence[int]) -> Callable[[Sequence[str]], list[str]]:
    """Return a function that picks these columns from a row."""

    def pick(row: Sequence[str]) -> list[str]:
        return [row[column] for column in columns]

    return pick


def _fitted_widths(widths: Sequence[int], room: int) -> list[int]:
    """Return column widths narrowed until a row fits into `room`. The widest columns are narrowed
    first, and the first column never.
    """
    fitted = list(widths)
    gaps = len(_GAP) * (len(fitted) - 1)
    while sum(fitted) + gaps > room and len(fitted) > 1:
        widest = max(range(1, len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= _MIN_WIDTH:
            break

        fitted[widest] -= 1

    return fitted


def _wrap_row(row: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[str, ...]]:
    """Return a row as one line, or as several lines if a cell is wider than its column."""
    if all(len(cell) <= width for cell, width in zip(row, widths)):
        return [tuple(row)]

    import textwrap

    columns = []
    for cell, width in zip(row, widths):
        parts = textwrap.wrap(cell, width, break_on_hyphens=False)
        columns.append(parts or [""])

    return zip_longest(*columns, fillvalue="")


def report_findings(
    findings: Sequence[Finding], as_json: bool, summary: str, **facts: JsonValue
) -> int:
    """Print findings and a summary line, or JSON with the findings and `facts`. Return the exit
    code of the check.
    """
    from ktdeval.values.findings import exit_code, findings_json

    if as_json:
        print_json(findings_json(findings, **facts))
    else:
        print_findings(findings)
        click.echo(summary)

    return exit_code(findings)


def print_findings(findings: Sequence[Finding], max_shown: int | None = 100) -> None:
    """Print up to `max_shown` findings, and the number of findings omitted. None prints all
    findings.
    """
    from ktdeval.cards import clean
    from ktdeval.values.findings import finding_lines

    for finding in findings[:max_shown]:
        for line in finding_lines(finding):
            click.echo(clean(line))

    if max_shown is not None and len(findings) > max_shown:
        click.echo(f"… and {len(findings) - max_shown:,} more; --json lists all")


def print_json(value: Any) -> None:
    """Print indented JSON, keeping the order of keys."""
    import json  # not at the top, since `ktdeval --help` imports this module

    click.echo(json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def params_of(spec: Spec) -> Sequence[dataclasses.Field[Any]]:
    """Return the fields of a Spec's parameters; empty if it has no parameters."""
    if spec.params is None:
        return ()
    return dataclasses.fields(spec.params)


def param_json(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Return the description of a parameter in listings: name, type, required, default, help."""
    missing = dataclasses.MISSING
    default = None
    if field.default_factory is not missing:
        default = plain(field.default_factory())
    elif field.default is not missing:
        default = plain(field.default)

    type_name = field.type
    if not isinstance(type_name, str):
        type_name = getattr(type_name, "__name__", str(type_name))

    return {
        "name": field.name,
        "type": type_name,
        "required": field.default is missing and field.default_factory is missing,
        "default": default,
        "help": field.metadata.get("help", ""),
    }
