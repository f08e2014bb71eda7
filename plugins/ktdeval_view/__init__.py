"""Manifest of the command that walks an episode day by day: `view`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


def _make_view() -> click.Command:
    from ktdeval_view.command import view

    return view


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Command on run folders."""
    return [Spec("view", _make_view, "Walk a run's episodes day by day: prompts, tool calls, replies, orders, fills, NAV.")]
