"""Manifest of the memory floor: short questions that only a memory of the market can answer."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return the two tasks: with true names and dates, and behind the mask."""
    from ktdeval.registry import task_maker, task_specs

    module = "ktdeval_memory_floor.task"
    make = task_maker(f"{module}:MemoryFloorTask", f"{module}:MemoryFloorConfig")
    return task_specs(f"{__path__[0]}/memory_floor.yaml", make)
