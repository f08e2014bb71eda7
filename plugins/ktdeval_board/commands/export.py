"""`ktdeval leaderboard export`: a board's rows for other tools."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import click

from ktdeval.errors import UsageError
from ktdeval.jsonio import dumps_pretty
from ktdeval_board.exchange.board_data import BoardData, read_board
from ktdeval_board.exchange.eval_results import write_eval_results
from ktdeval_board.exchange.every_eval_ever import write_every_eval_ever
from ktdeval_board.exchange.hf_dataset import write_hf_dataset
from ktdeval_board.exchange.output import Exported, write_folder
from ktdeval_board.exchange.parquet import write_csv, write_parquet

FORMATS = ("parquet", "csv", "hf-dataset", "eval-results", "every-eval-ever")
_SHOWN = 12


@click.command()
@click.argument("board", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="what to write")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="a new or empty folder for it")
@click.option("--division", metavar="ID", help="only the cards of this division")
@click.option("--dataset", metavar="OWNER/NAME", help="of eval-results: the benchmark dataset on the Hub")
@click.option(
    "--license", "licence", default="unknown", show_default=True, metavar="ID",
    help="of hf-dataset: the Hub's name of the licence of the rows, such as cc-by-4.0",
)  # fmt: skip
@click.option(
    "--on", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD",
    help="of every-eval-ever: the day that records say they were made on [default: today]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print what was written as JSON")
def export(  # noqa: PLR0913 - a command takes one parameter for each option
    board: Path,
    form: str,
    out: Path,
    division: str | None,
    dataset: str | None,
    licence: str,
    on: dt.datetime | None,
    as_json: bool,
) -> None:
    """Write the rows of the board in DIR for other tools: tables, a dataset, or the records of other result collections.

    Withdrawn cards are left out; tiers, labels and why a card has no rank are columns. Nothing is uploaded.
    """
    writers: dict[str, Callable[[BoardData, Path], Exported]] = {
        "parquet": write_parquet,
        "csv": write_csv,
        "hf-dataset": lambda data, folder: write_hf_dataset(data, folder, licence),
        "eval-results": lambda data, folder: write_eval_results(data, folder, dataset or ""),
        "every-eval-ever": lambda data, folder: write_every_eval_ever(data, folder, (on or dt.datetime.now(dt.UTC)).date()),
    }
    if form == "eval-results" and dataset is None:
        raise UsageError("--to eval-results needs --dataset OWNER/NAME: the benchmark dataset on the Hub that the results are of")
    data = read_board(board, division)
    exported = write_folder(out, lambda folder: writers[form](data, folder))
    click.echo(dumps_pretty(exported.as_json()) if as_json else "\n".join(_lines(out, exported)), nl=not as_json)


def _lines(out: Path, exported: Exported) -> list[str]:
    shown = list(exported.files.items())[:_SHOWN]
    lines = [f"{out / name}: {count:,} {exported.unit}" for name, count in shown]
    if len(exported.files) > len(shown):
        lines.append(f"… and {len(exported.files) - len(shown):,} more files")
    if not exported.files:
        lines.append(f"{out}: nothing to write")
    lines += [f"left out: {cards} cards ({reason})" for reason, cards in sorted(exported.left_out.items())]
    return lines + [f"note: {note}" for note in exported.notes]
