"""`ktdeval mcp`: a group whose commands are imported only when called."""

from __future__ import annotations

import click

from ktdeval.cli import LazyCommand, LazyGroup

_EXTRAS = dict.fromkeys(("anyio", "mcp", "mcp_types", "pydantic"), "mcp")
"""Packages that are not installed with ktdeval itself, each with the extra that installs it."""


class _McpGroup(LazyGroup):
    """Group that runs `serve` if no command is named, as clients expect of a server."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `serve` if no arguments are given."""
        return super().parse_args(ctx, args or ["serve"])


mcp = _McpGroup(
    "mcp",
    {
        "serve": LazyCommand(
            "ktdeval_mcp.commands", "serve", "Serve the tools over stdin and stdout. [default]"
        ),
        "config": LazyCommand(
            "ktdeval_mcp.commands", "config", "Print the configuration for a client."
        ),
        "skill": LazyCommand(
            "ktdeval_mcp.commands", "skill", "Print a SKILL.md: which tool answers which question."
        ),
    },
    extras=_EXTRAS,
    help="Let an assistant judge backtests, audit logs, plan and compare runs, and search the docs.",
    line="ktdeval mcp config claude-code",
)
