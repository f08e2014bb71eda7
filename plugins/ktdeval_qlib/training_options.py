"""Options of `ktdeval train qlib`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ktdeval.cli import JsonOptions, OutputPath, flag
from ktdeval_qlib import FOLDER

Label = Literal["qlib", "open"]
"""Return to predict: close to close, as Qlib publishes it, or open to open, as orders fill."""

Device = Literal["cpu", "cuda"]
"""Device on which networks are trained."""


@dataclass(frozen=True, kw_only=True)
class QlibOptions(JsonOptions):
    """Options of a training of baselines."""

    train: str | None = flag(
        None,
        metavar="FIRST:LAST",
        help=(
            "days of training; by default those of KTD-Fin, from 2008 to 2022 (it names 2015"
            " elsewhere)"
        ),
    )
    valid: str | None = flag(
        None,
        metavar="FIRST:LAST",
        help="days of validation, for early stopping; by default 2023",
    )
    test: str | None = flag(
        None,
        metavar="FIRST:LAST",
        help="days for the reported rank correlation (IC); by default 2024-01-01:2026-04-10",
    )
    label: Label = flag(
        "qlib",
        help=(
            "return to predict: close to close of the next days, as Qlib publishes it, or open to"
            " open, as fills are made"
        ),
    )
    seed: int = flag(0, type=click.IntRange(0, 2**31 - 1), help="first seed")
    seeds: int = flag(1, type=click.IntRange(1, 1000), help="number of seeds; one training each")
    rounds: int | None = flag(
        None,
        type=click.IntRange(1),
        help="maximum of epochs, boosting rounds or steps; by default as published",
    )
    threads: int = flag(1, type=click.IntRange(1, 1024), help="threads of each library")
    device: Device = flag("cpu", help="device for training networks")
    shuffle_labels: bool = flag(
        False, help="control: permute labels within each day, so there is nothing to learn"
    )
    out: Path = flag(
        Path(FOLDER), type=OutputPath("folder"), metavar="DIR", help="folder for the trained models"
    )
