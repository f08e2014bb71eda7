"""Report of `compare cohorts` as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ktdeval_compare.cohort_words import BASELINE, LEGENDS, TITLES
from ktdeval_compare.cohorts.cohort_comparison import BaselineRow, CohortReport
from ktdeval_compare.masks.declined_trades import DeclinedShare
from ktdeval_compare.style_exposures import FactorRow
from ktdeval_compare.table_columns import (
    UNDEFINED,
    VERDICT,
    Part,
    ReportColumn,
    both,
    figure,
    figure_column,
    grid,
    interval,
    interval_head,
    make_table,
    p_of,
    text,
)


def cohort_parts(report: CohortReport) -> Iterator[Part]:
    """Yield the parts of the `compare cohorts` report."""
    if report.exposures:
        yield TITLES["exposures"]
        yield from _exposure_parts(report)
        yield from (f"  {LEGENDS['exposures']}", "")

    yield TITLES["baseline"]
    yield from _baseline_parts(report)
    yield from (f"  {LEGENDS['baseline']}", "")

    if report.declines:
        yield TITLES["declines"]
        yield make_table(
            "declines",
            report.declines,
            cells={
                "bright": lambda row: _describe_declined(row.bright, row.n),
                "blinded": lambda row: _describe_declined(row.blinded, row.n),
            },
        )
        yield from (f"  {LEGENDS['declines']}", "")

    yield "Notes"
    yield from (f"  {note}" for note in report.notes)


# ---- exposures


def _exposure_parts(report: CohortReport) -> Iterator[Part]:
    columns: list[ReportColumn[FactorRow]] = [text("factor")]
    for summary in report.cohorts:
        columns += _cohort_columns(summary.cohort)

    yield grid(report.exposures, *columns)
    for summary in report.cohorts:
        yield (
            f"  {summary.cohort}: {summary.same_sign} of {summary.members} models have the signs of"
            " its mean in all factors"
        )

    if len(report.cohorts) > 1:
        yield from _difference_parts(report)


def _cohort_columns(name: str) -> list[ReportColumn[FactorRow]]:
    """Return the columns for one cohort: its mean, and the number of members whose exposure has the
    same sign as the mean.
    """

    def mean(row: FactorRow) -> str:
        return figure(row.cohorts[name].mean, "ratio")

    def same_sign(row: FactorRow) -> str:
        cohort = row.cohorts[name]
        return f"{cohort.same_sign} of {cohort.members}"

    return [ReportColumn(name, mean), ReportColumn("same sign", same_sign)]


def _difference_parts(report: CohortReport) -> Iterator[Part]:
    agreement = report.agreement
    agree = ", ".join(agreement.agree) or "none"
    shown = ", ".join(agreement.agreement_shown) or "none"
    yield (
        f"  cohorts agree in sign on {len(agreement.agree)} of {agreement.factors} factors: {agree}"
    )
    yield f"  with every cohort's interval on that side of zero: {shown}"
    yield ""

    # Two cohorts have one difference, named in the heading. With more cohorts each row names its
    # pair.
    pair = [text("first"), text("second")]
    head = "difference"
    if len(report.cohorts) == 2:
        pair = []
        head = " - ".join(summary.cohort for summary in report.cohorts)

    yield grid(
        report.differences,
        text("factor"),
        *pair,
        figure_column(head),
        interval(report.alpha),
        p_of("p"),
        p_of("Holm p", "p_holm"),
        replace(VERDICT, head="higher"),
    )


# ---- return and risk


@dataclass(frozen=True, slots=True)
class _ReturnsLine:
    """A line in the table of returns and risk, as text."""

    model: str
    cohort: str
    seeds: str
    cells: Mapping[str, str]  #: cells by metric


def _baseline_parts(report: CohortReport) -> Iterator[Part]:
    lines: list[_ReturnsLine] = []
    for row in report.baseline:
        lines += _lines_of(row, report.alpha)

    columns: list[ReportColumn[_ReturnsLine]] = [
        text("model"),
        text("cohort"),
        text("seeds", is_left=False),
    ]
    columns += [_metric_column(column.head, column.metric) for column in BASELINE]
    yield grid(lines, *columns)


def _metric_column(head: str, metric: str) -> ReportColumn[_ReturnsLine]:
    return ReportColumn(head, lambda line: line.cells[metric].replace("+", ""))


def _lines_of(row: BaselineRow, alpha: float) -> Iterator[_ReturnsLine]:
    """Yield a line with the row's figures, then a line with their intervals, if there are any."""
    values = {}
    ends = {}
    for column in BASELINE:
        cell = row.figures[column.metric]
        values[column.metric] = figure(cell.value, column.unit)
        ends[column.metric] = both(cell.low, cell.high, column.unit)

    seeds = "" if row.seeds is None else str(row.seeds)
    yield _ReturnsLine(row.model, row.cohort, seeds, values)

    if set(ends.values()) != {UNDEFINED}:
        yield _ReturnsLine(f"  {interval_head(alpha)}", "", "", ends)


# ---- declines


def _describe_declined(share: DeclinedShare, n: int) -> str:
    count = f"{share.declined} of {n}"
    if share.low is None:
        return count
    return f"{count} [{share.low:.2f}, {share.high:.2f}]"
