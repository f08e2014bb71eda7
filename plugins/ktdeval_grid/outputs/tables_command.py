"""`ktdeval grid tables`: make the outputs that a grid makes at its end."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.cli import FilePath, PluginOptions, can_fork, example, open_plugins, options_of
from ktdeval.values import shown_path
from ktdeval_grid.outputs.final_outputs import make_ending
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.status import look, reader_of


@example("ktdeval grid tables lab")
@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@options_of(PluginOptions)
def tables(folder: Path, options: PluginOptions) -> None:
    """Make tables and pages of the finished units, as at the end of a grid."""
    place = open_place(folder)
    found, now = look(reader_of(place.store))
    plugins = open_plugins((*found.record.plan.plugin, *options.plugin))
    ending = make_ending(place.root, found.record, now, plugins, may_fork=can_fork())
    for path in ending.tables:
        click.echo(f"table   {shown_path(path)}")

    click.echo(f"site    {shown_path(ending.index)}")
    for problem in ending.problems:
        click.echo(f"not made: {problem}", err=True)
