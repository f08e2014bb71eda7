"""Columns of the tables that commands on cards print, and formats for their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
import msgspec

from ktdeval.cards import folded_texts, is_fraction, percent, unit_word
from ktdeval.cli import grid_lines, line_width
from ktdeval.values import dumps_pretty, load_yaml, to_plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

UNDEFINED = "-"

RowT = TypeVar("RowT")
_Record = TypeVar("_Record", bound="DataclassInstance | msgspec.Struct")


@dataclass(frozen=True, slots=True)
class ReportColumn(Generic[RowT]):
    """A table column: its heading, and a function that formats the cell for a row."""

    head: str
    cell: Callable[[RowT], str]
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class ReportTable:
    """An aligned table in a report."""

    heads: list[str]
    cells: list[list[str]]
    left: list[str]  #: headings of left-aligned columns
    indent: str = "  "

    def lines(self, width: int | None) -> list[str]:
        """Return the lines of the table, at most `width` columns wide. If `width` is None, the
        width is unlimited.
        """
        return grid_lines(self.heads, self.cells, self.left, width, self.indent)


Part = str | ReportTable
"""Part of a report: a line of text, or a table."""


def lines_of(parts: Iterable[Part], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a report, wrapped to `width` columns. If `width` is None, lines are not
    wrapped.
    """
    for part in parts:
        if isinstance(part, ReportTable):
            yield from part.lines(width)
        else:
            yield from folded_texts([part], width)


def print_result(
    document: object, parts: Iterable[Part], made: tuple[str, Path] | None, as_json: bool
) -> None:
    """Print the result of a command, either `document` as JSON or `parts` as text. `made` is the
    command's name and the folder to which it wrote. If `made` is given, the text ends with both. It
    is None if an existing result is shown.
    """
    if as_json:
        click.echo(dumps_pretty(to_plain(document)), nl=False)
        return

    for line in lines_of(parts, line_width()):
        click.echo(line)

    if made is not None:
        name, folder = made
        click.echo(f"\n{name}  {folder}")


def grid(rows: Iterable[RowT], *columns: ReportColumn[RowT], indent: str = "  ") -> ReportTable:
    """Return rows as an aligned table with the given columns."""
    heads = [column.head for column in columns]
    left = [column.head for column in columns if column.is_left]
    cells: list[list[str]] = []
    for row in rows:
        cells.append([column.cell(row) for column in columns])

    return ReportTable(heads, cells, left, indent)


@cache
def _columns_by_table() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    return load_yaml(Path(__file__).with_name("tables.yaml"))


def make_table(
    name: str,
    rows: Iterable[Any],
    alpha: float = 0.05,
    cells: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    indent: str = "  ",
) -> ReportTable:
    """Return a table that is declared in `tables.yaml`. For the other arguments, see
    `declared_table`.
    """
    return declared_table(_columns_by_table()[name], rows, alpha, cells, indent)


def declared_table(
    declared_columns: Sequence[Mapping[str, Any]],
    rows: Iterable[Any],
    alpha: float = 0.05,
    cells: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    indent: str = "  ",
) -> ReportTable:
    """Return a table with declared columns. `alpha` is the significance level for its intervals.
    `cells` are functions that format the cells of columns of kind `own`, by heading.
    """
    columns = []
    for declared in declared_columns:
        settings = dict(declared)
        kind, head = next(iter(declared.items()))
        del settings[kind]
        if kind == "own":
            columns.append(ReportColumn(head, cells[head], **settings))
        elif kind == "interval":
            columns.append(interval(alpha, **settings))
        else:
            columns.append(_COLUMN_KINDS[kind](head, **settings))

    return grid(rows, *columns, indent=indent)


def note_parts(notes: Sequence[str]) -> Iterator[Part]:
    """Yield a report's notes below a title. Yields nothing without notes."""
    if notes:
        yield ""
        yield "Notes"
        yield from (f"  {note}" for note in notes)


def field_of(row: Any, name: str) -> Any:
    """Return a field of a row, or of a part of the row, by name, such as `shift.low`. Return None
    if the part is None.
    """
    value = row
    for part in name.split("."):
        if value is None:
            return None

        value = getattr(value, part)

    return value


def text(
    head: str, name: str = "", is_left: bool = True, none: str = UNDEFINED
) -> ReportColumn[Any]:
    """Return a column of strings. `name` is the field to show; by default, it is `head`."""

    def cell(row: Any) -> str:
        value = field_of(row, name or head)
        return none if value is None else str(value)

    return ReportColumn(head, cell, is_left)


def format_column(
    head: str, name: str, form: str, scale: int = 1, none: str = UNDEFINED
) -> ReportColumn[Any]:
    """Return a column of figures that are multiplied by `scale`, in a format such as `{:.0f} %`."""

    def cell(row: Any) -> str:
        value = field_of(row, name)
        return none if value is None else form.format(scale * value)

    return ReportColumn(head, cell)


def figure_column(head: str, name: str = "value", unit: str | None = None) -> ReportColumn[Any]:
    """Return a column of signed figures, in `unit` or, by default, in the row's unit."""
    return ReportColumn(head, lambda row: figure(field_of(row, name), unit or row.unit))


def figure_with_ends(head: str, value: str, ends: str = "") -> ReportColumn[Any]:
    """Return a column of signed shares. A share that has an interval is followed by the interval's
    ends in brackets. `ends` names the part of the row that has `low` and `high`; by default, this
    is the row itself.
    """

    def cell(row: Any) -> str:
        shown = figure(field_of(row, value), "fraction")
        of = field_of(row, ends) if ends else row
        if of.low is None:
            return shown
        return f"{shown} [{both(of.low, of.high, 'fraction')}]"

    return ReportColumn(head, cell)


def plain(
    head: str, name: str, none: str = UNDEFINED, unit: str | None = None
) -> ReportColumn[Any]:
    """Return a column of figures without a plus sign."""

    def cell(row: Any) -> str:
        value = field_of(row, name)
        if value is None:
            return none
        return figure(value, unit or row.unit).removeprefix("+")

    return ReportColumn(head, cell)


def p_of(head: str, name: str = "") -> ReportColumn[Any]:
    """Return a column of p-values."""
    return ReportColumn(head, lambda row: p_value(field_of(row, name or head)))


def _number(head: str, name: str = "", none: str = UNDEFINED) -> ReportColumn[Any]:
    return text(head, name, is_left=False, none=none)


def _verdict_text(row: Any) -> str:
    verdict: str | None = row.verdict
    return verdict or f"not tested: {row.reason}"


COUNT = text("n", is_left=False)
UNIT: ReportColumn[Any] = ReportColumn("", lambda row: unit_name(row.unit))
VERDICT: ReportColumn[Any] = ReportColumn("verdict", _verdict_text, is_left=True)

_COLUMN_KINDS: Mapping[str, Callable[..., ReportColumn[Any]]] = {
    "text": text,
    "number": _number,
    "format": format_column,
    "figure": figure_column,
    "with_ends": figure_with_ends,
    "plain": plain,
    "p": p_of,
    "unit": lambda _: UNIT,
    "verdict": lambda _: VERDICT,
}


def interval(
    alpha: float, is_signed: bool = True, unit: str | None = None, part: str = ""
) -> ReportColumn[Any]:
    """Return a column with both ends of an interval, whose heading gives the level. `part` is the
    prefix of the fields for both ends, such as `shift.`.
    """

    def cell(row: Any) -> str:
        low = field_of(row, f"{part}low")
        high = field_of(row, f"{part}high")
        ends = both(low, high, unit or row.unit)
        return ends if is_signed else ends.replace("+", "")

    return ReportColumn(interval_head(alpha), cell)


def interval_head(alpha: float) -> str:
    """Return the heading for a column of intervals at level `1 - alpha`."""
    return f"{percent(1 - alpha, 'g')} interval"


def unless_alone(rows: Sequence[_Record], key: str, others: Sequence[object] = ()) -> list[_Record]:
    """Return the rows. If all rows, including `others`, have the same value for `key`, this field
    is empty in the returned rows.
    """
    values = {getattr(row, key) for row in (*rows, *others)}
    if len(values) > 1:
        return list(rows)

    return [_blank_row(row, key) for row in rows]


def _blank_row(row: _Record, key: str) -> _Record:
    changes: dict[str, Any] = {key: ""}
    if isinstance(row, msgspec.Struct):
        return msgspec.structs.replace(row, **changes)
    return replace(row, **changes)


def figure(value: float | None, unit: str) -> str:
    """Return a signed figure as text. Fractions are shown in per cent."""
    if value is None:
        return UNDEFINED

    scaled = 100.0 * value if is_fraction(unit) else value
    digits = 3 if abs(scaled) < 10 else 2
    text = f"{scaled:+.{digits}f}"
    is_zero = float(text) == 0
    return text[1:] if is_zero else text


def both(low: float | None, high: float | None, unit: str) -> str:
    """Return both ends of an interval as text."""
    if low is None or high is None:
        return UNDEFINED
    return f"{figure(low, unit)} … {figure(high, unit)}"


def p_value(value: float | None) -> str:
    """Return a p-value as text, with four decimal places or, below 0.0001, in scientific
    notation.
    """
    if value is None:
        return UNDEFINED
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def unit_name(unit: str) -> str:
    """Return a unit as shown in tables; empty for a ratio."""
    if unit == "count":
        return unit
    return unit_word(unit)
