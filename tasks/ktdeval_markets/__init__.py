"""Manifest of the tasks for any market."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return the tasks with one decision per day on any market, with and without names and
    dates.
    """
    from ktdeval.registry import task_maker, task_specs

    make = task_maker("ktdeval_markets.task:MarketTask", "ktdeval_markets.config:MarketConfig")
    return task_specs(f"{__path__[0]}/markets.yaml", make)
