"""Plugins that a command loads: only those that its own command line names are code to run."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ktdeval.errors import UsageError
from ktdeval.registry.plugin_registry import Plugins, Warn, load_plugins


def warn(message: str) -> None:
    """Print a warning on stderr."""
    click.echo(f"ktdeval: warning: {message}", err=True)


def open_plugins(extra: Sequence[str] = (), warn: Warn | None = warn) -> Plugins:
    """Load all plugins and those in `extra`, and warn on stderr about each skipped plugin.

    Every command loads its plugins here. Raises UsageError if this command line does not name all
    plugins in `extra`.
    """
    check_typed_plugins(extra)
    return load_plugins(extra, warn)


def plugin_words(plugins: Sequence[str]) -> list[str]:
    """Return the options by which another process of ktdeval loads the same plugins. Raises
    UsageError if this command line does not name all of them.
    """
    check_typed_plugins(plugins)
    return [f"--plugin={reference}" for reference in plugins]


def check_typed_plugins(plugins: Sequence[str]) -> None:
    """Raise UsageError if no `--plugin` on this command line names one of these plugins.

    A plugin is code that runs when it is loaded. A file (plan, config, record, registration) may
    come from a stranger, so it can't name code, whatever command reads it.
    """
    typed: set[str] = set()
    context = click.get_current_context(silent=True)
    while context is not None:
        typed.update(context.params.get("plugin") or ())
        context = context.parent

    for reference in plugins:
        if reference not in typed:
            raise UsageError(
                f"plugin {reference}: named by a file, and no file may name code to run; give"
                f" --plugin {reference} if you trust this code"
            )
