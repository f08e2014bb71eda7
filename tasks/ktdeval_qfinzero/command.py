"""`ktdeval paper qfinzero`: a group whose commands are imported only when called."""

from __future__ import annotations

from ktdeval.cli import LazyCommand, LazyGroup

_EXTRAS = dict.fromkeys(
    ("anyio", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"), "qfinzero"
)
"""Packages that are not installed with ktdeval itself -> the extra that installs them."""


def _in(module: str, attribute: str, summary: str) -> LazyCommand:
    return LazyCommand(f"ktdeval_qfinzero.access.commands.{module}", attribute, summary)


qfinzero = LazyGroup(
    "qfinzero",
    {
        "serve": _in(
            "serve",
            "serve_market",
            "Serve them over HTTP and the Model Context Protocol, or print an agent's connection "
            "settings.",
        ),
        "tools": _in("explore", "tools", "Print the services' tools, or call one."),
        "items": _in(
            "explore", "items", "Print the benchmark's items, or prove that each can be done."
        ),
        "wordings": _in(
            "wordings",
            "wordings",
            "Write reworded instructions from a run that asked for them.",
        ),
        "replay": _in("explore", "replay", "Verify a broker's log."),
    },
    extras=_EXTRAS,
    help="Price, event and broker services with one clock: their tools, items and logs.",
    line="ktdeval paper qfinzero tools",
)
