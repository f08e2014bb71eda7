"""`ktdeval compare cutoff`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli import JsonOptions, flag
from ktdeval_compare.study import CompareStudy, study_command
from ktdeval_compare.study_options import LevelOptions


@dataclass(frozen=True, kw_only=True)
class CutoffOptions(LevelOptions, JsonOptions):
    """Options of `compare cutoff`."""

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


_HELP = """Set a model's results in its training time against those after it.

CARD is a card file inside its run folder, or a run folder. A model may remember days before its
training data end; what it earns after them is what it can do.
"""

cutoff = study_command(
    CompareStudy(
        name="cutoff",
        help=_HELP,
        folder=Path(__file__).parent,
        options=CutoffOptions,
        compute="ktdeval_compare.cutoffs.compute:cutoff_report",
        parts="ktdeval_compare.cutoffs.texts:cutoff_parts",
        example="ktdeval compare cutoff ktdeval-runs/a --cutoff openai/gpt-5-mini=2024-06",
    )
)
