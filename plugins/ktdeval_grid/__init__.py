"""Grids: models × agents × tasks × windows × seeds, as one command that resumes and amends."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the group of commands."""
    summary = (
        "Run models × agents × tasks × windows × seeds: resumable, amendable, on many workers."
    )
    return [Spec("grid", later("ktdeval_grid.group:grid"), summary, groups=("evaluate",))]
