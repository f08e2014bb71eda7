"""Every command, found without what any single package offers: `.ci/floors` deletes each in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from ktdeval.cli.groups import load_command
from ktdeval.cli.main import cli
from ktdeval.registry import load_plugins


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with the words that call it, in the order of help."""
    context = click.Context(cli, info_name="ktdeval")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None, name
        yield from _with_children(f"ktdeval {name}", load_command(command), context)

    plugins = load_plugins()
    for words in plugins.specs("commands"):
        if words.startswith("list "):  # a kind that a plugin adds
            yield f"ktdeval {words}", plugins.make("commands", words)


def _with_children(
    path: str, command: click.Command, parent: click.Context
) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    context = click.Context(command, info_name=path, parent=parent)
    for of_provider in provider_commands(command, context):
        yield f"{path} {of_provider.name}", of_provider

    if not isinstance(command, click.Group):
        return

    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None, f"{path} {name}"
        if not child.hidden:
            yield from _with_children(f"{path} {name}", load_command(child), context)


def provider_commands(command: click.Command, context: click.Context) -> list[Any]:
    """Return the commands that `data make` has for its providers; none of any other command."""
    of_providers = getattr(command, "of_providers", None)
    if of_providers is None:
        return []

    return list(of_providers(context))


def context_of(words: Sequence[str]) -> click.Context:
    """Read words as the command line would, without running them; return their command's context."""
    context = cli.make_context("ktdeval", list(words))
    while isinstance(context.command, click.Group):
        left = [*context._protected_args, *context.args]
        if not left:
            break

        name, command, rest = context.command.resolve_command(context, left)
        assert command is not None
        context = command.make_context(name, rest, parent=context)

    return context
