"""`ktdeval leaderboard check` and `certify`: verify submissions and certificates of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import ktdeval
from ktdeval.cards import ATTACHED, card_kinds, count
from ktdeval.cli import FilePath, RunPath, example, open_plugins, plugin_option, warn
from ktdeval.errors import PluginError, UsageError, VerificationError, explained
from ktdeval.runner import RunFolder, run_file
from ktdeval.values.jsonio import dumps_pretty, file_sha256, read_plain, write_atomic
from ktdeval.values.typed import to_plain
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.documents import Certified
from ktdeval_board.entries import VERDICT
from ktdeval_board.layout import ANSWERS, CERTIFICATE, MANIFEST, MARK, TRANSCRIPT, BoardFolder
from ktdeval_board.options import (
    as_day,
    board_argument,
    board_option,
    day_option,
    market_options,
    moved_market,
    say,
)
from ktdeval_board.rules import load_rules


@example("ktdeval leaderboard check my-board")
@click.command()
@board_argument
@click.option(
    "--since",
    metavar="REV",
    help="what a pull request is proposed to, such as origin/main: it may only add submissions",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="execute the records of all cards again, also of those that have a verdict",
)
@click.option(
    "--card",
    "only",
    multiple=True,
    metavar="ID",
    help="execute the records of this card alone; may be repeated",
)
@click.option(
    "--no-record", "is_dry", is_flag=True, help="write no verdict, series, decisions or market"
)
@click.option(
    "--data",
    metavar="DATA",
    help="one of the board's markets, where it is not where board.yaml says: folder or provider",
)
@click.option(
    "--rerun", type=RunPath(), metavar="RUN", help="your own run of the plan of a submitted card"
)
@click.option("--by", "rerun_by", default="", metavar="NAME", help="who made the run of --rerun")
@day_option("check")
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON")
def check(
    board: Path,
    is_dry: bool,
    as_json: bool,
    today: str | None,
    extra: tuple[str, ...],
    **choices: Any,
) -> int:
    """Check a board as its CI does, and record what was found.

    Every file, submission and card is looked at; the records of cards without a verdict are
    executed again on the board's own market. Nothing of a submission is run. Exit code 0: nothing
    is refused; 1: something is; 2: it can't be checked.
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
    summary = (
        f"checked {len(report.checked)}, with a verdict before {report.skipped}, findings {refused}"
    )
    if not refused:
        summary += ": nothing is refused"

    click.echo(summary)


@example(
    "ktdeval leaderboard certify certificate.json --attackers ktdeval-runs/attack --board my-board"
)
@click.command()
@click.argument("certificate", type=FilePath(), metavar="FILE")
@board_option("the board's folder")
@click.option(
    "--attackers",
    "runs",
    type=RunPath(),
    multiple=True,
    required=True,
    metavar="RUN",
    help="run of an attack; all, in order",
)
@market_options("the market, if it has moved: a snapshot folder or data provider")
@day_option("verdict")
@plugin_option
def certify(  # noqa: PLR0913 - a command takes one parameter for each option
    certificate: Path,
    board: Path,
    runs: tuple[Path, ...],
    data: str | None,
    data_args: tuple[str, ...],
    today: str | None,
    extra: tuple[str, ...],
) -> None:
    """Verify the certificate FILE of a mask, and add it to the board with the runs of its attacks.
    For maintainers.

    The probes are attacked again, and each model's answers must follow from its recorded replies.
    Cards with this certificate are then shown as verified and accepted in divisions that ask for
    one; until then it is shown as claimed.
    """
    load_rules(board)
    plugins = open_plugins(extra)
    day = as_day(today)
    verify = card_kinds(ATTACHED, plugins)[ATTACHED].verify
    if verify is None:
        raise PluginError("the plugin of certificates can't verify one")

    difference = verify(certificate, plugins, moved_market(data, data_args), runs)
    if difference is not None:
        raise VerificationError(f"{certificate}: does not verify: {difference}")

    sha256 = file_sha256(certificate)
    folder = BoardFolder(board).certificate(sha256)
    names = tuple(f"attack-{number}" for number in range(1, len(runs) + 1))
    verdict = Certified(
        certificate=sha256, checked_on=day, suite_version=ktdeval.__version__, runs=names
    )

    with explained(f"{folder}: can't write the certificate"):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CERTIFICATE, read_plain(certificate))
        for name, run in zip(verdict.runs, map(RunFolder.load, runs), strict=True):
            _copy_answers(run, folder / name)

    write_atomic(folder / VERDICT, dumps_pretty(to_plain(verdict)))
    click.echo(f"{folder}: certificate verified, with {count(len(runs), 'attack')}")


def _copy_answers(run: RunFolder, target: Path) -> None:
    """Copy the plan and the records of a run, which its answers follow from."""
    names = [MANIFEST]
    for spec in run.manifest.specs:
        names += [f"episodes/{spec.id}/{name}" for name in (ANSWERS, TRANSCRIPT, MARK)]

    # No other files: the run comes from outside and may hold anything.
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target / name, read_plain(run_file(run.path, name)))
