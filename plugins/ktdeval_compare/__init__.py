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
    "demo": "Show what masks and attribution are for, on the embedded market, in under a minute.",
    "table": "Print a table of a paper, made of your own cards: --like ktdfin-4.",
}


def _make(name: str) -> click.Command:
    module, attribute = {"table": ("paper_tables", "table_command"), "demo": ("demo", "demo")}.get(name, ("commands", name))
    command: click.Command = getattr(import_module(f"ktdeval_compare.{module}"), attribute)
    return command


def _function(name: str) -> Callable[..., Any]:
    from ktdeval_compare.functions import FUNCTIONS

    return FUNCTIONS[name]


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Commands on several cards."""
    functions = {name: {"function": partial(_function, name)} for name in _COMMANDS if name not in ("power", "demo")}
    return [Spec(name, partial(_make, name), summary, extra=functions.get(name, {})) for name, summary in _COMMANDS.items()]
