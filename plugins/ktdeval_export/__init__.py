"""Manifest for `train export`, the command that writes runs as training data."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command."""
    summary = "Write runs as training data, refused unless a leak audit passes."
    return [
        Spec("train export", later("ktdeval_export.command:export"), summary, groups=("train",))
    ]
