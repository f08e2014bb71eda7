"""What plugins offer, as the generated pages list it."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from ktdeval.cli.terminal_tables import params_of
from ktdeval.registry.plugin_registry import Plugins


class Offer(NamedTuple):
    """One name that a plugin offers."""

    name: str
    plugin: str
    summary: str
    #: fields of its parameters; empty if an earlier name of the kind has the same ones
    params: tuple[dataclasses.Field[Any], ...]
    sharing: tuple[str, ...]  #: names of the kind with the same parameters, this one included


def offers_of(plugins: Plugins, kind: str) -> list[Offer]:
    """Return all names of a kind, in the order of its listing."""
    specs = plugins.specs(kind)
    sharing: dict[type, list[str]] = {}
    for name, spec in specs.items():
        if spec.params is not None:
            sharing.setdefault(spec.params, []).append(name)
    offers = []
    for name, spec in specs.items():
        names = sharing.get(spec.params, []) if spec.params is not None else []
        is_first = bool(names) and names[0] == name
        params = tuple(params_of(spec)) if is_first else ()
        owner = plugins.owner(kind, name)
        offers.append(Offer(name, owner, spec.summary, params, tuple(names)))
    return offers
