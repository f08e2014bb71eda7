"""What designs and figures of published papers can show, as text."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval_compare.plans.published_power import (
    DesignsReport,
    PathReport,
    PrintedModel,
)
from ktdeval_compare.table_columns import (
    Part,
    ReportColumn,
    figure,
    format_column,
    grid,
    p_of,
    p_value,
    plain,
    text,
)


def designs_parts(report: DesignsReport) -> Iterator[Part]:
    """Parts of the report on designs."""
    error = f"{100 * report.tracking_error:g}"
    yield (
        f"What published designs can show at {report.alpha:g} with probability {report.power:g},"
        f" if two systems differ by {error} % a year at random"
    )
    yield grid(
        report.designs,
        text("paper"),
        text("design"),
        text("systems", is_left=False),
        text("windows", is_left=False),
        format_column("effective", "effective_windows", "{:.3g}"),
        text("days", is_left=False),
        text("runs", is_left=False),
        p_of("smallest p", "smallest_p"),
        text("tests it can carry", "tests", is_left=False),
        text("pairs", is_left=False),
        plain("windows find %", "effect", "nothing", "fraction"),
        plain("a year %", "effect_per_year", "", "fraction"),
        plain("days find %", "effect_of_days", unit="fraction"),
    )
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
    """Parts of the report on one path of printed figures."""
    yield f"Each model of {report.table} against no excess return, over {report.returns} days"
    yield grid(
        report.models,
        text("model"),
        plain("return %", "total_return", unit="fraction"),
        plain("Sharpe ratio", "sharpe", unit="ratio"),
        plain("t", "t", unit="ratio"),
        p_of("p"),
        plain("volatility %", "volatility", unit="fraction"),
        ReportColumn("as rounded", _round_figure),
    )
    yield (
        "  t: Sharpe ratio times the root of days over days of a year; volatility: annual, the one"
        " that return and Sharpe ratio imply, and its range over what rounds to the printed figures"
    )

    yield ""
    yield f"Two models, by the correlation of their daily returns: {report.pairs} pairs"
    yield grid(
        report.by_correlation,
        plain("correlation", "correlation", unit="ratio"),
        plain("SD %", "sd", unit="fraction"),
        plain("found %", "effect", unit="fraction"),
        plain("found of all %", "effect_of_all", unit="fraction"),
        text("beyond", is_left=False),
        text("beyond of all", "beyond_all", is_left=False),
    )
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
    return f"{100 * row.low:.1f} … {100 * row.high:.1f}"
