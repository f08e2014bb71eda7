"""`ktdeval qfinzero data build`: a synthetic dataset of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from ktdeval_qfinzero.access.commands.report import show_info
from ktdeval_qfinzero.data.folder import save_dataset
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.params import SyntheticParams

Decorated = Callable[..., Any]


def _parameters(function: Decorated) -> Decorated:
    """An option for each parameter of the market."""
    for field in reversed(fields(SyntheticParams)):
        default = field.default
        bounds = field.metadata.get("minimum"), field.metadata.get("maximum")
        kind = click.IntRange(*bounds) if isinstance(default, int) else click.STRING
        name = f"--{field.name.replace('_', '-')}"
        function = click.option(name, type=kind, default=default, show_default=True, help=field.metadata["help"])(function)
    return function


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@_parameters
def build(folder: Path, **chosen: Any) -> None:
    """Make a synthetic dataset: an invented market, all of it from one seed.

    FOLDER must not exist yet, be empty, or hold this very dataset. Equal parameters give equal datasets.
    """
    click.echo("generating the market: some seconds", err=True)
    market = generate(SyntheticParams(**chosen))
    show_info(folder, save_dataset(folder, market.prices, market.events, market.news, market.info))
