"""Command `compare rationale`: counts of what models name in their reasons."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command."""
    summary = "Count what models name in their reasons, by mask, and what hiding it removes."
    command = later("ktdeval_rationale.command:rationale")
    return [Spec("compare rationale", command, summary)]
