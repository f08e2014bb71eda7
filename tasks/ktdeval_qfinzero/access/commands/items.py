"""`ktdeval qfinzero items`: the benchmark's own items in the public format of task files, and the proof that each can be done."""

from __future__ import annotations

from typing import cast

import click

from ktdeval.api import dumps_canonical
from ktdeval_qfinzero.access.commands.options import Source, open_data, source_options
from ktdeval_qfinzero.bench.generate import make_items
from ktdeval_qfinzero.bench.prove import prove
from ktdeval_qfinzero.scoring.tasks_file import task_to_row
from ktdeval_qfinzero.scoring.types import Suite


@click.command()
@click.argument("suite", type=click.Choice(["calling", "planning"]))
@click.option("--items-seed", type=click.IntRange(0), default=0, show_default=True, help="seed of the items; the tasks use 0")
@click.option("--prove", "is_proved", is_flag=True, help="carry every item out on the services instead of printing it")
@source_options
def items(suite: str, items_seed: int, is_proved: bool, source: Source) -> None:
    """Print the items with their expected calls, one JSON object a line, as the public task files have them.

    With --prove each item's expected calls are made in a workspace of its own; the first that fails is named.
    """
    dataset = open_data(source)
    made = make_items(dataset, cast("Suite", suite), items_seed)
    if not is_proved:
        for item in made:
            click.echo(dumps_canonical(task_to_row(item.task)))
        return
    for item in made:
        prove(item, dataset)
    refused = sum(item.task.refuse for item in made)
    click.echo(f"{len(made)} items: {len(made) - refused} carried out, {refused} to be refused")
