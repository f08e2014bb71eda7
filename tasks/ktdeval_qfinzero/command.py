"""`ktdeval serve` and `ktdeval qfinzero`: groups whose commands are imported only when called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from ktdeval.api import UsageError, near_matches

_EXTRAS = {
    **dict.fromkeys(("anyio", "fastapi", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"), "qfinzero"),
    **dict.fromkeys(("bson", "pymongo"), "mongo"),
}
"""Packages that are not installed with ktdeval itself, and the extra that brings them."""


class _Lazy(NamedTuple):
    """The module under `access.commands` that a command is in, its name there, and its line of help."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group that knows its commands by name only.

    Args:
        path: how the group itself is called.
        lazy: its commands.
        settings: what click takes.
    """

    def __init__(self, path: str, lazy: Mapping[str, _Lazy], **settings: Any) -> None:
        super().__init__(path.rpartition(" ")[2], context_settings={"help_option_names": ["-h", "--help"]}, **settings)
        self._path = path
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """In the order in which they are used."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import a command; None when there is none of that name.

        Raises:
            UsageError: it needs a package that is not installed.
        """
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        try:
            module = import_module(f"ktdeval_qfinzero.access.commands.{lazy.module}")
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            raise UsageError(
                f"`{self._path} {cmd_name}` needs {package}, which is not installed, or too old: "
                f"pip install 'ktdeval[{_EXTRAS[package]}]'"
            ) from error
        command: click.Command = getattr(module, lazy.attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            UsageError: unknown, with near names.
        """
        if args[0] not in self._lazy:
            near = near_matches(args[0], self._lazy) or f"; see `{self._path} --help`"
            raise UsageError(f"{self._path.partition(' ')[2]}: no command {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self._lazy.items()])


serve = LazyGroup(
    "ktdeval serve",
    {"qfinzero": _Lazy("serve", "qfinzero", "Serve the QFinZero services over HTTP and the Model Context Protocol.")},
    help="Serve what tasks offer their agents to anybody else.",
)

_DATA = LazyGroup(
    "ktdeval qfinzero data",
    {
        "build": _Lazy("data_build", "build", "Make a synthetic dataset."),
        "import": _Lazy("data_import", "import_data", "Make a dataset of your own files."),
        "update": _Lazy("data_import", "update", "Add newer files to a dataset."),
        "check": _Lazy("data_look", "check", "Read a whole dataset and say what is wrong with it."),
        "info": _Lazy("data_look", "info", "Say what a dataset holds."),
        "news-to-mongodb": _Lazy("data_news", "news_to_mongodb", "Copy a dataset's news into a MongoDB server."),
    },
    help="Make, update and check the data that the services read.",
)


class _QfinzeroGroup(LazyGroup):
    """Its group of data commands is part of this module."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The group of data commands, or an imported command."""
        return _DATA if cmd_name == "data" else super().get_command(ctx, cmd_name)


qfinzero = _QfinzeroGroup(
    "ktdeval qfinzero",
    {
        "data": _Lazy("", "", "Make, update and check the data that the services read."),
        "tools": _Lazy("tools", "tools", "Print the services' tools with their schemas."),
        "call": _Lazy("call", "call", "Call one tool once and print its answer."),
        "items": _Lazy("items", "items", "Print the benchmark's items, or prove that each can be done."),
        "replay": _Lazy("replay", "replay", "Verify a broker's log."),
    },
    help="Price, event and broker services of one clock: their data, their tools, and what their logs say.",
)
