"""Check, by name, server and parameters, whether a hosted model may look things up while it
answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ktdeval.values import build, facts_file, load_yaml

_TABLE = facts_file("lookups.yaml")
_WRITTEN_BY_MODEL = ("arguments", "input", "args")


@dataclass(frozen=True)
class LookingUp:
    """Models that look things up on their own."""

    pattern: str
    what: str
    source: str
    #: fields of `extra_body` that turn look-ups off
    unless: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Switch:
    """Request field that allows a model to look things up."""

    name: str
    what: str
    source: str
    off: tuple[Any, ...] = ()  #: values with which look-ups stay off


@dataclass(frozen=True)
class Reports:
    """Fields and types with which answers report a look-up."""

    fields: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class Lookups:
    """Everything known that lets hosted models look things up."""

    names: tuple[LookingUp, ...]
    servers: tuple[LookingUp, ...]
    fields: tuple[Switch, ...]
    reported: Reports
    harmless: tuple[str, ...]


@cache
def lookups() -> Lookups:
    """Return the table."""
    return build(Lookups, load_yaml(_TABLE), str(_TABLE))


def may_look_up(names: Iterable[str], server: str, extra_body: Mapping[str, Any]) -> str:
    """Return what lets a model look something up, as text; empty if nothing is known that does.

    `names`: names of the model and of its deployment; `server`: address of the API; `extra_body`:
    fields that the user adds to each request. An unknown field counts too, since it may turn
    look-ups on.
    """
    table = lookups()
    for name in names:
        for entry in table.names:
            if fnmatchcase(name.lower(), entry.pattern) and not _is_off(entry, extra_body):
                return f"its name {name}: {entry.what}"

    for entry in table.servers:
        if fnmatchcase(server.lower(), entry.pattern) and not _is_off(entry, extra_body):
            return f"its server: {entry.what}"

    switches = {switch.name: switch for switch in table.fields}
    for name, value in extra_body.items():
        switch = switches.get(name)
        if switch is not None and value not in switch.off:
            return f"extra_body.{name}: {switch.what}"
        if switch is None and name not in table.harmless:
            return f"extra_body.{name}: may switch something on; leave it out"

    return ""


def reports_lookup(answer: Any) -> bool:
    """Return whether a provider's answer reports a look-up, at any depth. The search is iterative,
    so that deep nesting can't overflow the stack.
    """
    signs = lookups().reported
    unread = [answer]
    while unread:
        value = unread.pop()
        if isinstance(value, list):
            unread.extend(value)
        elif isinstance(value, dict):
            if value.get("type") in signs.types or any(value.get(name) for name in signs.fields):
                return True
            unread.extend(inside for name, inside in value.items() if name not in _WRITTEN_BY_MODEL)

    return False


def _is_off(entry: LookingUp, extra_body: Mapping[str, Any]) -> bool:
    unless = entry.unless
    return bool(unless) and all(extra_body.get(name) == value for name, value in unless.items())
