"""Grids: models × agents × tasks × windows × seeds, run by a single command that can resume and
amend them.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command group, and the grid extensions of `plan` and `list`."""
    summary = (
        "Run models × agents × tasks × windows × seeds: resumable, amendable, on many workers."
    )
    return [
        Spec("grid", later("ktdeval_grid.command_group:grid"), summary, groups=("evaluate",)),
        Spec(
            "plan grid",
            later("ktdeval_grid.commands:estimate"),
            "Print how many calls a grid would make, its cost and its time; run nothing.",
        ),
        Spec(
            "list plans",
            later("ktdeval_grid.commands:plans"),
            "Shipped plans and pruning rules; with NAME, print a plan to edit.",
        ),
    ]
