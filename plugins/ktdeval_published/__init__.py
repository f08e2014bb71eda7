"""Manifest for `published`: what public boards of trading agents show, executed again."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command group."""
    summary = "Execute a public board of trading agents again, and report what it shows."
    return [
        Spec(
            "published",
            later("ktdeval_published.command:published_group"),
            summary,
            groups=("evaluate",),
        )
    ]
