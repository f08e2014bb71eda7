"""`ktdeval qfinzero items`: the benchmark's own items in the public format of task files, and the proof that each can be done."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from ktdeval.jsonio import dumps_canonical
from ktdeval_qfinzero.access.commands.options import Source, open_data, source_options
from ktdeval_qfinzero.benchmark.generate import make_items
from ktdeval_qfinzero.benchmark.scenario import prove
from ktdeval_qfinzero.scoring.tasks_file import publish_tasks, task_to_row
from ktdeval_qfinzero.scoring.types import Suite


@click.command()
@click.argument("suite", type=click.Choice(["calling", "planning"]))
@click.option("--items-seed", type=click.IntRange(0), default=0, show_default=True, help="seed of the items; the tasks use 0")
@click.option("--prove", "is_proved", is_flag=True, help="carry every item out on the services instead of printing it")
@click.option(
    "--publish",
    "published",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="write the items as a dataset for Hugging Face's datasets instead of printing them",
)
@source_options
def items(suite: str, items_seed: int, is_proved: bool, published: Path | None, source: Source) -> None:
    """Print the items with their expected calls, one JSON object a line, as the public task files have them.

    With --prove each item's expected calls are made in a workspace of its own; the first that fails is named. With --publish they
    are written as a new folder, a Parquet file and a dataset card, which `--items` of `ktdeval run` reads.
    """
    dataset = open_data(source)
    made = make_items(dataset, cast("Suite", suite), items_seed)
    if published is not None:
        title = f"QFinZero {suite} items, seed {items_seed}, on {dataset.info.name}"
        publish_tasks(published, title, tuple(item.task for item in made))
        click.echo(f"{published}: {len(made)} items")
    if not is_proved and published is None:
        for item in made:
            click.echo(dumps_canonical(task_to_row(item.task)))
    if not is_proved:
        return
    for item in made:
        prove(item, dataset)
    refused = sum(item.task.refuse for item in made)
    click.echo(f"{len(made)} items: {len(made) - refused} carried out, {refused} to be refused")
