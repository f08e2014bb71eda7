"""`ktdeval train memory`: train a small language model on facts of a market, by number of exposures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    complete_names,
    config_option,
    example,
    flag,
    options_of,
)
from ktdeval_models.planted.params import EXPOSURES, FOLDER


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(JsonOptions):
    """Options of a training of planted models."""

    task: str = flag(
        "bright_fixed_candidate",
        metavar="TASK",
        complete=complete_names("tasks"),
        help="task whose prompts show the candidates that facts are about",
    )
    days: int = flag(5, type=click.IntRange(1, 10_000), help="first days of each window")
    horizon: int = flag(
        1,
        type=click.IntRange(1, 1000),
        help="sessions that a return is over, from the open at which orders are filled",
    )
    exposures: str = flag(
        ",".join(map(str, EXPOSURES)),
        metavar="N,…",
        help="how often every fact has been read; each gives a model",
    )
    seed: int = flag(0, type=click.IntRange(0, 2**31 - 1), help="first seed")
    seeds: int = flag(1, type=click.IntRange(1, 1000), help="how many seeds, one training each")
    threads: int = flag(1, type=click.IntRange(1, 1024), help="of torch")
    width: int = flag(160, type=click.IntRange(4, 1024), help="of the network, a multiple of 4")
    layers: int = flag(4, type=click.IntRange(1, 32), help="of the network")
    out: Path = flag(
        Path(FOLDER), type=OutputPath("folder"), metavar="DIR", help="folder of the trainings"
    )


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
