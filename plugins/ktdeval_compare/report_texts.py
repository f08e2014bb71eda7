"""Reports of `compare` and `compare masks` as aligned plain-text tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET

from ktdeval.cards import count, percent
from ktdeval_compare.forks.episode_distance import WORDS
from ktdeval_compare.masks.mask_effects import EffectsReport, LadderRow
from ktdeval_compare.pairs.report_types import BestSet, CompareReport, DailyTest
from ktdeval_compare.pairs.score_comparison import ScoreReport
from ktdeval_compare.table_columns import (
    Part,
    ReportColumn,
    grid,
    interval,
    make_table,
    note_parts,
    p_of,
    plain,
    text,
    unless_alone,
)
from ktdeval_compare.variances.variance import IdenticalRuns, JointRow, ShareRow, VarianceReport

# ---- compare


def compare_parts(report: CompareReport) -> Iterator[Part]:
    """Yield the parts of the `compare` report."""
    pair = "(window, seed) pairs"
    if report.unit == "window":
        pair = "windows, each the median over its seeds"

    yield f"Paired differences, first - second, over {pair}"
    yield make_table("tests", unless_alone(report.tests, "task"), report.alpha)
    yield (
        "  shift: Hodges-Lehmann; effect: rank-biserial, -1 … 1; p: Wilcoxon; flip p: sign flips;"
        " tests two-sided; verdict: by Holm p"
    )
    yield ""
    yield "Daily returns (mean over seeds): difference of annualised Sharpe ratios"
    yield from _daily_parts(unless_alone(report.daily, "task"), report.alpha)
    yield ""
    yield (
        "Tied with the best by mean daily return (model confidence set,"
        f" {percent(1 - report.alpha, 'g')})"
    )
    for row in unless_alone(report.best, "task"):
        yield f"  {_where(row)}{_describe_tie(row)}"

    yield from note_parts(report.notes)


def _daily_parts(rows: Sequence[DailyTest], alpha: float) -> Iterator[Part]:
    tested = [row for row in rows if row.value is not None]
    if tested:
        yield make_table("daily", tested, alpha)

    for row in rows:
        if row.value is None:
            yield f"  {_where(row)}{row.first}, {row.second}: not tested: {row.reason}"


def _describe_tie(row: BestSet) -> str:
    if row.tied_with_best:
        return ", ".join(row.tied_with_best)
    return f"not tested: {row.reason}"


def _where(row: DailyTest | BestSet) -> str:
    return f"{row.task}: " if row.task else ""


def score_parts(report: ScoreReport) -> Iterator[Part]:
    """Yield the parts of the `compare` report on scoring cards."""
    yield "Scores of each card"
    for task, rows in itertools.groupby(report.scores, key=lambda row: row.task):
        yield f"  {task}"
        yield make_table("scores", rows, indent="    ")

    yield ""
    yield "Differences, first - second, paired by sample"
    if report.tests:
        yield make_table("score_tests", report.tests, report.alpha)

    yield (
        "  interval: t over samples; p: sign flips of the samples' differences; verdict: by Holm p"
    )
    yield from note_parts(report.notes)


# ---- compare --factor


def variance_parts(report: VarianceReport) -> Iterator[Part]:
    """Yield the parts of the `compare --factor` report."""
    sizes = " × ".join(
        f"{count} {factor}s" for count, factor in zip(report.levels, report.factors, strict=True)
    )
    each = "one run each" if report.replicates == 1 else f"{report.replicates} runs each"
    yield f"Shares of the variance of {report.metric}: {sizes}, {each}"
    columns = _share_columns(report)
    yield grid(unless_alone(report.shares, "asset"), *columns)
    yield (
        "  share: of the sum of squares of these runs; component: of the variance among other such"
        " levels, with its interval"
    )
    yield (
        "  p: permutations within each combination of the other factors (interactions: F); Holm p:"
        " over assets; verdict: by it"
    )
    yield "  p by permutations has a standard error of 0.0001 at 0.001 and of 0.0007 at 0.05"

    if report.without:
        first = report.factors[0]
        of_first = [row for row in report.without if row.source == first]
        yield ""
        yield f"Share of the {first} without each {first}"
        yield grid(unless_alone(of_first, "asset"), text("without"), *columns)

    if report.joint:
        yield from _joint_parts(report)

    yield ""
    yield f"Identical runs ({report.compared})"
    for row in report.identical:
        yield f"  {_identical(row)}"
    if not report.identical:
        yield "  none"

    yield from note_parts([*report.source, *report.notes])


def _joint_parts(report: VarianceReport) -> Iterator[Part]:
    """Yield the tests over all assets. Tests of the first factor are also shown without each of its
    levels.
    """
    first = report.factors[0]
    shown = [row for row in report.joint if row.without is UNSET or row.source == first]
    yield ""
    yield f"All {report.joint[0].assets} assets together"
    yield make_table("joint", shown, cells={"without": _left_out})
    yield (
        "  p: as above, but each run changes places with its figures on every asset; one test, of"
        " whether the factor matters on any of them"
    )


def _left_out(row: JointRow) -> str:
    return "" if row.without is UNSET else row.without


def _share_columns(report: VarianceReport) -> list[ReportColumn[ShareRow]]:
    fitted: list[ReportColumn[Any]] = []
    # Without replicates, no mixed model can separate the interaction from residual noise.
    if report.replicates > 1:
        fitted.append(plain("REML", "reml"))

    return [
        text("asset"),
        text("source"),
        text("df", is_left=False),
        plain("share", "share"),
        plain("component", "component"),
        interval(report.alpha, is_signed=False),
        *fitted,
        p_of("p"),
        p_of("Holm p", "p_holm"),
        p_of("F p", "p_f"),
        text("verdict"),
    ]


def _identical(row: IdenticalRuns) -> str:
    """Return a line on identical runs, which names their agent, or their agents and models if the
    runs have several agents.
    """
    agents = {run[0] for run in row.runs}
    if len(agents) == 1:
        whose = row.runs[0][0]
        names = [" × ".join(run[1:]) for run in row.runs]
    else:
        whose = "across agents"
        names = [" × ".join(run) for run in row.runs]

    line = f"{whose}: {count(len(row.runs), 'run')} ({', '.join(names)})"
    places = ", ".join(filter(None, row.places))
    if places:
        line += f" on {places}"
    if row.is_flat:
        line += "; never moved"
    return line


# ---- effects


def effects_parts(report: EffectsReport) -> Iterator[Part]:
    """Yield the parts of the `compare masks` report."""
    if report.effects:
        yield "Effects of the mask: mean over windows, paired within window and seed"
        yield make_table(
            "effects",
            unless_alone(report.effects, "agent", report.ladder),
            report.alpha,
            cells={"effect": lambda row: str(WORDS["effects"][row.effect])},
        )
        yield ""

    if report.ladder:
        yield (
            "Information ladder: contributions averaged over the orders in which information can be"
            " given; they add up"
        )
        ladder = unless_alone(report.ladder, "agent", report.effects)
        for _, rungs in itertools.groupby(ladder, key=lambda row: (row.agent, row.over)):
            yield from _ladder_parts(list(rungs), report.alpha)
        yield ""

    yield "Notes"
    yield (
        "  interaction: how much more the stock is worth if the date is visible too; stock + "
        "date = memory premium"
    )
    yield (
        "  data: the table of prices and factors of fixed_candidate; tools: the research tools of"
        " open_research"
    )
    yield from (f"  {note}" for note in report.notes)


def _ladder_parts(rungs: Sequence[LadderRow], alpha: float) -> Iterator[Part]:
    first = rungs[0]
    agent = f"{first.agent}, " if first.agent else ""
    yield f"  {agent}{first.over}: from {first.start} to {first.end}"
    yield make_table("ladder", rungs, alpha, indent="    ")
