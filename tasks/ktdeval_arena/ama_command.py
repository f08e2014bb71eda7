"""`ktdeval ama`: daily summaries of news (`aggregate`), and how far raters of them agree (`agreement`)."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.cli import LazyCommand, LazyGroup, grid_lines, print_json
from ktdeval_arena.agreement import RULES, Agreement, agreement as agreement_of, read_ratings

_AGREEMENT = LazyCommand(__name__, "agreement", "Report how far raters of daily summaries agree, also beyond chance.")
_AGGREGATE = LazyCommand("ktdeval_arena.aggregate_command", "aggregate", "Make daily summaries of the news of several sources.")
_COMMANDS = {"aggregate": _AGGREGATE, "agreement": _AGREEMENT}
ama = LazyGroup("ktdeval ama", _COMMANDS, help="Agent Market Arena's summaries of news.")
_HEADS = ["rule", "items", "rated twice", "mean", "0", "1", "2", "agreement %", "95 %", "alpha"]


@click.command()
@click.argument("ratings", type=click.Path(path_type=Path), metavar="RATINGS.csv")
@click.option("--json", "as_json", is_flag=True, help="print JSON: shares as fractions")
def agreement(ratings: Path, as_json: bool) -> None:
    """Report how far raters of daily summaries agree, also beyond chance.

    RATINGS.csv has the columns item, rater, rule, score. A rule is date_accuracy, coverage, bias_awareness or source_diversity, a
    score 0, 1 or 2.
    """
    found = [agreement_of(rule, items) for rule, items in read_ratings(ratings).items()]
    if as_json:
        print_json([one._asdict() for one in found])
        return
    lines = grid_lines(_HEADS, [_cells(one) for one in found], ("rule",))
    equal = [RULES[one.rule]["title"] for one in found if one.shared and one.alpha is None]
    notes = [f"{', '.join(equal)}: all scores are equal, which does not show that raters agree beyond chance"] if equal else []
    click.echo("\n".join([*lines, *(f"- {note}" for note in notes)]))


def _cells(one: Agreement) -> list[str]:
    same = "-" if one.same is None else f"{100 * one.same:.1f}"
    ends = "-" if one.low is None or one.high is None else f"{100 * one.low:.1f} … {100 * one.high:.1f}"
    chance = "-" if one.alpha is None else f"{one.alpha:.3f}"
    return [one.rule, str(one.items), str(one.shared), f"{one.mean:.2f}", *map(str, one.levels), same, ends, chance]
