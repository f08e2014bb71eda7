"""Manifest of the commands that compare cards: `compare`, `power`, `effects`, `luck`, `invariance`."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import click

_COMMANDS = {
    "compare": "Test whether agents differ, paired by window and seed, and name those that are tied.",
    "power": "Report what a plan of windows and seeds can tell apart, before it is run.",
    "effects": "Report the value of stock, date, data and tools, from cards of several masks and modes.",
    "luck": "Report how much of a result is luck, and whether a ranking by return is one by selection.",
    "invariance": "Report how much changes when only the labels of the mask do: the noise floor.",
}


def _make(name: str) -> click.Command:
    command: click.Command = getattr(import_module("ktdeval_compare.commands"), name)
    return command


def _function(name: str) -> Callable[..., Any]:
    from ktdeval_compare.functions import FUNCTIONS

    return FUNCTIONS[name]


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Commands on several cards."""
    functions = {name: {"function": partial(_function, name)} for name in _COMMANDS if name != "power"}
    return [Spec(name, partial(_make, name), summary, extra=functions.get(name, {})) for name, summary in _COMMANDS.items()]
