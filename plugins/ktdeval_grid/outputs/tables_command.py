"""`ktdeval grid tables`: make the outputs that a grid makes at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import click
from msgspec import structs

from ktdeval.cli import FilePath, PluginOptions, can_fork, example, flag, open_plugins, options_of
from ktdeval.errors import UsageError
from ktdeval.values import near_matches, shown_path
from ktdeval_grid.outputs.final_outputs import make_ending
from ktdeval_grid.planning.plan import Page
from ktdeval_grid.planning.plan_overrides import names_or_none
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.status import look, reader_of


@dataclass(frozen=True, kw_only=True)
class TablesOptions(PluginOptions):
    """Options of `grid tables`."""

    pages: tuple[str, ...] = flag(
        (),
        help="pages besides the bundle's index: report, views; none: neither [default: the plan's]",
    )


@example("ktdeval grid tables lab --pages report")
@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@options_of(TablesOptions)
def tables(folder: Path, options: TablesOptions) -> None:
    """Make tables and pages of the finished units, as at the end of a grid."""
    place = open_place(folder)
    found, now = look(reader_of(place.store))
    record = found.record
    if options.pages:
        pages = _chosen_pages(options.pages)
        record = structs.replace(record, plan=structs.replace(record.plan, pages=pages))

    plugins = open_plugins((*record.plan.plugin, *options.plugin))
    ending = make_ending(place.root, record, now, plugins, may_fork=can_fork())
    for path in ending.tables:
        click.echo(f"table   {shown_path(path)}")

    click.echo(f"site    {shown_path(ending.index)}")
    for problem in ending.problems:
        click.echo(f"not made: {problem}", err=True)


def _chosen_pages(given: Sequence[str]) -> tuple[Page, ...]:
    """Return the pages that the option names. Raises UsageError."""
    known: tuple[Page, ...] = get_args(Page)
    named = names_or_none(given)
    for name in named:
        if name not in known:
            raise UsageError(
                f"--pages: no page {name!r}{near_matches(name, known)}; pages are"
                f" {', '.join(known)}, or none"
            )

    return tuple(page for page in known if page in named)
