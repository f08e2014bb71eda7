"""Manifest for the `leaderboard` command, which manages a leaderboard kept in a git repository."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the leaderboard commands."""
    summary = "Submit runs to a leaderboard; check, rank, publish and export the leaderboard."
    command = later("ktdeval_board.command:leaderboard")
    return [Spec("leaderboard", command, summary, groups=("boards",))]
