"""`ktdeval compare cutoff`."""

from __future__ import annotations

from pathlib import Path

from ktdeval_compare.cutoffs.options import CutoffOptions
from ktdeval_compare.study import CompareStudy, study_command

_HELP = """Compare a model's results before and after the end of its training data.

CARD is a card file inside its run folder, or a run folder. A model may remember days before its
training data end; only later results show its skill.
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
