"""Manifest of the de-anonymization probes: how much of a masked payload an attacker can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktdeval.api import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktdeval.api import ScoringTask


def _make_task(name: str, config: Mapping[str, Any], where: str) -> ScoringTask:
    from ktdeval_deanon.task import make_task

    return make_task(name, config, where)


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Four probes, one for each mask."""
    from ktdeval.api import task_specs

    return task_specs(f"{__path__[0]}/deanon.yaml", _make_task)
