"""Manifest for `view report`, the command that renders cards as a page."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that works on run folders and cards."""
    summary = "Draw runs as one self-contained HTML page, with plots as files when asked."
    command = later("ktdeval_report.command:report")
    function = later("ktdeval_report.command:draw_report")
    extra = {"function": function, "function_name": "report"}

    return [Spec("view report", command, summary, extra=extra)]
