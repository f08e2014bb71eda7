"""`ktdeval qfinzero wordings`: instructions in other words, from a run that asked for them."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.cli import OutputPath, RunPath, example
from ktdeval.values.jsonio import dumps_pretty, write_atomic
from ktdeval.values.typed import to_plain
from ktdeval_qfinzero.rewording import wordings_of


@example("ktdeval qfinzero wordings runs/words --out words.json")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@click.option(
    "--out", type=OutputPath("file"), required=True, metavar="FILE", help="file of the wordings"
)
def wordings(run: Path, out: Path) -> None:
    """Write the wordings of a run that keep what their instructions' expected calls depend on.

    RUN ran the task qfinzero_reword_calling or qfinzero_reword_planning of the plugin
    ktdeval_qfinzero.rewording. A task variant names FILE as `wordings`.

    Example: ktdeval qfinzero wordings runs/words --out words.json
    """
    found, refused = wordings_of(run)
    write_atomic(out, dumps_pretty(to_plain(found)))
    click.echo(f"{out}: {len(found.wordings)} wordings by {found.model}; left out: {refused}")
