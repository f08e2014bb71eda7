"""Manifest for the `judge` command, and for its model, which submits declared decisions."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later, maker


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that judges results produced elsewhere."""
    return [
        Spec(
            "judge",
            later("ktdeval_judge.command:judge"),
            "Judge decisions, trades or returns that were made anywhere, by any program.",
            groups=("evaluate",),
        )
    ]


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the model that submits the decisions declared in a file."""
    from ktdeval_judge.params import DeclaredParams

    return [
        Spec(
            "declared/decisions",
            maker("ktdeval_judge.decisions_model:DecisionsModel"),
            "Submits the decisions of a file, as `ktdeval judge` read them",
            DeclaredParams,
            remote=False,
            decider="file",
        )
    ]
