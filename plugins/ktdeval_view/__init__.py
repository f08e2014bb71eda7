"""Manifest for `view episodes`, the command that shows an episode day by day."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that works on run folders."""
    summary = "Walk a run's episodes day by day: prompts, tool calls, replies, orders, fills, NAV."
    return [Spec("view episodes", later("ktdeval_view.command:episodes"), summary)]
