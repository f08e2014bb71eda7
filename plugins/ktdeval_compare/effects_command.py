"""`ktdeval effects`: options in, tables or JSON out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import click

from ktdeval_compare.effects import Options, Row, effects as find_effects
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

_LEFT = ("agent", "metric", "mode", "effect", "verdict", "contribution of")
_EFFECTS = {
    "memory_premium": "memory premium (bright - blinded)",
    "stock_effect": "  stock in sight",
    "date_effect": "  date in sight",
    "interaction": "  interaction",
}


@click.command()
@cards_argument
@metrics_option
@alpha_option
@common_option
@seed_option
@json_option
def effects(cards: tuple[Path, ...], metrics: tuple[str, ...], alpha: float, common: bool, seed: int, as_json: bool) -> None:
    """Report the value of stock, date, data and tools, from an agent's cards under several masks and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks also the stock effect, the date
    effect and their interaction; several modes give the information ladder, whose contributions add up exactly.
    """
    report = find_effects(load_entrants(cards), Options(names_of(metrics), alpha, common, seed))
    show(report, report_lines(report), as_json)


def report_lines(report: Row) -> Iterator[str]:
    """Return the report as text."""
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
