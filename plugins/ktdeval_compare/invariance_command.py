"""`ktdeval invariance`: options in, a table or JSON out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click

from ktdeval_compare.entrants import load_entrants
from ktdeval_compare.invariance import AGAIN, BEYOND, LABELS, SEEDS, Options, Row, invariance as find_invariance
from ktdeval_compare.terminal import UNDEFINED, alpha_option, common_option, figure, grid, interval, json_option, show

_LEFT = ("task", "what differs", "figure")
_BETWEEN = {
    LABELS: "labels (mask draw)",
    AGAIN: "nothing (same draw again)",
    SEEDS: "seed",
    BEYOND: "labels, beyond chance",
}
_FIGURES = {
    "decisions": "decisions changed",
    "decisions_alike": "  from equal accounts",
    "orders": "orders changed",
    "turnover": "turnover apart",
    "nav": "NAV paths apart",
    "total_return": "total return apart",
}


@click.command()
@click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@alpha_option
@click.option(
    "--over",
    type=click.Choice(["episode", "window"]),
    default="episode",
    show_default=True,
    help="what intervals vary over: each (window, seed), whose labels are its own, or windows, each the mean of its seeds",
)
@common_option
@json_option
def invariance(cards: tuple[Path, ...], alpha: float, over: Literal["episode", "window"], common: bool, as_json: bool) -> None:
    """Report how much changes when only the labels do: runs of one plan under several --mask-draw.

    RUN is a run folder, or a card in one. Draws of the mask show the same market under other aliases and in another order of rows;
    whatever then changes is noise that every comparison of masked runs carries. A draw given twice shows the model's own chance
    beside it, and several seeds what another call seed does.
    """
    report = find_invariance(load_entrants(cards), Options(alpha, over, common))
    show(report, report_lines(report), as_json)


def report_lines(report: Row) -> Iterator[str]:
    """Return the report as text."""
    level = f"{100 * (1 - report['alpha']):g} % interval"
    several = len({row["task"] for row in report["figures"]}) > 1
    draws = sorted({card["mask_draw"] for card in report["cards"]})
    yield f"Episodes of one window and seed, set against each other over mask draws {', '.join(map(str, draws))}; all in per cent"
    columns = ("task", "what differs", "figure", "pairs", "n", "mean", level)
    yield from grid(columns, [_figure_row(row, several) for row in report["figures"]], _LEFT)
    for reason in dict.fromkeys(row["reason"] for row in report["figures"] if row["reason"]):
        yield f"  {UNDEFINED}: {reason}"
    less = f"two runs of one model differ by less than this in {100 * (1 - report['alpha']):g} of 100"
    yield from ("", f"What that makes of a total return: {less}")
    heads = ("task", "what differs", "SD of an episode", "one episode", "mean of all", "episodes")
    yield from grid(heads, [_noise_row(row, several) for row in report["noise"]], _LEFT)
    yield from ("", "Notes")
    yield "  decisions: sets of (asset, side, weight or shares) in true identities; turnover: 0 the same trades, 100 none in common"
    yield from (f"  {note}" for note in report["notes"])


def _figure_row(row: Row, several: bool) -> list[str]:
    return [
        row["task"] if several else "",
        _BETWEEN[row["between"]],
        _FIGURES[row["figure"]],
        "" if row["pairs"] is None else str(row["pairs"]),
        str(row["cells"] if row["over"] == "episode" else row["windows"]),
        figure(row["value"], row["unit"]).removeprefix("+"),
        interval(row["low"], row["high"], row["unit"]).replace("+", ""),
    ]


def _noise_row(row: Row, several: bool) -> list[str]:
    figures = [figure(row[name], row["unit"]).removeprefix("+") for name in ("sd", "difference_of_one", "difference_of_means")]
    return [row["task"] if several else "", _BETWEEN[row["between"]], *figures, str(row["episodes"])]
