"""Manifest of the command that draws cards as a page: `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import click


def _make_report() -> click.Command:
    from ktdeval_report.command import report

    return report


def _make_function() -> Callable[..., Path]:
    from ktdeval_report.command import draw_report

    return draw_report


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Command on run folders and cards."""
    return [Spec("report", _make_report, "Draw runs as one self-contained HTML page, with plots as files when asked.",
                 extra={"function": _make_function})]  # fmt: skip
