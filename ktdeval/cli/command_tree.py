"""Commands of `ktdeval`: built-in commands, plugin commands, and groups to which several plugins
contribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ktdeval.cli.groups import LazyCommand, LazyGroup, PluginCommand
from ktdeval.registry.plugin_registry import Plugins, hints

BUILT_IN = {name: LazyCommand(*entry) for name, entry in hints()["built_in"].items()}
"""Built-in commands, keyed by name."""

_OTHERS = "Others"  #: title for plugin commands without a group


class SharedGroup(LazyGroup):
    """Group whose commands come from several plugins, such as `compare`. Each plugin offers a
    two-word command, such as `compare luck`.
    """

    def __init__(
        self, plugins: Plugins, name: str, members: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        """Create a group from its `settings` in `shared_groups` (hints.json). The default and the
        examples are omitted if no installed plugin has their command.
        """
        default = settings["default"]
        words = settings["help"]
        if default and default not in members:
            default = ""
            words = settings["summary"]

        commands = {}
        for member in members:
            mark = " [default]" if member == default else ""
            commands[member] = PluginCommand(plugins, f"{name} {member}", mark)

        lines = [line for member, line in settings["examples"].items() if member in members]
        lines.append(f"ktdeval {name} {min(members)} --help")
        super().__init__(
            name,
            commands,
            default=default,
            line=lines[0],
            help=words,
            short_help=settings["summary"],
        )
        self.heading = settings["group"]


def all_commands(plugins: Plugins) -> dict[str, LazyCommand | SharedGroup]:
    """Return all commands, keyed by their first word, in help order: built-in commands, groups
    shared by several plugins, and then plugin commands.
    """
    commands: dict[str, LazyCommand | SharedGroup] = dict(BUILT_IN)
    of_plugins = plugins.specs("commands")
    for name, settings in hints()["shared_groups"].items():
        prefix = f"{name} "
        members = [words.removeprefix(prefix) for words in of_plugins if words.startswith(prefix)]
        if members:
            commands[name] = SharedGroup(plugins, name, members, settings)

    for words in of_plugins:
        if " " not in words:
            commands[words] = PluginCommand(plugins, words)

    return commands


def by_title(
    commands: Mapping[str, LazyCommand | SharedGroup],
) -> dict[str, dict[str, click.Command]]:
    """Return commands by group title and name, in help order."""
    titles: dict[str, str] = hints()["command_groups"]
    groups: dict[str, dict[str, click.Command]] = {}
    for title in [*titles.values(), _OTHERS]:
        groups[title] = {}

    for name, command in commands.items():
        groups[titles.get(command.heading, _OTHERS)][name] = command

    return {title: members for title, members in groups.items() if members}
