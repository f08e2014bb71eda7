"""`ktdeval leaderboard selftest`: forge a submission in eight ways, each of which the check must
refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import (
    JsonOptions,
    PluginOptions,
    example,
    flag,
    open_plugins,
    options_of,
    print_grid,
)
from ktdeval.values import dumps_pretty, to_plain
from ktdeval_board.checking.check import CheckOptions
from ktdeval_board.options import BoardMarketOptions, board_argument, recorded_day, say
from ktdeval_board.selftest.run import SelfTest, Tried, selftest as run_selftest

_MARKS = {
    "refused": "yes",
    "refused by another rule": "by another rule",
    "passed": "NO",
    "not applicable": "-",
}


@dataclass(frozen=True, kw_only=True)
class SelftestOptions(BoardMarketOptions, PluginOptions, JsonOptions):
    """Options of `leaderboard selftest`."""

    only: tuple[str, ...] = flag(
        (),
        name="--kind",
        type=click.STRING,
        metavar="NAME",
        help="try only this kind; may be repeated",
    )


@example("ktdeval leaderboard selftest my-board")
@click.command()
@board_argument
@options_of(SelftestOptions)
def selftest(board: Path, options: SelftestOptions) -> int:
    """Try a forgery of each family on a copy of a board, with the check that its CI runs.

    A submission of the board is forged, with all hashes recomputed as a forger would do; for a
    board without submissions, a small run on the embedded market is forged. The board itself is
    only read. Exit code 0: each kind is refused by its rule; 1: at least one is not; 2: a kind
    can't be tried.
    """
    check = CheckOptions(
        today=recorded_day(), record=False, data=options.data, plugins=options.plugin
    )
    plugins = open_plugins(options.plugin)
    result = run_selftest(board, plugins, check, options.only, _say_outcome)
    if options.as_json:
        click.echo(dumps_pretty(to_plain(result)), nl=False)
    else:
        _print_result(result)

    return 1 if result.failures else 0


def _say_outcome(tried: Tried) -> None:
    say(f"{tried.kind}: {tried.outcome}")


def _print_result(result: SelfTest) -> None:
    click.echo(f"forged: {result.original}\n")
    columns = ("kind", "refused", "by")
    rows = [_forgery_row(tried) for tried in result.tried]
    print_grid(columns, rows, left=columns)

    applicable = [tried for tried in result.tried if tried.outcome != "not applicable"]
    refused = sum(not tried.is_failure for tried in applicable)
    inapplicable = len(result.tried) - len(applicable)
    click.echo(
        f"\nrefused by their rule: {refused:,} of {count(len(applicable), 'kind')}; not applicable"
        f" here: {inapplicable:,}"
    )

    for tried in result.failures:
        line = f"{tried.kind}: rule {tried.rule} does not refuse it"
        if tried.by:
            line += f"; only {', '.join(tried.by)} refuses it"

        click.echo(line)


def _forgery_row(tried: Tried) -> tuple[str, str, str]:
    by = ", ".join(tried.by)
    if tried.outcome == "not applicable":
        by = tried.why

    return tried.kind.replace("_", " "), _MARKS[tried.outcome], by
