"""`ktdeval train`: train baselines on a market; writes a folder for each baseline and seed, with
its rank IC on unseen days.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from ktdeval.cli import OutputPath, config_option, example
from ktdeval_qlib import FOLDER
from ktdeval_qlib.choices import Device, Label


@example("ktdeval train qlib/linear --data synthetic --out models")
@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option(
    "--train",
    "train_days",
    metavar="FIRST:LAST",
    help="days of training; by default those of KTD-Fin, from 2008 to 2022",
)
@click.option(
    "--valid",
    "valid_days",
    metavar="FIRST:LAST",
    help="days of validation, for early stopping; by default 2023",
)
@click.option(
    "--test",
    "test_days",
    metavar="FIRST:LAST",
    help="days on which rank IC is shown; by default 2024-01-01:2026-04-10",
)
@click.option(
    "--train-from",
    default="2008-01-01",
    show_default=True,
    metavar="DAY",
    help="the paper names 2008, and 2015 elsewhere",
)
@click.option(
    "--label",
    type=click.Choice(get_args(Label)),
    default="qlib",
    show_default=True,
    help=(
        "return to predict: close to close of the next days, as Qlib publishes it, or open to open,"
        " as fills are made"
    ),
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="first seed"
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="how many seeds, one training each",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help="epochs, boosting rounds or steps at most; by default those published",
)
@click.option(
    "--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="of each library"
)
@click.option(
    "--device",
    type=click.Choice(get_args(Device)),
    default="cpu",
    show_default=True,
    help="where networks are trained",
)
@click.option(
    "--shuffle-labels",
    "shuffled",
    is_flag=True,
    help="a control: labels permuted within each day, nothing to learn",
)
@click.option(
    "--out",
    type=OutputPath("folder"),
    default=Path(FOLDER),
    show_default=True,
    metavar="DIR",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@config_option("data", "data_args", "plugin")
def train(models: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:
    """Train supervised baselines on days before those that they are evaluated on.

    MODEL is a name as in `ktdeval models`, or a pattern such as 'qlib/*'. Trainings that are there
    already are not made again, so the same command goes on where it was stopped. Then: ktdeval
    --model qlib/lightgbm --tasks blinded_open_research. All but qlib/linear need the extra `qlib`;
    a card of a trained model is verified without it.
    """
    from ktdeval_qlib.trainings import train_models  # not at the top, so that help is quick

    train_models(models, out, options, as_json=as_json)
