"""Options of `ktdeval compare cutoff`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ktdeval.cli import JsonOptions, flag
from ktdeval_compare.study_options import LevelOptions


@dataclass(frozen=True, kw_only=True)
class CutoffOptions(LevelOptions, JsonOptions):
    """Options for `compare cutoff`."""

    cutoffs: tuple[str, ...] = flag(
        (),
        name="--cutoff",
        type=click.STRING,
        metavar="MODEL=DATE",
        help=(
            "end of the training data of a model or pattern of systems: a day, a month, none"
            " (nothing trained), unknown"
        ),
    )
