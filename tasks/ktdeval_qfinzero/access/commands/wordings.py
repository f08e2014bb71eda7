"""`ktdeval paper qfinzero wordings`: instructions in other words, from a run that asked for
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli import OutputPath, RunPath, example, flag, options_of
from ktdeval.values import dumps_pretty, to_plain, write_atomic
from ktdeval_qfinzero.rewording import wordings_of


@dataclass(frozen=True, kw_only=True)
class WordingOptions:
    """Options of the `wordings` command."""

    out: Path = flag(type=OutputPath("file"), metavar="FILE", help="file of the wordings")


@example("ktdeval paper qfinzero wordings runs/words --out words.json")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(WordingOptions)
def wordings(run: Path, options: WordingOptions) -> None:
    """Write the wordings of a run that keep what their instructions' expected calls depend on.

    RUN ran the task qfinzero_reword_calling or qfinzero_reword_planning of the plugin
    ktdeval_qfinzero.rewording. A task variant names FILE as `wordings`.
    """
    found, refused = wordings_of(run)
    write_atomic(options.out, dumps_pretty(to_plain(found)))
    click.echo(
        f"{options.out}: {len(found.wordings)} wordings by {found.model}; left out: {refused}"
    )
