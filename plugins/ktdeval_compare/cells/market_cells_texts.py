"""Report of `compare --by` as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ktdeval_compare.cells.market_cells import CellReport, CellRow, WindowCell
from ktdeval_compare.cells.regimes import RULES
from ktdeval_compare.table_columns import (
    COUNT,
    UNDEFINED,
    UNIT,
    VERDICT,
    Part,
    ReportColumn,
    figure_column,
    grid,
    interval,
    note_parts,
    p_of,
    text,
    unless_alone,
)

_MEANS = {"window": "mean over windows (median over seeds)", "day": "mean a year over days"}
_YEARS = {"window": "the year is that of the first fill", "day": "the year is that of the day"}
_PLACES = {
    "window": "the cell is that of the first decision",
    "day": "the cell of a day is that of the decision filled on it",
}


def cell_parts(report: CellReport) -> Iterator[Part]:
    """Yield the parts of the `compare --by` report."""
    places = _YEARS if report.by == "year" else _PLACES
    place = places[report.unit]
    yield f"Figures of each card, {_MEANS[report.unit]}; {place}"
    yield _row_grid(report.cards, report, [text("card", "first")], [_WHY])
    if report.tests:
        yield ""
        yield f"Paired differences, first - second, {_MEANS[report.unit]}; {place}"
        tested = [p_of("p"), p_of("Holm p", "p_holm"), VERDICT]
        yield _row_grid(report.tests, report, [text("first"), text("second")], tested)

    yield f"  n: {report.unit}s; interval: {_INTERVALS[report.unit]}; verdict: by Holm p"
    if report.windows:
        yield ""
        yield "Windows and their cells"
        yield from _window_parts(report.windows)

    if report.by == "regime":
        yield from (f"  {name}: {_rule_words(name)}" for name in RULES)

    yield from note_parts(report.notes)


_INTERVALS = {
    "window": "Student's t, allowing for shared days",
    "day": "Newey-West",
}
_WHY = text("", "reason", none="")


def _row_grid(
    rows: Sequence[CellRow],
    report: CellReport,
    names: Sequence[ReportColumn[CellRow]],
    last: Sequence[ReportColumn[CellRow]],
) -> Part:
    shown = rows
    for key in ("task", "market"):
        shown = unless_alone(shown, key)

    return grid(
        shown,
        text("task"),
        text("market"),
        *names,
        text("by"),
        text("cell"),
        text("metric"),
        COUNT,
        figure_column("mean"),
        UNIT,
        interval(report.alpha),
        *last,
    )


def _window_parts(windows: Sequence[WindowCell]) -> Iterator[Part]:
    """Yield one row per window, with the window's cell under each rule."""
    shown: Sequence[WindowCell] = windows
    for key in ("task", "market"):
        shown = unless_alone(shown, key)

    by_window: dict[tuple[str, str, str], list[WindowCell]] = {}
    for one in shown:
        by_window.setdefault((one.task, one.market, one.window), []).append(one)

    heads = [one.by for one in next(iter(by_window.values()))]
    yield grid(
        by_window.values(),
        *[
            ReportColumn(head, _first_of(head), is_left=True)
            for head in ("task", "market", "window")
        ],
        ReportColumn("decided on", lambda row: row[0].decided_on or UNDEFINED),
        *[ReportColumn(head, _cell_of(k), is_left=True) for k, head in enumerate(heads)],
    )


def _first_of(name: str) -> Callable[[list[WindowCell]], str]:
    return lambda row: str(getattr(row[0], name))


def _cell_of(number: int) -> Callable[[list[WindowCell]], str]:
    """Return a function that formats a window's cell under one rule, together with the figure that
    determined the cell.
    """

    def cell(row: list[WindowCell]) -> str:
        one = row[number]
        if one.cell is None or one.figure is None:
            return one.cell or UNDEFINED
        return f"{one.cell} {one.figure:.3f}"

    return cell


def _rule_words(name: str) -> str:
    rule = RULES[name]
    return f"{rule.high} where the {rule.measure}, of {rule.days} days, is above {rule.split:g}"
