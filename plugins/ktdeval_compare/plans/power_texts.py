"""Power of a plan as plain text: the numbers of windows and seeds that a comparison needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import count
from ktdeval_compare.plans.power import PowerReport, SeedsRow, WindowReach
from ktdeval_compare.table_columns import (
    Part,
    ReportColumn,
    figure,
    grid,
    make_table,
    plain,
    text,
    unit_name,
)

_MAX_TESTS = 1000  #: larger numbers of tests are not shown


def power_parts(reports: Sequence[PowerReport]) -> Iterator[Part]:
    """Yield the parts of the `compare power` report, which has one plan per pair of cards."""
    shown: Sequence[WindowReach] = ()
    for report in reports:
        if report.reach != shown:
            yield from _reach_parts(report)
            shown = report.reach

        yield ""
        yield from _plan_parts(report)


def _reach_parts(report: PowerReport) -> Iterator[Part]:
    yield f"What a two-sided signed-rank test over windows can show at {report.alpha:g}"
    yield make_table("reach", report.reach, cells={"tests it can carry": _tests})
    yield (
        "  found: effect in standard deviations of a window's difference, with probability"
        f" {report.power:g}"
    )


def _tests(row: WindowReach) -> str:
    return f"over {_MAX_TESTS}" if row.tests > _MAX_TESTS else str(row.tests)


def _plan_parts(report: PowerReport) -> Iterator[Part]:
    level = f"{report.alpha:g}"
    if report.comparisons > 1:
        level += f" / {report.comparisons}"

    windows = count(report.windows, "window")
    title = f"The plan: {windows}, {count(report.seeds, 'seed')}, level {level}"
    yield f"{report.pair}: {title}" if report.pair else title
    yield from (f"  {line}" for line in report.sentences)

    if report.by_seeds:
        yield from _seeds_parts(report)
    if report.reason:
        yield f"  {report.reason}"


def _seeds_parts(report: PowerReport) -> Iterator[Part]:
    unit = report.unit
    wanted = report.effect

    def needed_text(row: SeedsRow) -> str:
        if wanted is None:
            return ""
        return "over 300" if row.windows_needed is None else str(row.windows_needed)

    head = ""
    if wanted is not None:
        head = f"windows to find {figure(wanted, unit)} {unit_name(unit)}".rstrip()

    yield grid(
        report.by_seeds,
        text("seeds", is_left=False, none="unlimited"),
        plain("SD of a window's difference", "pair_sd", unit=unit),
        plain(f"{report.windows} windows find", "effect", "nothing", unit),
        ReportColumn("", lambda _: unit_name(unit)),
        plain("a year", "effect_per_year", "", unit),
        plain("z test a year", "effect_normal_per_year", "", unit),
        ReportColumn(head, needed_text),
    )
    yield "  z test: the same by the normal approximation, which few windows do not justify"
