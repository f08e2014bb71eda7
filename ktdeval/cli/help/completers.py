"""Completion of option values: names that plugins offer, and fixed words.

A completer is a function that click accepts as `shell_complete=`. Plugins are only loaded if their
names are requested. Plugins given with `--plugin` are never loaded, so completing a command line
does not execute any code that it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ktdeval.errors import KtdevalError
from ktdeval.registry.plugin_registry import Plugins, load_plugins

if TYPE_CHECKING:
    from ktdeval.hookspecs import Spec

COMPLETION = "_KTDEVAL_COMPLETE"  #: environment variable with which a shell requests completions

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
#: words to complete, each with its description or ""
Words = Mapping[str, str]


def complete_words(words: Iterable[str]) -> Completer:
    """Return a completer for fixed words. In a comma-separated list, it completes the last word."""
    fixed = dict.fromkeys(words, "")
    return _completer(lambda _context: fixed)


def complete_names(kind: str) -> Completer:
    """Return a completer for names of a kind: tasks with their groups, models, agents, metrics,
    data, runners or windows. In a comma-separated list, it completes the last name.
    """
    if kind == "windows":
        return _completer(_windows_of_tasks)

    return _completer(lambda _context: names_of(load_plugins(), kind))


def complete_path(kind: str) -> Completer:
    """Return a completer that leaves paths to the shell. `kind`: `file` or `dir`."""
    return lambda _context, _parameter, text: [CompletionItem(text, type=kind)]


def _markets(_context: click.Context) -> Words:
    """Return the data providers that make a market, unlike those that make another form of data."""
    specs = load_plugins().specs("data")
    return {name: spec.summary for name, spec in specs.items() if "form" not in spec.extra}


def complete_data(
    context: click.Context, parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    """Complete a market: a data provider or, if none matches, a folder."""
    providers = _completer(_markets)(context, parameter, text)
    return providers or [CompletionItem(text, type="dir")]


def names_of(plugins: Plugins, kind: str) -> Words:
    """Return the names of a kind that the command line accepts, each with its summary."""
    specs = plugins.specs(kind)
    names: dict[str, str] = {}
    for spec in specs.values():
        for group in spec.groups:
            names.setdefault(group, f"group of {kind}")

    for name, spec in specs.items():
        # a model provider's name is followed by a slash and the name of a model
        is_provider = kind == "models" and "/" not in name
        names[f"{name}/" if is_provider else name] = spec.summary

    return names


def _completer(words: Callable[[click.Context], Words]) -> Completer:
    def complete(
        context: click.Context, _parameter: click.Parameter, text: str
    ) -> list[CompletionItem]:
        before, comma, last = text.rpartition(",")
        given = before.split(",")
        items = []
        for word, meaning in words(context).items():
            if word.startswith(last) and word not in given:
                items.append(CompletionItem(f"{before}{comma}{word}", help=meaning or None))

        return items

    return complete


def _windows_of_tasks(context: click.Context) -> Words:
    """Return the windows of the tasks given on the command line so far, or of all tasks if it names
    no task.
    """
    plugins = load_plugins()
    specs = plugins.specs("tasks")
    given = context.params.get("tasks") or context.params.get("task") or ()
    patterns = given.split(",") if isinstance(given, str) else list(given)
    try:
        chosen = [specs[name] for name in plugins.resolve_tasks(patterns)]
    except KtdevalError:  # no task so far, or an incomplete name
        chosen = list(specs.values())

    windows: dict[str, str] = {}
    for spec in chosen:
        windows.update(_windows_of(spec))

    return windows


def _windows_of(spec: Spec) -> Words:
    """Return the windows of a task defined in YAML, with the days of each window."""
    windows = spec.extra.get("config", {}).get("windows", {})
    texts = {}
    for name, window in windows.items():
        texts[str(name)] = f"{window.get('first')} to {window.get('last')}"

    return texts
