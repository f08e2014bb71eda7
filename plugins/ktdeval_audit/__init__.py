"""Manifest for the `audit` command, which searches the logs of any agent framework for
look-ahead.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command."""
    summary = "Search an agent's log for what it could not have known: dates, prices, news, names."
    return [Spec("audit", later("ktdeval_audit.command:audit"), summary, groups=("evaluate",))]
