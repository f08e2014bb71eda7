"""Hooks that extend ktdeval. Each returns a list of `Spec`; `make` imports its needs when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("ktdeval")
hookimpl = pluggy.HookimplMarker("ktdeval")

COMPACT = "_compact"
"""Ends the name of a task that is shown in fewer tokens: `market_blinded_compact`."""


@dataclass(frozen=True)
class Spec:
    """One named item that a plugin offers.

    Example:
        Spec("mine/parrot", lambda name: Parrot(), "Gives one answer to every question")

    Attributes:
        name: what the user types. A model spec whose name has no slash is a provider: `--model
            NAME/anything` reaches it. A two-word command belongs to a group that plugins share,
            such as `compare luck` (`shared_groups` of plugins/hints.json), or adds a kind to `list`
            or `plan`, such as `list plans`.
        make: builds the item; called as `HOOKS` says.
        summary: one line for listings.
        params: dataclass whose fields are the parameters of `make`; None if it takes none.
        groups: for a task, names that each select several tasks at once, the first being its
            family; for a command, the group under which `ktdeval --help` lists it (`command_groups`
            of plugins/hints.json).
        remote: for a model, whether it is a `RemoteModel`; records and cards must agree. None:
            determined by making one without parameters.
        decider: who decides, for ktdeval's own models (a `DeciderKind`, or `nobody`; None: a rule,
            or a model behind a network) and agents (`outside` of this process; None: its model).
    """

    name: str
    make: Callable[..., Any]
    summary: str
    params: type | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    remote: bool | None = None
    decider: str | None = None


HOOKS = {
    "tasks": (
        "Tasks; `make()` returns a `Task`. Build the list from a YAML file with"
        " `ktdeval.api.task_specs`."
    ),
    "models": (
        "Models; `make(name, params)` returns a `Model`; `name` is what follows the provider's"
        " slash."
    ),
    "agents": "Agent scaffolds; `make(params)` returns an `Agent`.",
    "tools": "Tools that task configs name; `make()` returns a `Tool`.",
    "metrics": (
        "Metrics as `@metric` makes them, or Specs; `make()` returns a `Metric`, a function of a"
        " ledger and a snapshot."
    ),
    "data": (
        "Market data providers; `make(params)` returns a `MarketSnapshot` without an id. Data of"
        " another form: see `ktdeval.registry.DataForm`."
    ),
    "venues": (
        "Rules of markets; `make()` returns a `ktdeval.market.Venue`. From YAML:"
        " `ktdeval.registry.venue_specs`."
    ),
    "cards": (
        "Kinds of cards; `make()` returns a `ktdeval.cards.CardKind`: how cards are read, checked"
        " and shown."
    ),
    "tables": (
        "Tables of papers; `make()` returns a `PaperTable`. From YAML:"
        " `ktdeval.registry.table_specs`."
    ),
    "runners": "Execution backends; `make(params)` returns a `Runner`.",
    "commands": "Commands of the command line; `make()` returns a `click.Command`.",
}
"""Content of the list of the hook `ktdeval_<kind>`, by kind; the hook returns a list of `Spec`."""


def ktdeval_event(event: object) -> None:
    """Observe a run through a `ktdeval.api.Event` (progress, tracing); the return value is ignored."""
