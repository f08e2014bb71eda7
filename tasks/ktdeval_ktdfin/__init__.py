"""Manifest of the KTD-Fin trading tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktdeval.api import Spec, hookimpl, task_specs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktdeval.api import Task


def _make_task(name: str, config: Mapping[str, Any], where: str) -> Task:
    from ktdeval_ktdfin.task import make_task

    return make_task(name, config, where)


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Twelve tasks: four masks times three modes."""
    return task_specs(Path(__file__).with_name("ktdfin.yaml"), _make_task)
