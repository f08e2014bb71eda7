"""`ktdeval leaderboard selftest`: forge submissions of every known kind; the check must refuse each."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import example, open_plugins, plugin_option, print_grid
from ktdeval.values.jsonio import dumps_pretty
from ktdeval.values.typed import to_plain
from ktdeval_board.checking.check import CheckOptions
from ktdeval_board.options import as_day, board_argument, day_option, say
from ktdeval_board.selftest.run import SelfTest, Tried, selftest as run_selftest

_MARKS = {
    "refused": "yes",
    "refused by another rule": "by another rule",
    "passed": "NO",
    "not applicable": "-",
}


@example("ktdeval leaderboard selftest my-board")
@click.command()
@board_argument
@click.option(
    "--kind", "only", multiple=True, metavar="NAME", help="try this kind alone; may be repeated"
)
@click.option(
    "--data",
    metavar="DATA",
    help="one of the board's markets, where it is not where board.yaml says",
)
@day_option("check")
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def selftest(
    board: Path,
    only: tuple[str, ...],
    data: str | None,
    today: str | None,
    extra: tuple[str, ...],
    as_json: bool,
) -> int:
    """Try every known kind of forgery on a copy of a board, through the check that its CI runs.

    A submission of the board is forged, with all hashes renewed as its forger would; on a board
    without one, a small run on the embedded market. The board itself is only read. Exit code 0:
    each kind is refused by its rule; 1: one is not; 2: it can't be tried.
    """
    options = CheckOptions(today=as_day(today), record=False, data=data, plugins=extra)
    plugins = open_plugins(extra)
    result = run_selftest(board, plugins, options, only, _say_outcome)
    if as_json:
        click.echo(dumps_pretty(to_plain(result)), nl=False)
    else:
        _print(result)

    return 1 if result.failures else 0


def _say_outcome(tried: Tried) -> None:
    say(f"{tried.kind}: {tried.outcome}")


def _print(result: SelfTest) -> None:
    click.echo(f"forged: {result.original}\n")
    columns = ("kind", "refused", "by")
    rows = [_row(tried) for tried in result.tried]
    print_grid(columns, rows, left=columns)

    applicable = [tried for tried in result.tried if tried.outcome != "not applicable"]
    refused = sum(not tried.is_failure for tried in applicable)
    inapplicable = len(result.tried) - len(applicable)
    click.echo(
        f"\nrefused by their rule: {refused:,} of {count(len(applicable), 'kind')}; not applicable"
        f" here: {inapplicable:,}"
    )

    for tried in result.failures:
        line = f"{tried.kind}: rule {tried.rule} lets it pass"
        if tried.by:
            line += f"; it is refused by {', '.join(tried.by)} alone"

        click.echo(line)


def _row(tried: Tried) -> tuple[str, str, str]:
    by = ", ".join(tried.by)
    if tried.outcome == "not applicable":
        by = tried.why

    return tried.kind.replace("_", " "), _MARKS[tried.outcome], by
