"""`ktdeval leaderboard export` and `import`: write a board's rows for other tools, and read their
results.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import count
from ktdeval.cli import FilePath, OutputPath, example
from ktdeval.errors import StoreError, UsageError
from ktdeval.values.jsonio import dumps_pretty, write_atomic
from ktdeval.values.typed import to_plain
from ktdeval_board.exchange.board_data import BoardData, Exported, read_board, write_folder
from ktdeval_board.exchange.lm_eval import file_name, import_results as read_lm_eval
from ktdeval_board.exchange.results import write_eval_results, write_every_eval_ever
from ktdeval_board.exchange.tables import write_csv, write_hf_dataset, write_parquet
from ktdeval_board.layout import IMPORTED
from ktdeval_board.options import board_argument, board_option
from ktdeval_board.rules import load_rules

FORMATS = ("parquet", "csv", "hf-dataset", "eval-results", "every-eval-ever")
_SHOWN = 12


@example("ktdeval leaderboard export my-board --to parquet --out rows")
@click.command()
@board_argument
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="what to write")
@click.option(
    "--out",
    type=OutputPath("new folder"),
    required=True,
    metavar="OUT",
    help="a new or empty folder for it",
)
@click.option("--division", metavar="ID", help="only the cards of this division")
@click.option(
    "--dataset", metavar="OWNER/NAME", help="of eval-results: the benchmark dataset on the Hub"
)
@click.option(
    "--license", "licence", default="unknown", show_default=True, metavar="ID",
    help="of hf-dataset: the Hub's name of the licence of the rows, such as cc-by-4.0",
)  # fmt: skip
@click.option(
    "--on", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD",
    help="of every-eval-ever: the day that records say they were made on [default: today]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print what was written as JSON")
def export(
    board: Path, form: str, out: Path, division: str | None, as_json: bool, **options: Any
) -> None:
    """Write the rows of the board in DIR for other tools: tables, a dataset, or the records of
    other result collections.

    Withdrawn cards are left out; tiers, labels and why a card has no rank are columns. Nothing is
    uploaded.
    """
    writers: dict[str, Callable[[BoardData, Path], Exported]] = {
        "parquet": write_parquet,
        "csv": write_csv,
        "hf-dataset": lambda data, folder: write_hf_dataset(data, folder, options["licence"]),
        "eval-results": lambda data, folder: write_eval_results(data, folder, options["dataset"]),
        "every-eval-ever": lambda data, folder: write_every_eval_ever(
            data, folder, (options["on"] or dt.datetime.now(dt.UTC)).date()
        ),
    }
    if form == "eval-results" and options["dataset"] is None:
        raise UsageError(
            "--to eval-results needs --dataset OWNER/NAME: the benchmark dataset on the Hub that"
            " the results are of"
        )

    data = read_board(board, division)
    exported = write_folder(out, lambda folder: writers[form](data, folder))
    if as_json:
        click.echo(dumps_pretty(exported.as_json()), nl=False)
    else:
        click.echo("\n".join(_lines(out, exported)))


def _lines(out: Path, exported: Exported) -> list[str]:
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


READERS = {"lm-eval": read_lm_eval}


@example("ktdeval leaderboard import results.json --board my-board")
@click.command("import")
@click.argument("results", type=FilePath(), metavar="RESULTS.json")
@board_option("the board's folder")
@click.option(
    "--kind",
    type=click.Choice(sorted(READERS)),
    default="lm-eval",
    show_default=True,
    help="what wrote the file",
)
@click.option("--model", metavar="NAME", help="name of the model [default: what the file says]")
def import_results(results: Path, board: Path, kind: str, model: str | None) -> None:
    """Import results of scoring tasks that another harness wrote, such as lm-eval's results_*.json.

    The site shows them as imported, with the source's SHA-256. They are never ranked: the board has
    no records of them.
    """
    rules = load_rules(board)
    document = READERS[kind](results, rules.limits.bytes_of("card_mb"), model)
    folder = board / IMPORTED
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link; make it a folder")

    folder.mkdir(exist_ok=True)
    path = folder / file_name(document)
    write_atomic(path, dumps_pretty(to_plain(document)))
    click.echo(f"{path}: {count(len(document.results), 'result')} of {document.model.name}")

    for note in document.notes:
        click.echo(f"note: {note}")
