"""`ktdeval leaderboard check`: verify submissions as the board's CI does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli import (
    JsonOptions,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
    print_findings,
    print_json,
    warn,
)
from ktdeval.errors import UsageError
from ktdeval.values import exit_code, findings_json, to_plain
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.options import BoardMarketOptions, board_argument, recorded_day, say


@dataclass(frozen=True, kw_only=True)
class CheckCommandOptions(BoardMarketOptions, PluginOptions, JsonOptions):
    """Options of `leaderboard check`."""

    since: str | None = flag(
        None,
        metavar="REV",
        help="base of a pull request, such as origin/main: the changes may only add submissions",
    )
    every: bool = flag(
        False,
        name="--all",
        help="execute the records of all cards again, including those that have a verdict",
    )
    only: tuple[str, ...] = flag(
        (),
        name="--card",
        type=click.STRING,
        metavar="ID",
        help="execute the records of this card only; may be repeated",
    )
    is_dry: bool = flag(
        False,
        name="--no-record",
        help="check only: do not write verdicts, series, decisions or markets",
    )
    rerun: Path | None = flag(
        None, type=RunPath(), metavar="RUN", help="your own run of a submitted card's plan"
    )
    rerun_by: str = flag(
        "", name="--by", metavar="NAME", help="name of the person who made the run of --rerun"
    )


@example("ktdeval leaderboard check my-board")
@click.command()
@board_argument
@options_of(CheckCommandOptions)
def check(board: Path, options: CheckCommandOptions) -> int:
    """Check a board like its CI, and record the findings.

    Every file, submission and card is checked; the records of cards without a verdict are
    re-executed on the board's own market. No code of a submission is run. Exit code 0: nothing is
    refused; 1: something is refused; 2: the board can't be checked.
    """
    checked = CheckOptions(
        today=recorded_day(),
        since=options.since,
        every=options.every,
        record=not options.is_dry,
        only=options.only,
        data=options.data,
        rerun=options.rerun,
        rerun_by=options.rerun_by,
        plugins=options.plugin,
    )
    if (options.rerun is None) != (not options.rerun_by):
        raise UsageError(
            "--rerun and --by must be given together: the run, and the name to show for it"
        )

    report = check_board(board, open_plugins(options.plugin), checked, say)
    if options.as_json:
        checked_cards = to_plain(list(report.checked))
        notes = to_plain(report.notes)
        print_json(
            findings_json(
                report.findings, checked=checked_cards, skipped=report.skipped, notes=notes
            )
        )
    else:
        _print_report(report)

    return exit_code(report.findings)


def _print_report(report: CheckReport) -> None:
    for note in report.notes:
        warn(note)

    for card in report.checked:
        click.echo(f"{card.tier:<13} {card.where}")
        for note in card.notes:
            click.echo(f"              {note}")

    print_findings(report.findings, max_shown=None)
    refused = len(report.findings)
    summary = (
        f"checked {len(report.checked)}, with a verdict before {report.skipped}, findings {refused}"
    )
    if not refused:
        summary += ": nothing is refused"

    click.echo(summary)
