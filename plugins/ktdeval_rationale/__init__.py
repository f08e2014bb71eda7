"""Manifest of the command that says what models name in their reasons: `rationale`."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Command on run folders."""
    summary = "Count what models name in their reasons, by mask, and what hiding it removes."
    return [Spec("rationale", later("ktdeval_rationale.command:rationale"), summary)]
