"""`ktdeval qfinzero data import` and `… update`: datasets of files of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval_qfinzero.access.commands.report import problems_shown, show_info, show_read
from ktdeval_qfinzero.data.ingest import ingest_dataset, ingest_update
from ktdeval_qfinzero.data.ingest_spec import load_spec

_SPEC = click.argument("spec", type=click.Path(path_type=Path), metavar="SPEC")
_FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")


@click.command("import")
@_SPEC
@_FOLDER
def import_data(spec: Path, folder: Path) -> None:
    """Make a dataset of CSV and JSON files.

    SPEC is a YAML or JSON file that says which files hold what; FOLDER must not exist yet, or be empty. Every row is checked, and
    nothing is written if one is wrong: the problems are printed, each with its file and line.
    """
    with problems_shown():
        info, report = ingest_dataset(load_spec(spec), spec.parent, folder)
    show_read(report)
    show_info(folder, info)


@click.command()
@_SPEC
@_FOLDER
@click.option("--replace", is_flag=True, help="let rows that contradict stored ones take their place; else they are refused")
def update(spec: Path, folder: Path, replace: bool) -> None:
    """Add what a SPEC names to the dataset in FOLDER, all or nothing.

    Rows that are stored already are passed over. Services that have the dataset open go on with what they opened.
    """
    with problems_shown():
        done, report = ingest_update(load_spec(spec), spec.parent, folder, replace=replace)
    show_read(report)
    for kind, tally in done.tallies.items():
        click.echo(f"{kind}: {tally.new} new, {tally.same} as stored, {tally.grown} grown, {tally.other} replaced")
    for line in done.replaced:
        click.echo(f"replaced: {line}")
    show_info(folder, done.info)
    if done.info.content_id == done.before:
        click.echo("nothing has changed")
