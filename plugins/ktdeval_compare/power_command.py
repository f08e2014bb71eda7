"""`ktdeval power`: what a plan of windows and seeds can tell apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ktdeval.errors import UsageError
from ktdeval_compare.plan import Plan, Row, plan_report, spreads_of_cards
from ktdeval_compare.terminal import figure, grid, json_option, p_value, seed_option, show, unit_name

_SPREAD = "standard deviation over windows of the true difference of two agents, as a fraction (0.05 is 5 %)"


@click.command()
@click.argument("cards", nargs=-1, type=click.Path(path_type=Path), metavar="[CARD…]")
@click.option(
    "--windows", type=click.IntRange(1, 300), metavar="N", help="windows of the plan [default: those of the cards, or 10]"
)
@click.option("--seeds", type=click.IntRange(1, 1000), metavar="N", help="seeds of each window [default: those of the cards, or 1]")
@click.option("--effect", type=float, metavar="X", help="difference in a window's figure that must be found, as a fraction")
@click.option("--window-sd", type=click.FloatRange(0), metavar="X", help=_SPREAD)
@click.option("--seed-sd", type=click.FloatRange(0), metavar="X", help="the same over seeds of one agent's figure in one window")
@click.option(
    "--tracking-error", type=click.FloatRange(0), metavar="X", help="in place of --window-sd: annual, of the difference in return"
)
@click.option("--window-days", type=click.IntRange(1), default=43, show_default=True, metavar="N", help="trading days of a window")
@click.option(
    "--days-per-year", type=click.FloatRange(1), default=252, show_default=True, metavar="N", help="trading days of a year"
)
@click.option(
    "--alpha", type=click.FloatRange(0.0001, 0.5), default=0.05, show_default=True, help="two-sided level of the comparison"
)
@click.option(
    "--power", "wanted", type=click.FloatRange(0.01, 0.999), default=0.8, show_default=True, help="wanted probability of finding it"
)
@click.option(
    "--comparisons", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="tests that share alpha (Bonferroni)"
)
@click.option("--metric", default="total_return", show_default=True, metavar="NAME", help="metric to estimate from cards")
@seed_option
@json_option
def power(cards: tuple[Path, ...], metric: str, as_json: bool, **given: float | None) -> None:
    """Report what a plan of windows and seeds can tell apart, before it is run.

    The test is that of `ktdeval compare`: Wilcoxon signed-rank over windows, exact. Spreads come from --window-sd and --seed-sd,
    from --tracking-error, or from the differences of two or more cards; without any, effects are in standard deviations.
    """
    if sum(given[name] is not None for name in ("window_sd", "tracking_error")) + bool(cards) > 1:
        raise UsageError("give the spread once: --window-sd, --tracking-error, or cards")
    if given["seed_sd"] is not None and given["window_sd"] is None and given["tracking_error"] is None:
        raise UsageError("--seed-sd needs --window-sd or --tracking-error beside it")
    plan = Plan(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    reports = []
    for name, unit, fields in spreads_of_cards(cards, metric) if cards else [("", "fraction", {})]:
        merged = {field: value for field, value in fields.items() if given.get(field) is None}
        reports.append({"pair": name, "unit": unit, **plan_report(dataclasses.replace(plan, **merged))})
    show(reports if cards else reports[0], report_lines(reports), as_json)


def report_lines(reports: Sequence[Row]) -> Iterator[str]:
    """Return the reports as text."""
    first = reports[0]
    yield f"What an exact two-sided test over windows can show at {first['alpha']:g}"
    columns = ("windows", "smallest p", "tests it can carry", "found in SD")
    yield from grid(columns, [_reach_row(row) for row in first["reach"]])
    yield f"  found: effect in standard deviations of a window's difference, with probability {first['power']:g}"
    for report in reports:
        yield ""
        yield from _plan_lines(report)


def _reach_row(row: Row) -> list[str]:
    found = row["effect_sd"]
    tests = "over 1000" if row["tests"] > 1000 else str(row["tests"])
    return [str(row["windows"]), p_value(row["smallest_p"]), tests, "nothing" if found is None else f"{found:.3f}"]


def _plan_lines(report: Row) -> Iterator[str]:
    level = f"{report['alpha']:g}" + (f" / {report['comparisons']}" if report["comparisons"] > 1 else "")
    title = f"The plan: {report['windows']} window(s), {report['seeds']} seed(s), level {level}"
    yield f"{report['pair']}: {title}" if report["pair"] else title
    yield from (f"  {line}" for line in report["sentences"])
    rows = report["by_seeds"]
    if rows:
        unit = report["unit"]
        wanted = report["effect"]
        columns = ("seeds", "SD of a window's difference", f"{report['windows']} windows find", "", "a year", "z test a year",
                   "" if wanted is None else f"windows to find {figure(wanted, unit)} {unit_name(unit)}".rstrip())  # fmt: skip
        yield from grid(columns, [_seed_row(row, unit, wanted is not None) for row in rows])
        yield "  z test: the same by the normal approximation, which few windows do not justify"
    if report["reason"]:
        yield f"  {report['reason']}"


def _seed_row(row: Row, unit: str, wanted: bool) -> list[str]:
    needed = row["windows_needed"]
    return [
        "unlimited" if row["seeds"] is None else str(row["seeds"]),
        figure(row["pair_sd"], unit).lstrip("+"),
        "nothing" if row["effect"] is None else figure(row["effect"], unit).lstrip("+"),
        unit_name(unit),
        "" if row["effect_per_year"] is None else figure(row["effect_per_year"], unit).lstrip("+"),
        "" if row["effect_normal_per_year"] is None else figure(row["effect_normal_per_year"], unit).lstrip("+"),
        "" if not wanted else "over 300" if needed is None else str(needed),
    ]
