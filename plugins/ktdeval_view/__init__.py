"""Manifest for `view episodes`, the command that shows an episode day by day, and `view share`."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the commands that work on run folders."""
    days = "Walk a run's episodes day by day: prompts, tool calls, replies, orders, fills, NAV."
    picture = "Draw a run as one picture to share: return, random traders, attribution, a sentence."
    return [
        Spec("view episodes", later("ktdeval_view.command:episodes"), days),
        Spec("view share", later("ktdeval_view.share:share"), picture),
    ]
