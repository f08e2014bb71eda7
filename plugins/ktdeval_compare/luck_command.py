"""`ktdeval luck`: options in, tables or JSON out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ktdeval_compare.entrants import load_entrants
from ktdeval_compare.luck import Row, luck as find_luck
from ktdeval_compare.terminal import UNDEFINED, cards_argument, figure, grid, json_option, p_value, show


@click.command()
@cards_argument
@click.option(
    "--runs", "stores", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
    help="folder of runs to count trials in, besides the cards' own; may be repeated",
)  # fmt: skip
@json_option
def luck(cards: tuple[Path, ...], stores: tuple[Path, ...], as_json: bool) -> None:
    """Report how much of a result is luck, and whether a ranking by return is one by selection.

    CARD is a card file inside its run folder, or a run folder. Every episode that the runs planned counts as a trial, limited and
    unfinished ones too: the deflated Sharpe ratio asks for more than the best that so many worthless trials would have shown.
    """
    report = find_luck(load_entrants(cards), stores)
    show(report, report_lines(report), as_json)


def report_lines(report: Row) -> Iterator[str]:
    """Return the report as text."""
    yield "Luck and selection: medians over episodes; psr, dsr: probability that the true Sharpe ratio is above 0, above luck"
    columns = ("card", "return %", "rank", "selection %", "rank ", "psr", "dsr", "trials a window", "note")
    yield from grid(columns, [_card_cells(row) for row in report["cards"]], ("card", "note"))
    ranks = report["ranks"]
    correlations = (
        f"Spearman {ranks['spearman']:+.2f}, Kendall {ranks['kendall']:+.2f}" if ranks["reason"] is None else ranks["reason"]
    )
    yield f"  rank by return against rank by selection: {correlations}"
    if report["exposures"]:
        yield ""
        yield "Style exposures: of the NAV, mean over the days on which something was held"
        names = list(report["exposures"][0]["cards"])
        yield from grid(
            ("factor", *names, "mean", "same sign"), [_exposure_cells(row, names) for row in report["exposures"]], ("factor",)
        )


def _card_cells(row: Row) -> list[str]:
    least, most = row["trials"]
    return [
        row["card"],
        figure(row["return"], "fraction"),
        _rank(row["return_rank"]),
        figure(row["selection"], "fraction"),
        _rank(row["selection_rank"]),
        p_value(row["psr"]),
        p_value(row["dsr"]),
        f"{least}" if least == most else f"{least} … {most}",
        row["reason"] or "",
    ]


def _rank(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:g}"


def _exposure_cells(row: Row, names: list[str]) -> list[str]:
    cells = [figure(row["cards"][name], "ratio") for name in names]
    return [row["factor"], *cells, figure(row["mean"], "ratio"), f"{row['same_sign']} of {row['members']}"]
