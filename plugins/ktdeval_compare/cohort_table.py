"""`ktdeval cohort`: options in; out comes the report of cohorts as JSON, or as tables of aligned plain text."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import Number
from ktdeval_compare.cohort import TEXTS, Options, cohort as find_cohorts
from ktdeval_compare.entrants import Row
from ktdeval_compare.grid import COUNT, UNDEFINED, VERDICT, Column, both, figure, figure_of, grid, interval, p_of, show, text

_UNITS = {metric: unit for _, metric, unit, *_ in TEXTS["baseline"]}


@click.command()
@click.argument("cards", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN…]")
@click.option("--cohort", "cohorts", multiple=True, metavar="NAME=ITEM,…",
              help="a cohort: globs of model names, run folders or cards; repeat it for each [default: all models]")  # fmt: skip
@click.option(
    "--task", metavar="NAME", help="task of exposures and figures, where cards are of several [default: that of most models]"
)
@click.option("--alpha", type=Number(0.0001, 0.5), default=0.05, show_default=True,
              help="level of verdicts; intervals hold with 1 - alpha")  # fmt: skip
@click.option("--common", is_flag=True, help="where models or seeds differ in windows, use those that all have")
@click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")
def cohort(cards: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Report how cohorts of models differ: style exposures, returns over seeds, trades declined behind the mask.

    RUN is a run folder, or a card. Models are what varies: runs of one model under other seeds, its own or those of its training,
    are one model. Cards of bright and blinded tasks add in how many windows and seeds a model placed no order under each mask.
    """
    report = find_cohorts(cards, Options(**options))
    show(report, cohort_lines(report), as_json)


def cohort_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `cohort`."""
    titles, legends, alpha = TEXTS["titles"], TEXTS["legends"], report["alpha"]
    if report["exposures"]:
        yield titles["exposures"]
        yield from _exposure_lines(report)
        yield from (f"  {legends['exposures']}", "")
    yield titles["baseline"]
    shown = []
    for row in report["baseline"]:
        values = {name: figure(found["value"], _UNITS[name]) for name, found in row["figures"].items()}
        shown.append({**row, "seeds": "" if row["seeds"] is None else str(row["seeds"]), **values})
        ends = {name: both(found["low"], found["high"], _UNITS[name]) for name, found in row["figures"].items()}
        if set(ends.values()) != {UNDEFINED}:
            shown.append({"model": f"  {100 * (1 - alpha):g} % interval", "cohort": "", "seeds": "", **ends})
    figures = [Column(head, lambda row, of=name: row[of].replace("+", "")) for head, name, *_ in TEXTS["baseline"]]  # type: ignore[misc]
    yield from grid(shown, text("model"), text("cohort"), text("seeds", is_left=False), *figures)
    yield from (f"  {legends['baseline']}", "")
    if report["declines"]:
        yield titles["declines"]
        declined = [Column(mask, lambda row, of=mask: _declined(row[of], row["n"])) for mask in ("bright", "blinded")]  # type: ignore[misc]
        unknown = text("not known", "not_known", is_left=False)
        yield from grid(report["declines"], text("model"), text("mode"), COUNT, *declined, p_of("p"), unknown)
        yield from (f"  {legends['declines']}", "")
    yield from ("Notes", *(f"  {note}" for note in report["notes"]))


def _exposure_lines(report: Row) -> Iterator[str]:
    columns, cohorts, found = [text("factor")], report["cohorts"], report["agreement"]
    for name in (row["cohort"] for row in cohorts):
        of = operator.itemgetter(name)
        columns += [Column(name, lambda row, of=of: figure(of(row["cohorts"])["mean"], "ratio")),  # type: ignore[misc]
                    Column("same sign", lambda row, of=of: "{same_sign} of {members}".format_map(of(row["cohorts"])))]  # type: ignore[misc]  # fmt: skip
    yield from grid(report["exposures"], *columns)
    yield from (
        "  {cohort}: {same_sign} of {members} models have the signs of its mean in all factors".format_map(row) for row in cohorts
    )
    if len(cohorts) > 1:
        agree, shown = (", ".join(found[name]) or "none" for name in ("agree", "agreement_shown"))
        yield f"  cohorts agree in sign on {len(found['agree'])} of {found['factors']} factors: {agree}"
        yield f"  with every cohort's interval on that side of zero: {shown}"
        sides = (text("first"), text("second")) if len(cohorts) > 2 else ()
        head = "difference" if sides else " - ".join(row["cohort"] for row in cohorts)
        yield from ("", *grid(report["differences"], text("factor"), *sides, figure_of(head), interval(report), p_of("p"),
                              p_of("Holm p", "p_holm"), VERDICT._replace(head="higher")))  # fmt: skip


def _declined(share: Row, n: int) -> str:
    return f"{share['declined']} of {n}" + ("" if share["low"] is None else f" [{share['low']:.2f}, {share['high']:.2f}]")
