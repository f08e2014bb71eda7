"""Manifest of the tasks on any market."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktdeval.contracts import Task


def _make_task(name: str, config: Mapping[str, Any], where: str) -> Task:
    from ktdeval_markets.task import MarketConfig, MarketTask

    return MarketTask(name, MarketConfig.load(config, where))


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """One decision a day on any market, with and without names and dates."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/markets.yaml", _make_task)
