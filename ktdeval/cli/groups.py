"""Commands that are imported only when called, and groups of such commands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import CompletionItem

from ktdeval.cli.help.examples import example
from ktdeval.errors import PluginError, UsageError
from ktdeval.registry.plugin_registry import Plugins, hint
from ktdeval.values.installation import import_problem, install_command
from ktdeval.values.misfit import near_matches, near_names

_TYPO_LIKENESS = 0.6  #: of a word to a command, as measured by difflib


class LazyCommand(click.Command):
    """Placeholder for a command until it is called. Help, completion and near matches only need its
    name and summary.

    `heading`: the group in which `ktdeval --help` lists the command (`command_groups` of
    hints.json). A `hidden` command does not appear in any help.
    """

    def __init__(
        self, module: str, attribute: str, summary: str, heading: str = "", hidden: bool = False
    ) -> None:
        super().__init__(attribute, short_help=summary, hidden=hidden)
        self.module = module
        self.heading = heading

    def load(self) -> click.Command:
        """Import the command. Raises UsageError if its module is not installed. Raises PluginError
        if it is not a click command.
        """
        try:
            module = import_module(self.module)
        except ImportError as error:
            if error.name != self.module:
                raise

            raise UsageError(
                f"command {self.name!r} is missing from this installation ({self.module}); reinstall"
                " ktdeval"
            ) from error

        command = getattr(module, self.name or "", None)
        if not isinstance(command, click.Command):
            raise PluginError(
                f"command {self.name!r} is {type(command).__name__}, expected a click.Command"
            )

        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the actual command."""
        return self.load().make_context(info_name, args, parent, **extra)


class PluginCommand(LazyCommand):
    """Placeholder for a plugin command, which is identified by its words, such as `compare
    luck`.
    """

    def __init__(self, plugins: Plugins, words: str, mark: str = "") -> None:
        """Create the placeholder; `mark` is appended to its summary."""
        spec = plugins.spec("commands", words)
        super().__init__("", words, f"{spec.summary}{mark}", next(iter(spec.groups), ""))
        self._plugins = plugins

    def load(self) -> click.Command:
        """Create the command. Raises PluginError if the plugin fails."""
        command: click.Command = self._plugins.make("commands", str(self.name))
        return command


def load_command(command: click.Command) -> click.Command:
    """Return the actual command behind a lazy command; any other command is returned unchanged."""
    return command.load() if isinstance(command, LazyCommand) else command


class LazyGroup(click.Group):
    """Group of commands in help order, with an optional default command that runs if no command is
    named.

    `commands`: commands by name. `default`: the command whose options may be given without its
    name; if it `takes_words`, its other arguments may be given in this way too, such as a path or a
    name that is not a command. `extras`: for each package missing from a plain install, the extra
    of ktdeval that installs it. `line`: an example command line, shown in help. `settings`:
    arguments for `click.Group`.
    """

    def __init__(
        self,
        name: str,
        commands: Mapping[str, click.Command],
        *,
        default: str = "",
        takes_words: bool = True,
        extras: Mapping[str, str] = MappingProxyType({}),
        line: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(name, dict(commands), **settings)
        self.default = default
        self._takes_words = takes_words
        self._extras = extras
        if line:
            example(line)(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the names in help order."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the name of the default command if the first word does not name a command."""
        if self.default and args and self._means_default(ctx, args[0]):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _means_default(self, ctx: click.Context, first: str) -> bool:
        if first.startswith("-"):
            own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
            return first not in own

        if not self._takes_words or first in self.commands:
            return False
        # Models and paths contain slashes; names of commands don't.
        if "/" in first or os.path.exists(first):  # noqa: PTH110 - Path.exists raises if the name is too long
            return True

        # A word that closely resembles a command is treated as a typo, not as a missing run.
        return not near_names(first, list(self.commands), _TYPO_LIKENESS)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command.

        Raises UsageError if the command needs a package from an extra that is not installed; its
        help is shown even then.
        """
        try:
            return super().invoke(ctx)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in self._extras:
                raise

            raise UsageError(
                f"`{ctx.command_path} {ctx.invoked_subcommand}`: {import_problem(error)}:"
                f" {install_command(self._extras[package])}"
            ) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Raises UsageError, suggesting similar
        names, if no command has this name.
        """
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, rest

        advice = (
            hint("commands", name)
            or near_matches(name, self.list_commands(ctx))
            or f"; see `{ctx.command_path} --help`"
        )
        _, _, own = ctx.command_path.partition(" ")
        where = f"{own}: " if own else ""
        raise UsageError(f"{where}no command {name!r}{advice}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options of the group and of its default command, or names of its commands."""
        if not incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)

        items = click.Command.shell_complete(self, ctx, incomplete)
        if self.default:
            command = load_command(self.commands[self.default])
            items += command.shell_complete(click.Context(command, parent=ctx), incomplete)

        return items
