"""`ktdeval leaderboard check`: a line for each thing that is refused, and how far the other cards are confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktdeval.cli import FilePath, open_plugins, plugin_option, warn
from ktdeval.errors import UsageError
from ktdeval.jsonio import dumps_pretty
from ktdeval.typed import to_plain
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.options import as_day, say


@click.command()
@click.argument("board", default=".", type=FilePath(), metavar="[DIR]")
@click.option("--since", metavar="REV", help="what a pull request is proposed to, such as origin/main: it may only add submissions")
@click.option("--all", "every", is_flag=True, help="execute the records of all cards again, also of those that have a verdict")
@click.option("--card", "only", multiple=True, metavar="ID", help="execute the records of this card alone; may be repeated")
@click.option("--no-record", "is_dry", is_flag=True, help="write no verdict, series, decisions or market")
@click.option(
    "--data", metavar="DATA", help="one of the board's markets, where it is not where board.yaml says: folder or provider"
)
@click.option("--rerun", type=FilePath(), metavar="RUN", help="your own run of the plan of a submitted card")
@click.option("--by", "rerun_by", default="", metavar="NAME", help="who made the run of --rerun")
@click.option("--on", "today", metavar="DAY", help="day of the check, YYYY-MM-DD [default: today, UTC]")
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON")
def check(board: Path, is_dry: bool, as_json: bool, today: str | None, extra: tuple[str, ...], **choices: Any) -> int:
    """Check a board as its CI does, and record what was found.

    Every file, submission and card is looked at; the records of cards without a verdict are executed again on the board's own
    market. Nothing of a submission is run. Exit code 0: nothing is refused; 1: something is; 2: it can't be checked.
    """
    options = CheckOptions(today=as_day(today), record=not is_dry, plugins=extra, **choices)
    if (options.rerun is None) != (not options.rerun_by):
        raise UsageError("--rerun and --by go together: the run, and the name that readers see")
    report = check_board(board, open_plugins(options.plugins), options, say)
    if as_json:
        click.echo(dumps_pretty(to_plain(report)), nl=False)
    else:
        _print(report)
    return 1 if report.findings else 0


def _print(report: CheckReport) -> None:
    for note in report.notes:
        warn(note)
    for card in report.checked:
        click.echo(f"{card.tier:<13} {card.where}")
        for note in card.notes:
            click.echo(f"              {note}")
    for finding in report.findings:
        click.echo(str(finding))
    refused = len(report.findings)
    counts = (f"checked {len(report.checked)}", f"with a verdict before {report.skipped}", f"findings {refused}")
    click.echo(", ".join(counts) + ("" if refused else ": nothing is refused"))
