"""Groups of commands: they name their commands without importing them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import CompletionItem

from ktdeval.cli.examples import example
from ktdeval.errors import PluginError, UsageError
from ktdeval.registry.plugin_registry import hint
from ktdeval.values.config_options import near_matches
from ktdeval.values.installation import install_command


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Module and attribute of a command, and its line in `--help`."""

    module: str
    attribute: str
    summary: str
    group: str = ""  #: in which `ktdeval --help` names it; see `command_groups`


class LazyGroup(click.Group):
    """Group that knows only the names of its commands, so that help and a mistyped name import
    nothing.

    `path`: how the group itself is called, such as `ktdeval leaderboard`. `extras`: for each package
    that a plain install lacks, the extra of ktdeval that installs it. `examples`: lines that call
    it, of which help shows the first.
    `settings`: those of `click.Group`.
    """

    #: Command whose options may come without its name
    default_command: str | None = None
    #: Whether its other words may, too: a path or a name that is no command's
    default_takes_words = False

    def __init__(
        self,
        path: str,
        lazy: Mapping[str, LazyCommand],
        extras: Mapping[str, str] = MappingProxyType({}),
        examples: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        context_settings = {
            "help_option_names": ["-h", "--help"],
            **settings.pop("context_settings", {}),
        }
        super().__init__(path.rpartition(" ")[2], context_settings=context_settings, **settings)
        self.lazy = lazy
        self._path = path
        self._extras = extras
        if examples:
            example(examples[0])(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Names in the order of help."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import a command, or return None if there is none of that name."""
        if cmd_name not in self.lazy:
            return None
        return self.load(cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command where the first word names none."""
        if self.default_command is not None and args and self._means_default(ctx, args[0]):
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)

    def _means_default(self, ctx: click.Context, first: str) -> bool:
        if first.startswith("-"):
            own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
            return first not in own

        if not self.default_takes_words or first in self.lazy:
            return False
        # No command has a slash in its name, as models and paths have.
        if "/" in first or os.path.exists(first):  # noqa: PTH110 - Path.exists raises where the name is too long
            return True

        # A word that is nearly a command is one mistyped, not a run that is absent.
        return not near_matches(first, list(self.lazy))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Raises UsageError: a package of an extra that it needs is not installed;
        help is shown without.
        """
        try:
            return super().invoke(ctx)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in self._extras:
                raise

            called = f"{self._path} {ctx.invoked_subcommand}"
            raise UsageError(
                f"`{called}` needs {package}, which is not installed, or too old:"
                f" {install_command(self._extras[package])}"
            ) from error

    def load(self, name: str) -> click.Command:
        """Import a command. Raises UsageError: its module is not installed; PluginError: it is not a
        command.
        """
        lazy = self.lazy[name]
        try:
            module = import_module(lazy.module)
        except ImportError as error:
            if error.name != lazy.module:
                raise

            raise UsageError(
                f"command {name!r} is missing from this installation ({lazy.module}); reinstall"
                " ktdeval"
            ) from error

        command = getattr(module, lazy.attribute, None)
        if not isinstance(command, click.Command):
            raise PluginError(
                f"command {name!r} is {type(command).__name__}, expected a click.Command"
            )

        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Raises UsageError, with near names, if
        there is none.
        """
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, rest

        advice = (
            hint("commands", name)
            or near_matches(name, self.list_commands(ctx))
            or f"; see `{self._path} --help`"
        )
        message = f"no command {name!r}{advice}"
        _, _, own = self._path.partition(" ")
        raise UsageError(f"{own}: {message}" if own else message)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands without importing any, and say which one runs where none is named."""
        rows = []
        for name, command in self.lazy.items():
            summary = command.summary
            if name == self.default_command:
                summary += " [default]"
            rows.append((name, summary))

        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the group's options, or the names of its commands, without importing these."""
        items = click.Command.shell_complete(self, ctx, incomplete)
        if incomplete.startswith("-"):
            if self.default_command is not None:
                command = self.load(self.default_command)
                items += command.shell_complete(click.Context(command, parent=ctx), incomplete)

            return items

        for name, summary in self.summaries(ctx).items():
            if name.startswith(incomplete):
                items.append(CompletionItem(name, help=summary))

        return items

    def summaries(self, ctx: click.Context) -> dict[str, str]:
        """Return what each command does, by its name, in the order of help."""
        return {name: self.lazy[name].summary for name in self.list_commands(ctx)}


class SharedGroup(LazyGroup):
    """Group whose commands come from several plugins, such as `compare`.

    A plugin offers one by a command of two words (`compare luck`). `makers`: what makes each of these
    commands. `default`: the command that runs where the first word names none.
    """

    default_takes_words = True

    def __init__(
        self,
        path: str,
        lazy: Mapping[str, LazyCommand],
        makers: Mapping[str, Callable[[], click.Command]],
        default: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(path, lazy, **settings)
        self._makers = makers
        self.default_command = default or None

    def load(self, name: str) -> click.Command:
        """Return a command of a plugin, or one of ktdeval itself."""
        maker = self._makers.get(name)
        if maker is None:
            return super().load(name)
        return maker()
