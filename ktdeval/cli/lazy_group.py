"""A group of commands that are imported only when called, so that help and a slip in a name cost no import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from ktdeval.errors import PluginError, UsageError
from ktdeval.fields import near_matches


class LazyCommand(NamedTuple):
    """Module and attribute of a command, and its line in `--help`."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group that knows its commands by name only.

    Args:
        path: how the group itself is called, such as `ktdeval leaderboard`.
        lazy: its commands by name, in the order of help.
        extras: package -> the extra of ktdeval that brings it, of packages that its commands need and a plain install lacks.
        settings: as of `click.Group`.
    """

    def __init__(
        self,
        path: str,
        lazy: Mapping[str, LazyCommand],
        extras: Mapping[str, str] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        context_settings = {"help_option_names": ["-h", "--help"], **settings.pop("context_settings", {})}
        super().__init__(path.rpartition(" ")[2], context_settings=context_settings, **settings)
        self.lazy = lazy
        self._path = path
        self._extras = extras

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Names in the order of help."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import a command; None when there is none of that name."""
        return self.load(cmd_name) if cmd_name in self.lazy else None

    def load(self, name: str) -> click.Command:
        """Import a command.

        Raises:
            UsageError: its module, or a package that it needs, is not installed.
            PluginError: it is not a command.
        """
        lazy = self.lazy[name]
        try:
            module = import_module(lazy.module)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package in self._extras:
                raise UsageError(
                    f"`{self._path} {name}` needs {package}, which is not installed, or too old: "
                    f"pip install 'ktdeval[{self._extras[package]}]'"
                ) from error
            if error.name != lazy.module:
                raise
            raise UsageError(f"command {name!r} is missing from this installation ({lazy.module}); reinstall ktdeval") from error
        return checked_command(getattr(module, lazy.attribute, None), name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            UsageError: unknown, with near names.
        """
        command = self.get_command(ctx, args[0])
        if command is None:
            near = near_matches(args[0], self.list_commands(ctx)) or f"; see `{self._path} --help`"
            own = self._path.partition(" ")[2]
            raise UsageError(f"{own}: no command {args[0]!r}{near}" if own else f"no command {args[0]!r}{near}")
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])


def checked_command(command: Any, name: str) -> click.Command:
    """Return a command, or raise PluginError where it is none."""
    if not isinstance(command, click.Command):
        raise PluginError(f"command {name!r} is {type(command).__name__}, expected a click.Command")
    return command
