"""`ktdeval paper table`: tables from papers, made from the user's own cards and runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ktdeval.cli import (
    RunPath,
    example,
    flag,
    line_width,
    open_plugins,
    options_of,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.registry import TableChoices
from ktdeval_compare.papers.paper_options import PaperOptions, list_papers


@dataclass(frozen=True, kw_only=True)
class TableOptions(PaperOptions):
    """Options for `paper table`."""

    like: str | None = flag(
        None,
        metavar="[NAME]",
        help="which table, such as ktdfin-4 (KTD-Fin's Table 4); without a name, list all",
    )
    form: Literal["text", "csv", "markdown", "latex", "json"] = flag(
        "text", name="--format", help="format of the table; CSV and JSON have every digit"
    )
    cohort: tuple[str, ...] = flag(
        (),
        type=click.STRING,
        metavar="NAME=PATTERN,…",
        help="systems whose mean is one column of ktdfin-8",
    )


@example("ktdeval paper table ktdeval-runs/a ktdeval-runs/b --like ktdfin-4")
@click.command()
@click.argument("cards", nargs=-1, type=RunPath(), metavar="CARD…")
@options_of(TableOptions)
def table(cards: tuple[Path, ...], options: TableOptions) -> None:
    """Print a table of a paper from your own cards, or list the tables.

    CARD is a card file or a run folder. Figures are those of the cards, medians over the windows
    and seeds that each has; DeepFund's tables of decisions need the run folders, or a database of
    its code (FILE.db), and ama-ratings a CSV file.
    """
    as_json = options.as_json or options.form == "json"
    if options.as_json and options.form not in ("text", "json"):
        raise UsageError(
            f"--json and --format {options.form} are different formats; give one of them"
        )

    plugins = open_plugins(options.plugin)
    if not options.like:
        if cards:
            raise UsageError("--like NAME: name the table; `ktdeval paper table --like` lists all")

        tables = [spec.make() for spec in plugins.specs("tables").values()]
        list_papers(tables, as_json)
        return

    # imported here to keep help fast
    from ktdeval_compare.papers.paper_tables import find_paper_table, paper_frame
    from ktdeval_compare.papers.table_writing import table_json, write_table

    made = find_paper_table(options.like, plugins)
    if not cards:
        raise UsageError(f"{made.name}: give the cards or runs to make it from")

    frame = paper_frame(made, cards, options.choices(TableChoices, plugins))
    if as_json:
        print_json(table_json(made, frame))
    else:
        click.echo(write_table(made, frame, options.form, line_width()), nl=False)
