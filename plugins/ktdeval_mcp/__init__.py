"""Manifest for the command `mcp`, which serves ktdeval's commands to assistants."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command."""
    summary = "Serve judge, audit, plan, compare and card verify to assistants, as MCP tools."
    return [Spec("mcp", later("ktdeval_mcp.command:mcp"), summary, groups=("setup",))]
