"""`ktdeval leaderboard export`: write a board's rows for other tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

import click

from ktdeval.cards import count
from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    PluginOptions,
    example,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.values import dumps_pretty
from ktdeval_board.exchange.board_data import BoardData, ExportReport, read_board, write_folder
from ktdeval_board.exchange.eval_results_export import write_eval_results, write_every_eval_ever
from ktdeval_board.options import board_argument, recorded_day

_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class ExportOptions(PluginOptions, JsonOptions):
    """Options of `leaderboard export`."""

    form: Literal["eval-results", "every-eval-ever"] = flag(name="--to", help="format to write")
    out: Path = flag(
        type=OutputPath("new folder"), metavar="OUT", help="new or empty folder for the export"
    )
    division: str | None = flag(None, metavar="ID", help="only the cards of this division")
    dataset: str = flag(
        "",
        metavar="OWNER/NAME",
        help="eval-results only: the benchmark dataset on the Hub",
    )
    licence: str = flag(
        "unknown",
        name="--license",
        metavar="ID",
        help="eval-results only: licence of the rows by its Hub name, such as cc-by-4.0",
    )


@example("ktdeval leaderboard export my-board --to every-eval-ever --out records")
@click.command()
@board_argument
@options_of(ExportOptions)
def export(board: Path, options: ExportOptions) -> None:
    """Write the results of the board in DIR for collections of AI model results: every_eval_ever,
    or the Hub (.eval_results of models, and a benchmark dataset with its eval.yaml).

    Withdrawn cards are left out. Collections get only the cards of language models; the benchmark
    dataset contains every card, with its tier and, if it is unranked, the reason. Nothing is
    uploaded.
    """
    if options.form == "eval-results" and options.dataset == "":
        raise UsageError(
            "--to eval-results needs --dataset OWNER/NAME: the benchmark dataset on the Hub to "
            "which the results belong"
        )

    plugins = open_plugins(options.plugin)
    writers: dict[str, Callable[[BoardData, Path], ExportReport]] = {
        "eval-results": lambda data, folder: write_eval_results(
            data, folder, options.dataset, options.licence, plugins
        ),
        "every-eval-ever": lambda data, folder: write_every_eval_ever(
            data, folder, date.fromisoformat(recorded_day()), plugins
        ),
    }
    data = read_board(board, options.division)
    out = options.out
    exported = write_folder(out, lambda folder: writers[options.form](data, folder))
    if options.as_json:
        click.echo(dumps_pretty(exported.as_json()), nl=False)
    else:
        click.echo("\n".join(_export_lines(out, exported)))


def _export_lines(out: Path, exported: ExportReport) -> list[str]:
    listed = list(exported.files.items())[:_SHOWN]
    lines = [f"{out / name}: {number:,} {exported.unit}" for name, number in listed]
    if len(exported.files) > len(listed):
        lines.append(f"… and {len(exported.files) - len(listed):,} more files")

    if not exported.files:
        lines.append(f"{out}: nothing to write")

    for reason, cards in sorted(exported.excluded.items()):
        lines.append(f"left out: {count(cards, 'card')} ({reason})")

    return lines
