"""Runs the workers of a grid on the nodes of a Ray cluster: `ktdeval grid PLAN.yaml --runner ray`."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker


@hookimpl
def ktdeval_runners() -> list[Spec]:
    """Return the runner for Ray clusters."""
    summary = "Workers of a grid on the nodes of a Ray cluster; needs the extra ray"
    return [Spec("ray", maker("ktdeval_ray.runner:RayRunner"), summary)]
