"""Power of published designs and figures as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards import points
from ktdeval_compare.plans.published_power import (
    DesignsReport,
    PathReport,
    PrintedModel,
)
from ktdeval_compare.table_columns import (
    Part,
    figure,
    make_table,
    p_value,
)


def designs_parts(report: DesignsReport) -> Iterator[Part]:
    """Yield the parts of the report on designs."""
    error = f"{100 * report.tracking_error:g}"
    yield (
        f"What published designs can show at {report.alpha:g} with probability {report.power:g},"
        f" if two systems differ by {error} % a year at random"
    )
    yield make_table("designs", report.designs)
    yield "  runs: repetitions, - where the paper does not say"
    yield (
        "  effective: windows that share no days and have a mean as uncertain; windows find:"
        " difference in a window's return, by the signed-rank test over windows; days find: the"
        " same by a z test over the days themselves, which is about these days alone"
    )
    yield "  sources: " + "; ".join(
        f"{row.paper}, {row.design}: {row.source}" for row in report.designs
    )


def path_parts(report: PathReport) -> Iterator[Part]:
    """Yield the parts of the report on a single path of reported figures."""
    yield f"Each model of {report.table} against no excess return, over {report.returns} days"
    yield make_table("printed_models", report.models, cells={"as rounded": _round_figure})
    yield (
        "  t: Sharpe ratio times the root of days over days of a year; volatility: annual, the one"
        " that return and Sharpe ratio imply, and its range over what rounds to the printed figures"
    )

    yield ""
    yield f"Two models, by the correlation of their daily returns: {report.pairs} pairs"
    yield make_table("printed_pairs", report.by_correlation)
    yield (
        f"  SD: of the difference of two returns of these days, median of the pairs; found:"
        f" smallest true difference found with probability {report.power:g}; beyond: pairs whose"
        f" printed difference is significant at {report.alpha:g}; of all: the level shared by all"
        " pairs (Bonferroni)"
    )
    yield f"  largest printed difference: {figure(report.largest_difference, 'fraction')} %"
    yield (
        f"  returns and betas: Kendall's tau {report.tau:.2f}, exact p {p_value(report.tau_p)},"
        f" {len(report.models)} models"
    )


def _round_figure(row: PrintedModel) -> str:
    return f"{points(row.low, '.1f')} … {points(row.high, '.1f')}"
