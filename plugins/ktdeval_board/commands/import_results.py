"""`ktdeval leaderboard import`: results of other harnesses, shown on the site and never ranked."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.errors import StoreError
from ktdeval.jsonio import dumps_pretty, write_atomic
from ktdeval.typed import to_plain
from ktdeval_board.exchange.lm_eval import file_name, import_results as read_lm_eval
from ktdeval_board.layout import IMPORTED
from ktdeval_board.rules import load_rules

READERS = {"lm-eval": read_lm_eval}


@click.command("import")
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS.json")
@click.option(
    "--board", type=click.Path(path_type=Path), default=Path(), show_default=True, metavar="DIR", help="the board's folder"
)
@click.option("--kind", type=click.Choice(sorted(READERS)), default="lm-eval", show_default=True, help="what wrote the file")
@click.option("--model", metavar="NAME", help="name of the model [default: what the file says]")
def import_results(results: Path, board: Path, kind: str, model: str | None) -> None:
    """Take over the results of scoring tasks that another harness wrote, such as lm-eval's results_*.json.

    They are shown on the site as imported, beside the source's SHA-256. They are never ranked: the board has no records of them.
    """
    rules = load_rules(board)
    document = READERS[kind](results, rules.limits.bytes_of("card_mb"), model)
    folder = board / IMPORTED
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link; make it a folder")
    folder.mkdir(exist_ok=True)
    path = folder / file_name(document)
    write_atomic(path, dumps_pretty(to_plain(document)))
    count = len(document.results)
    click.echo(f"{path}: {count:,} {'result' if count == 1 else 'results'} of {document.model.name}")
    for note in document.notes:
        click.echo(f"note: {note}")
