"""`ktdeval compare`: options in, a table or JSON out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ktdeval.jsonio import JsonValue
from ktdeval_compare.compare import Options, Row, compare as compare_cards
from ktdeval_compare.entrants import load_entrants
from ktdeval_compare.terminal import (
    alpha_option,
    cards_argument,
    common_option,
    figure,
    grid,
    interval,
    json_option,
    metrics_option,
    names_of,
    p_value,
    seed_option,
    show,
    unit_name,
)

_LEFT = ("task", "metric", "first", "second", "verdict", "card", "tied with the best")


@click.command()
@cards_argument
@metrics_option
@click.option(
    "--pairs", "unit", type=click.Choice(["window", "episode"]), default="window", show_default=True,
    help="what counts as one pair: a window (median over its seeds), or each window and seed as in the paper",
)  # fmt: skip
@alpha_option
@common_option
@click.option("--against-first", is_flag=True, help="only the first card against each of the others: fewer tests, more power")
@seed_option
@json_option
def compare(cards: tuple[Path, ...], metrics: tuple[str, ...], as_json: bool, **options: JsonValue) -> None:
    """Test whether agents differ, paired by window and seed.

    CARD is a card file, or a run folder, whose cards are compared task by task. Daily tests need the run folder around the card. A
    verdict is a difference that is significant after Holm's correction over the whole table; anything else is tied.
    """
    report = compare_cards(load_entrants(cards), Options(metrics=names_of(metrics), **options))
    show(report, report_lines(report), as_json)


def report_lines(report: Row) -> Iterator[str]:
    """Return the report as text."""
    tests, alpha = report["tests"], report["alpha"]
    pair = "windows, each the median over its seeds" if report["unit"] == "window" else "(window, seed) pairs"
    yield f"Paired differences, first - second, over {pair}"
    several = len({row["task"] for row in tests}) > 1
    columns = ("task", "metric", "first", "second", "n", "shift", "", f"{100 * (1 - alpha):g} % interval",
               "effect", "p", "flip p", "Holm p", "BH p", "verdict")  # fmt: skip
    yield from grid(columns, [_test_row(row, several) for row in tests], _LEFT)
    yield "  shift: Hodges-Lehmann; effect: rank-biserial, -1 … 1; p: Wilcoxon; flip p: sign flips; verdict: by Holm p"
    yield from ("", "Daily returns (mean over seeds): difference of annualised Sharpe ratios")
    daily = [row for row in report["daily"] if row["value"] is not None]
    heads = ("task", "first", "second", "days", "difference", f"{100 * (1 - alpha):g} % interval", "p", "Holm p", "verdict")
    if daily:
        yield from grid(heads, [_daily_row(row, several) for row in daily], _LEFT)
    missing = [row for row in report["daily"] if row["value"] is None]
    for row in missing:
        where = f"{row['task']}: " if several else ""
        yield f"  {where}{row['first']}, {row['second']}: not tested: {row['reason']}"
    yield from ("", f"Tied with the best by mean daily return (model confidence set, {100 * (1 - alpha):g} %)")
    for row in report["best"]:
        where = f"{row['task']}: " if several else ""
        yield f"  {where}{', '.join(row['tied_with_best']) if row['tied_with_best'] else 'not tested: ' + row['reason']}"
    if report["notes"]:
        yield from ("", "Notes")
        yield from (f"  {note}" for note in report["notes"])


def _test_row(row: Row, several: bool) -> list[str]:
    shift, unit = row["shift"], row["unit"]
    effect = row["rank_biserial"]
    return [
        row["task"] if several else "",
        row["metric"],
        row["first"],
        row["second"],
        str(row["n"]),
        figure(shift["value"], unit),
        unit_name(unit),
        interval(shift["low"], shift["high"], unit),
        "-" if effect is None else f"{effect:+.2f}",
        p_value(row["p"]),
        p_value(row["sign_flip"]["p"]),
        p_value(row["p_holm"]),
        p_value(row["p_benjamini_hochberg"]),
        row["verdict"] or f"not tested: {row['reason']}",
    ]


def _daily_row(row: Row, several: bool) -> list[str]:
    return [
        row["task"] if several else "",
        row["first"],
        row["second"],
        str(row["n"]),
        figure(row["value"], "ratio"),
        interval(row["low"], row["high"], "ratio"),
        p_value(row["p"]),
        p_value(row["p_holm"]),
        row["verdict"],
    ]
