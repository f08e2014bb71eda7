"""Listings as columns, for readers, `cut` and `grep` alike, and the parameters of a Spec as rows or JSON."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from ktdeval.jsonio import plain

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec

_GAP = "  "
_LEAST_WIDTH = 16  # of a column that is wrapped


def print_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print aligned columns; those that are empty throughout are left out. Nothing is cut off. Each row is one line, except on a
    terminal too narrow for it, where the longest columns are wrapped.
    """
    rows = list(rows)
    kept = [column for column in range(len(header)) if column == 0 or any(row[column] for row in rows)]
    table = [[row[column] for column in kept] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(kept))]
    if sys.stdout.isatty():
        widths = _fit(widths, terminal_width())
    for row in table:
        for line in _lines(row, widths):
            click.echo(_GAP.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def grid_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """Return a table of figures as lines: columns named in `left` are flush left, others right; those empty throughout are left
    out. Cells may be foreign text: control characters are removed, and wide characters count as two columns.
    """
    from rich.cells import cell_len  # not at the top, since `ktdeval --help` imports this module

    from ktdeval.cards import clean

    kept = [column for column in range(len(columns)) if any(row[column] for row in rows)]
    head = [columns[column] for column in kept]
    table = [head, *([clean(row[column]) for column in kept] for row in rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    lines = []
    for row in table:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths)]
        cells = (f"{cell}{gap}" if name in left else f"{gap}{cell}" for cell, gap, name in zip(row, gaps, head))
        lines.append(_GAP.join(cells).rstrip())
    return lines


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (ValueError, OSError):  # no number, not a terminal, or stdout is replaced
        return 100


def _fit(widths: Sequence[int], room: int) -> list[int]:
    """Narrow the widest columns, never the first, until a row fits into `room`."""
    fitted = list(widths)
    while sum(fitted) + len(_GAP) * (len(fitted) - 1) > room and len(fitted) > 1:
        widest = max(range(1, len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= _LEAST_WIDTH:
            break
        fitted[widest] -= 1
    return fitted


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[str, ...]]:
    """Return the row as one line, or as several where a cell is longer than its column."""
    if all(len(cell) <= width for cell, width in zip(row, widths)):
        return [tuple(row)]
    import textwrap

    cells = [textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths)]
    return zip_longest(*cells, fillvalue="")


def print_json(value: Any) -> None:
    """Print indented JSON, keys in the order given."""
    import json  # not at the top, since `ktdeval --help` imports this module

    click.echo(json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def params_of(spec: Spec) -> Sequence[dataclasses.Field[Any]]:
    """Return the fields of a Spec's parameters; none where it takes none."""
    return dataclasses.fields(spec.params) if spec.params is not None else ()


def param_json(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Return one parameter for listings: name, type, required, default, help."""
    missing = dataclasses.MISSING
    default = None if field.default is missing else plain(field.default)
    if field.default_factory is not missing:
        default = plain(field.default_factory())
    return {
        "name": field.name,
        "type": field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type)),
        "required": field.default is missing and field.default_factory is missing,
        "default": default,
        "help": field.metadata.get("help", ""),
    }
