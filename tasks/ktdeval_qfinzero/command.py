"""`ktdeval serve` and `ktdeval qfinzero`: groups whose commands are imported only when called."""

from __future__ import annotations

from ktdeval.cli import LazyCommand, LazyGroup

_EXTRAS = dict.fromkeys(
    ("anyio", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"), "qfinzero"
)
"""Packages that are not installed with ktdeval itself, and the extra that brings them."""


def _in(module: str, attribute: str, summary: str) -> LazyCommand:
    return LazyCommand(f"ktdeval_qfinzero.access.commands.{module}", attribute, summary)


serve = LazyGroup(
    "ktdeval serve",
    {
        "qfinzero": _in(
            "serve",
            "qfinzero",
            "Serve the QFinZero services over HTTP and the Model Context Protocol.",
        )
    },
    extras=_EXTRAS,
    help="Serve the services of tasks to other clients.",
    examples=("ktdeval serve qfinzero",),
)

qfinzero = LazyGroup(
    "ktdeval qfinzero",
    {
        "tools": _in("explore", "tools", "Print the services' tools with their schemas."),
        "call": _in("explore", "call", "Call one tool once and print its answer."),
        "items": _in(
            "explore", "items", "Print the benchmark's items, or prove that each can be done."
        ),
        "wordings": _in(
            "wordings",
            "wordings",
            "Write instructions in other words, of a run that asked for them.",
        ),
        "connect": _in(
            "explore",
            "connect",
            "Print what connects an agent: a configuration of MCP, or a skill file.",
        ),
        "replay": _in("explore", "replay", "Verify a broker's log."),
    },
    extras=_EXTRAS,
    help="Price, event and broker services with one clock: their tools and logs.",
    examples=("ktdeval qfinzero tools",),
)
