"""Manifest of the command that runs a leaderboard kept in a git repository: `leaderboard`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


def _make_leaderboard() -> click.Command:
    from ktdeval_board.command import leaderboard

    return leaderboard


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Return the command on leaderboards."""
    return [Spec("leaderboard", _make_leaderboard, "Submit runs to a leaderboard; check, rank, publish and export it.")]
