"""Options of `ktdeval train memory`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli import JsonOptions, OutputPath, complete_names, flag
from ktdeval_models.planted.params import EXPOSURES, FOLDER


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(JsonOptions):
    """Options of a training of planted models."""

    task: str = flag(
        "bright_fixed_candidate",
        metavar="TASK",
        complete=complete_names("tasks"),
        help="task whose prompts show the candidates of the facts",
    )
    days: int = flag(5, type=click.IntRange(1, 10_000), help="first days of each window")
    horizon: int = flag(
        1,
        type=click.IntRange(1, 1000),
        help="sessions over which a return is taken, from the open at which orders fill",
    )
    exposures: str = flag(
        ",".join(map(str, EXPOSURES)),
        metavar="N,…",
        help="numbers of times that every fact is read; each gives a model",
    )
    seed: int = flag(0, type=click.IntRange(0, 2**31 - 1), help="first seed")
    seeds: int = flag(1, type=click.IntRange(1, 1000), help="number of seeds; one training each")
    threads: int = flag(1, type=click.IntRange(1, 1024), help="of torch")
    width: int = flag(
        160, type=click.IntRange(4, 1024), help="width of the network, a multiple of 4"
    )
    layers: int = flag(4, type=click.IntRange(1, 32), help="of the network")
    out: Path = flag(
        Path(FOLDER), type=OutputPath("folder"), metavar="DIR", help="folder for the trained models"
    )
