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
from ktdeval_board.exchange.tables import write_csv, write_hf_dataset, write_parquet
from ktdeval_board.options import board_argument, recorded_day

_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class ExportOptions(PluginOptions, JsonOptions):
    """Options of `leaderboard export`."""

    form: Literal["parquet", "csv", "hf-dataset", "eval-results", "every-eval-ever"] = flag(
        name="--to", help="what to write"
    )
    out: Path = flag(
        type=OutputPath("new folder"), metavar="OUT", help="a new or empty folder for it"
    )
    division: str | None = flag(None, metavar="ID", help="only the cards of this division")
    dataset: str = flag(
        "",
        metavar="OWNER/NAME",
        help="of eval-results: the benchmark dataset on the Hub",
    )
    licence: str = flag(
        "unknown",
        name="--license",
        metavar="ID",
        help="of hf-dataset: the Hub's name of the licence of the rows, such as cc-by-4.0",
    )


@example("ktdeval leaderboard export my-board --to parquet --out rows")
@click.command()
@board_argument
@options_of(ExportOptions)
def export(board: Path, options: ExportOptions) -> None:
    """Write the rows of the board in DIR for other tools: tables, a dataset, or the records of
    other result collections.

    Withdrawn cards are left out; tiers, labels and why a card has no rank are columns. Collections
    of results of AI models get the cards of language models alone. Nothing is uploaded.
    """
    if options.form == "eval-results" and options.dataset == "":
        raise UsageError(
            "--to eval-results needs --dataset OWNER/NAME: the benchmark dataset on the Hub that"
            " the results are of"
        )

    plugins = open_plugins(options.plugin)
    writers: dict[str, Callable[[BoardData, Path], ExportReport]] = {
        "parquet": write_parquet,
        "csv": write_csv,
        "hf-dataset": lambda data, folder: write_hf_dataset(data, folder, options.licence),
        "eval-results": lambda data, folder: write_eval_results(
            data, folder, options.dataset, plugins
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

    for note in exported.notes:
        lines.append(f"note: {note}")

    return lines
