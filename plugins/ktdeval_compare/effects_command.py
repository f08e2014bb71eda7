"""`ktdeval effects`: options in, tables or JSON out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import click

from ktdeval.api import dumps_pretty
from ktdeval_compare.effects import Options, Row, effects as find_effects
from ktdeval_compare.entrants import load_entrants
from ktdeval_compare.layout import figure, grid, interval, p_value, unit_name

_LEFT = ("agent", "metric", "mode", "effect", "verdict", "contribution of")
_EFFECTS = {
    "memory_premium": "memory premium (bright - blinded)",
    "stock_effect": "  stock in sight",
    "date_effect": "  date in sight",
    "interaction": "  interaction",
}


@click.command()
@click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CARD…")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="metric, may be repeated [default: total_return]")
@click.option(
    "--alpha", type=click.FloatRange(0.0001, 0.5), default=0.05, show_default=True, help="level of verdicts and intervals"
)
@click.option("--common", is_flag=True, help="where cards differ in windows or seeds, use those that all have")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="seed of simulations")
@click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")
def effects(cards: tuple[Path, ...], metrics: tuple[str, ...], alpha: float, common: bool, seed: int, as_json: bool) -> None:
    """Say what stock, date, data and tools are worth, from an agent's cards under several masks and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks also the stock effect, the date
    effect and their interaction; several modes give the information ladder, whose contributions add up exactly.
    """
    names = tuple(name for text in metrics for name in text.split(",") if name)
    report = find_effects(load_entrants(cards), Options(names, alpha, common, seed))
    if as_json:
        click.echo(dumps_pretty(report), nl=False)
    else:
        click.echo("\n".join(report_lines(report)))


def report_lines(report: Row) -> Iterator[str]:
    """The report as text."""
    level = f"{100 * (1 - report['alpha']):g} % interval"
    agents = {row["agent"] for row in (*report["effects"], *report["ladder"])}
    if report["effects"]:
        yield "Effects of the mask: mean over windows, paired within window and seed"
        columns = ("agent", "metric", "mode", "effect", "n", "mean", "", level, "p", "Holm p", "verdict")
        yield from grid(columns, [_effect_row(row, len(agents) > 1) for row in report["effects"]], _LEFT)
        yield ""
    if report["ladder"]:
        yield "Information ladder: contributions averaged over the orders in which information can be given; they add up"
        for (agent, over), rows in itertools.groupby(report["ladder"], key=lambda row: (row["agent"], row["over"])):
            found = list(rows)
            who = f"{agent}, " if len(agents) > 1 else ""
            yield f"  {who}{over}: from {found[0]['from']} to {found[0]['to']}"
            heads = ("metric", "contribution of", "n", "mean", "", level)
            yield from (f"  {line}" for line in grid(heads, [_ladder_row(row) for row in found], _LEFT))
        yield ""
    yield "Notes"
    yield "  interaction: how much more the stock is worth when the date is in sight too; stock + date = memory premium"
    yield "  data: the table of prices and factors of fixed_candidate; tools: the research tools of open_research"
    yield from (f"  {note}" for note in report["notes"])


def _effect_row(row: Row, several: bool) -> list[str]:
    return [
        row["agent"] if several else "",
        row["metric"],
        row["mode"],
        _EFFECTS[row["effect"]],
        str(row["n"]),
        figure(row["value"], row["unit"]),
        unit_name(row["unit"]),
        interval(row["low"], row["high"], row["unit"]),
        p_value(row["p"]),
        p_value(row["p_holm"]),
        row["verdict"] or f"not tested: {row['reason']}",
    ]


def _ladder_row(row: Row) -> list[str]:
    unit = row["unit"]
    value = (figure(row["value"], unit), unit_name(unit), interval(row["low"], row["high"], unit))
    return [row["metric"], row["piece"], str(row["n"]), *value]
