"""Configuration that connects an agent to the services, as JSON for MCP or as a skill file."""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template
from typing import Literal

from ktdeval.values import dumps_pretty
from ktdeval_qfinzero.access.server_rules import make_served_catalogue
from ktdeval_qfinzero.catalogue import catalogue

Form = Literal["mcp", "skill"]


def connection_text(form: Form, options: list[str]) -> str:
    """Return the JSON with which an MCP client starts a server (`mcp`), or a SKILL.md that contains
    this JSON (`skill`).

    `options`: arguments of the server's command.
    """
    words = ["-m", "ktdeval", "paper", "qfinzero", "serve", "--over", "stdio", *options]
    config = dumps_pretty({"mcpServers": {"qfinzero": {"command": sys.executable, "args": words}}})
    if form == "mcp":
        return config

    tools = "\n".join(
        f"* `{each.wire_name}`: {each.summary}"
        for each in make_served_catalogue(catalogue()).operations
    )
    text = (Path(__file__).parents[1] / "skill.md").read_text(encoding="utf-8")
    return Template(text).substitute(config=config.rstrip(), tools=tools)
