"""Manifest of the command `judge`, its model of declared decisions and its task."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import later, maker


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command on results that were made elsewhere."""
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
    """Return the model that submits what a file declares."""
    from ktdeval_judge.params import DeclaredParams

    return [
        Spec(
            "declared/decisions",
            maker("ktdeval_judge.decisions_model:DecisionsModel"),
            "Submits the decisions of a file, as `ktdeval judge` read them",
            DeclaredParams,
            remote=False,
        )
    ]


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return the task of declared decisions."""
    from ktdeval.registry.task_files import task_specs

    return task_specs(f"{__path__[0]}/tasks.yaml")
