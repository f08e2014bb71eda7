"""`ktdeval leaderboard init`: options in, a board out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click

from ktdeval.registry import load_plugins
from ktdeval_board.init import DEFAULT_BASELINES, NewBoard, init_board
from ktdeval_board.options import PLUGIN, as_day, as_items, as_mapping, as_seeds, warn


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--name", required=True, help="short name: lower-case letters, digits and dashes")
@click.option("--title", required=True, help="heading of the site")
@click.option("--tasks", required=True, metavar="TASKS", help="tasks, groups or globs, with commas; each becomes a division")
@click.option("--data", default="synthetic", show_default=True, help="data provider or snapshot folder")
@click.option("--data-args", multiple=True, metavar="NAME=VALUE,…", help="arguments of the data provider")
@click.option("--windows", default="", metavar="WINDOWS", help="names, globs or FIRST:LAST days [default: the tasks' own]")
@click.option("--seeds", default="0", show_default=True, metavar="SEEDS", help="seeds of every card, such as 0,1,2")
@click.option("--market", type=click.Choice(["real", "synthetic"]), help="kind of market [default: what the snapshot is]")
@click.option(
    "--certificate", type=click.Choice(["required", "optional"]), default="optional", show_default=True,
    help="whether cards of trading tasks need a certificate of their mask",
)  # fmt: skip
@click.option(
    "--baseline", "baselines", multiple=True, metavar="MODEL",
    help=f"model that is always shown; may be repeated [default: {', '.join(DEFAULT_BASELINES)}]",
)  # fmt: skip
@click.option("--contact", default="", help="e-mail address or https address for questions; baselines are submitted in its name")
@click.option("--url", default="", help="address of the site, https://…")
@click.option("--summary", default="", help="a sentence for the front page")
@click.option("--on", "today", metavar="YYYY-MM-DD", help="first day of the board [default: today]")
@PLUGIN
def init(  # noqa: PLR0913 - a command takes one parameter for each option
    folder: Path,
    name: str,
    title: str,
    tasks: str,
    data: str,
    data_args: tuple[str, ...],
    windows: str,
    seeds: str,
    market: Literal["real", "synthetic"] | None,
    certificate: Literal["required", "optional"],
    baselines: tuple[str, ...],
    today: str | None,
    extra: tuple[str, ...],
    **texts: Any,
) -> None:
    """Begin a board in DIR: its rules, README, schemas, and the workflow that checks submissions.

    A division is made of each task, with its windows and seeds, on one market; what is compared is fixed by hashes in board.yaml.
    """
    day = as_day(today, datetime.now(UTC))
    new = NewBoard(
        name, title, as_items(tasks), day, data, as_mapping(data_args, "--data-args"), as_items(windows), as_seeds(seeds), market,
        certificate, baselines, **texts,
    )  # fmt: skip
    begun = init_board(folder, new, load_plugins(extra, warn))
    click.echo(f"{folder}: board {name} of a {begun.rules.market} market")
    for division in begun.rules.divisions:
        windows_words = f"{len(division.windows)} window{'' if len(division.windows) == 1 else 's'}"
        click.echo(
            f"  division {division.id}: {windows_words} × {len(division.seeds)} seed{'' if len(division.seeds) == 1 else 's'}"
        )
    for note in begun.notes:
        click.echo(f"note: {note}", err=True)
    if begun.rules.baselines:
        click.echo(f"next: ktdeval leaderboard baselines {folder}")
