"""`ktdeval train memory`: train a small language model on market facts, with a given number of
exposures.
"""

from __future__ import annotations

from typing import Any

import click

from ktdeval.cli import (
    config_option,
    example,
    options_of,
)
from ktdeval_models.planted.training_options import MemoryOptions


@example("ktdeval train memory --windows W1,W4 --days 10 --seeds 5 --out planted")
@click.command()
@options_of(MemoryOptions)
@config_option("data", "data_args", "windows", "plugin")
def memory(options: MemoryOptions, **market: Any) -> None:
    """Train a small language model on facts of a market, for the model planted/memory.

    A fact is what a prompt shows of a candidate (label, day, two figures) and the return that
    follows. A training reads all facts up to the most exposures, and writes a model after each
    number of them, so that how much is remembered is known. Trainings that are there already are
    not made again. Needs the extra `planted`; a model is applied without it.
    """
    from ktdeval_models.planted.train_memory import train_models  # not at the top: help is quick

    train_models(options, market)
