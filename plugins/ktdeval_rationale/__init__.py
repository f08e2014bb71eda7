"""Manifest of the command that says what models name in their reasons: `rationale`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


def _make_rationale() -> click.Command:
    from ktdeval_rationale.command import rationale

    return rationale


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Command on run folders."""
    return [Spec("rationale", _make_rationale, "Count what models name in their reasons, by mask, and what hiding it removes.")]
