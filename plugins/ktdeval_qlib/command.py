"""`ktdeval train qlib`: train baselines on a market, and write a folder for each baseline and seed,
with its rank IC on unseen days.
"""

from __future__ import annotations

from typing import Any

import click

from ktdeval.cli import config_option, example, options_of
from ktdeval_qlib.training_options import QlibOptions


@example("ktdeval train qlib qlib/linear --data synthetic --out models")
@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@options_of(QlibOptions)
@config_option("data", "data_args", "plugin")
def qlib(models: tuple[str, ...], options: QlibOptions, **market: Any) -> None:
    """Train supervised baselines on days before those that they are evaluated on.

    MODEL is a name as in `ktdeval list models`, or a pattern such as 'qlib/*'. Existing trainings are
    not repeated, so the command can be resumed. Then: ktdeval --model qlib/lightgbm --tasks
    blinded_open_research. All but qlib/linear need the extra `qlib`; a card of a trained model is
    verified without it.
    """
    from ktdeval_qlib.train_baselines import train_models  # imported here, so that help stays fast

    train_models(models, options, market)
