"""Tables of several cards, as aligned plain text: columns, figures with their units, intervals, p-values, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ktdeval.cli import grid_lines
from ktdeval_compare.entrants import Row

UNDEFINED = "-"


class Column(NamedTuple):
    """Column of a table: its head, and how a row is shown in it."""

    head: str
    cell: Callable[[Row], str]
    is_left: bool = False


def grid(rows: Iterable[Row], *columns: Column) -> Iterator[str]:
    """Lines of an aligned table."""
    cells = [[column.cell(row) for column in columns] for row in rows]
    yield from (f"  {line}" for line in grid_lines([column.head for column in columns], cells,
                                                   [column.head for column in columns if column.is_left]))  # fmt: skip


def text(head: str, name: str = "", is_left: bool = True) -> Column:
    """A column of texts."""
    return Column(head, lambda row: str(row[name or head]), is_left)


def figure_of(head: str, name: str = "value") -> Column:
    """A column of signed figures."""
    return Column(head, lambda row: figure(row[name], row["unit"]))


def plain(head: str, name: str, none: str = UNDEFINED) -> Column:
    """A figure without the sign of a positive one."""
    return Column(head, lambda row: none if row[name] is None else figure(row[name], row["unit"]).removeprefix("+"))


def p_of(head: str, name: str = "") -> Column:
    """A column of p-values."""
    return Column(head, lambda row: p_value(row[name or head]))


COUNT = text("n", is_left=False)
UNIT = Column("", lambda row: unit_name(row["unit"]))
VERDICT = Column("verdict", lambda row: row["verdict"] or f"not tested: {row['reason']}", is_left=True)


def interval(alpha: float, is_signed: bool = True) -> Column:
    """A column of both ends of an interval, with its level."""
    plus = "+" if is_signed else ""
    return Column(f"{100 * (1 - alpha):g} % interval", lambda row: both(row["low"], row["high"], row["unit"]).replace("+", plus))


def unless_alone(rows: Sequence[Row], key: str, others: Sequence[Row] = ()) -> list[Row]:
    """Rows, with an empty `key` where all of them (and of the others) have the same."""
    return list(rows) if len({row[key] for row in (*rows, *others)}) > 1 else [{**row, key: ""} for row in rows]


def figure(value: float | None, unit: str) -> str:
    """A signed figure; fractions in per cent."""
    if value is None:
        return UNDEFINED
    scaled = 100.0 * value if unit == "fraction" else value
    text = f"{scaled:+.{3 if abs(scaled) < 10 else 2}f}"
    return text.replace("+", " ").strip() if float(text) == 0 else text


def both(low: float | None, high: float | None, unit: str) -> str:
    """Both ends of an interval."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit)} … {figure(high, unit)}"


def p_value(value: float | None) -> str:
    """Three significant digits."""
    return UNDEFINED if value is None else f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def unit_name(unit: str) -> str:
    """A unit as tables show it."""
    return {"fraction": "%", "ratio": ""}.get(unit, unit)
