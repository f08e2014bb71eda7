"""Tables from papers as text, CSV, Markdown, LaTeX or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ktdeval.cards import clean
from ktdeval.cli import warn
from ktdeval.masking import MASK_KINDS
from ktdeval.registry import PaperTable, Pivot
from ktdeval.values import JsonValue
from ktdeval_compare.papers.latex import latex_table
from ktdeval_compare.table_columns import Part, ReportTable, lines_of

UNDEFINED = "-"
#: number format for each kind of column
FORMS = {
    "percent": "+z.2f",
    "share": ".2f",
    "ratio": "z.2f",
    "small": "z.3f",
    "points": "z.2f",
    "rank": "g",
}
_IN_PERCENT = ("percent", "share")
#: kinds of rows whose tables omit columns in which no card has a figure
_SPARSE = ("modes", "models", "masks", "factors", "suites", "kinds")

Column = tuple[str, str, str]
"""Heading, field and format."""


@dataclass(frozen=True, slots=True)
class _TextTable:
    """A table as plain text."""

    heads: list[str]
    rows: list[list[str]]
    words: list[str]  #: headings of the columns that contain text
    notes: tuple[str, ...]


def notes_of(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the notes that are printed below a table."""
    notes: tuple[str, ...] = tuple(frame.attrs.get("notes", ()))
    return notes


def write_table(table: PaperTable, frame: pd.DataFrame, form: str, width: int | None = None) -> str:
    """Return a frame in one of the output formats, with the table's caption, source and notes. CSV
    output has field names as headings, and shows fractions instead of percentages; its notes are
    given as warnings. `width` is the maximum number of characters in a line of plain text.
    """
    if form == "csv":
        for note in notes_of(frame):
            warn(note)

        has_names = frame.index.names != [None]
        return str(frame.to_csv(index=has_names))

    cells = _pivot_table(table.pivot, frame) if table.pivot else _table_cells(table, frame)
    caption = f"{table.caption} ({table.source})"
    if form == "latex":
        return _latex(cells, ". ".join([caption, *cells.notes]))
    if form == "markdown":
        return _markdown(cells, caption)

    parts: list[Part] = [caption, ReportTable(cells.heads, cells.rows, cells.words)]
    parts += [f"  {note}" for note in cells.notes]
    return "\n".join([*lines_of(parts, width), ""])


def table_json(table: PaperTable, frame: pd.DataFrame) -> dict[str, JsonValue]:
    """Return a frame as JSON: columns, each with its field name and printed heading, and rows at
    full precision. A figure is null if it is undefined.
    """
    headings = {name: heading for heading, name, _ in _columns_of(table, frame)}
    columns: list[JsonValue] = []
    for column in frame:
        columns.append({"name": str(column), "heading": headings.get(str(column), str(column))})

    rows: list[JsonValue] = []
    for words, figures in _rows_of(frame):
        row: dict[str, JsonValue] = dict(words)
        for column, value in figures.items():
            row[column] = _json_figure(value)

        rows.append(row)

    return {
        "table": table.name,
        "caption": table.caption,
        "source": table.source,
        "notes": list(notes_of(frame)),
        "columns": columns,
        "rows": rows,
    }


def _rows_of(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield, for each row, the labels that identify it, and its fields."""
    names = [str(name) for name in frame.index.names if name is not None]
    columns = [str(column) for column in frame]
    for key, values in zip(frame.index, frame.itertuples(index=False, name=None), strict=True):
        words: dict[str, Any] = {}
        if names:
            words = dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True))
        yield words, dict(zip(columns, values, strict=True))


def _json_figure(value: Any) -> JsonValue:
    """Return a cell as a JSON value; None if the figure is undefined."""
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, list):
        return [_json_figure(each) for each in value]
    if _is_undefined(value):
        return None
    return float(value)


def _is_undefined(value: Any) -> bool:
    return value is None or (not isinstance(value, str | list) and bool(pd.isna(value)))


def _columns_of(table: PaperTable, frame: pd.DataFrame) -> Sequence[Column]:
    """Return the columns declared for a table. If none are declared, return the columns of the
    frame.
    """
    listed: Sequence[Column] = frame.attrs.get("columns", table.columns)
    return listed or [(str(name), str(name), "ratio") for name in frame]


def _table_cells(table: PaperTable, frame: pd.DataFrame) -> _TextTable:
    """Return a frame's figures as the table shows them. For tables whose cards need not have all
    figures, columns without any figure are omitted.
    """
    columns = _columns_of(table, frame)
    if table.rows == "modes":
        frame = _spell_quartiles(frame)
        columns = [(mask, mask, "") for mask in MASK_KINDS]

    shown: list[Column] = []
    for column in columns:
        name = column[1]
        if name in frame and (table.rows not in _SPARSE or frame[name].notna().any()):
            shown.append(column)

    rows = []
    words: list[str] = [str(name) for name in frame.index.names if name is not None]
    left = list(words)
    for named, fields in _rows_of(frame):
        figures = [_cell_text(name, how, fields) for _, name, how in shown]
        rows.append([*map(str, named.values()), *figures])

    for head, name, how in shown:
        if "{" in how and len(frame) and isinstance(frame[name].iloc[0], str):
            left.append(head)

    heads = [*words, *(head for head, _, _ in shown)]
    return _TextTable(heads, rows, left, notes_of(frame))


def _cell_text(name: str, how: str, fields: Mapping[str, Any]) -> str:
    """Return a row's field as the column shows it. The text is a dash if the field is undefined."""
    value = fields[name]
    if _is_undefined(value):
        return UNDEFINED
    if "{" in how:
        return clean(_format_fields(fields, how))
    if isinstance(value, str):
        return value

    scaled = value * 100 if how in _IN_PERCENT else value
    return f"{scaled:{FORMS[how]}}"


def _format_fields(fields: Mapping[str, Any], form: str) -> str:
    """Return a row's fields as text, in a format string in which `NAME_pct` is the field NAME in
    per cent.
    """
    values = dict(fields)
    for name, value in fields.items():
        if isinstance(value, bool):
            values[name] = "yes" if value else "no"
        elif isinstance(value, float):
            values[f"{name}_pct"] = 100.0 * value

    return form.format(**values)


def _pivot_table(pivot: Pivot, frame: pd.DataFrame) -> _TextTable:
    """Return a table with one numbered column per name. The full names are listed below the
    table.
    """
    cells: dict[str, dict[str, str]] = {}  #: value of the first column -> name -> figure
    names: dict[str, None] = {}
    for _, fields in _rows_of(frame):
        parts = [clean(str(fields[name])) for name in pivot.names if fields[name]]
        name = " · ".join(parts)
        names[name] = None
        cells.setdefault(fields[pivot.by], {})[name] = _format_fields(fields, pivot.cell)

    rows = []
    for first in sorted(cells):
        rows.append([first, *(cells[first].get(name, UNDEFINED) for name in names)])

    heads = [pivot.head, *(str(number) for number in range(1, len(names) + 1))]
    legend = [f"{number}  {name}" for number, name in enumerate(names, 1)]
    return _TextTable(heads, rows, heads[:1], (*legend, *notes_of(frame)))


def _latex(cells: _TextTable, caption: str) -> str:
    layout = "".join("l" if head in cells.words else "r" for head in cells.heads)
    return latex_table(cells.heads, cells.rows, layout, caption)


def _markdown(cells: _TextTable, caption: str) -> str:
    rule = ["---" if head in cells.words else "---:" for head in cells.heads]
    lines = [caption, ""]
    for row in (cells.heads, rule, *cells.rows):
        # A vertical bar, for example in a model's name, would otherwise end the cell.
        texts = [text.replace("|", "\\|") for text in row]
        lines.append(f"| {' | '.join(texts)} |")

    lines.append("")
    for note in cells.notes:
        lines += [note, ""]
    return "\n".join(lines)


def _spell_quartiles(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the median and quartiles for each mask, joined into one string; of two episodes, their
    two returns.
    """
    texts: dict[str, list[str]] = {}
    for mask in MASK_KINDS:
        if mask in frame:
            texts[mask] = [_with_quartiles(row, mask) for _, row in frame.iterrows()]
    return pd.DataFrame(texts, frame.index)


def _with_quartiles(row: pd.Series[float], mask: str) -> str:
    both = [_percent_text(row.get(f"{mask}_{which}")) for which in ("first", "second")]
    if UNDEFINED not in both:
        return ", ".join(both)

    median = _percent_text(row[mask])
    low = _percent_text(row.get(f"{mask}_low"))
    high = _percent_text(row.get(f"{mask}_high"))
    if UNDEFINED in (low, high):
        return median
    return f"{median} [{low}, {high}]"


def _percent_text(value: Any) -> str:
    return _cell_text("value", "percent", {"value": value})
