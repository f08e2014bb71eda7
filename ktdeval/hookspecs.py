"""Every way to extend ktdeval. Each hook returns a list of `Spec`; `make` imports what it needs only when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ktdeval.runner.events import Event

hookspec = pluggy.HookspecMarker("ktdeval")
hookimpl = pluggy.HookimplMarker("ktdeval")


@dataclass(frozen=True)
class Spec:
    """One named thing that a plugin offers.

    Attributes:
        name: what a user types. A model spec whose name has no slash is a provider: `--model NAME/anything` reaches it.
        make: builds the thing; called as the hook's docstring says.
        summary: one line for listings.
        params: a dataclass whose fields are the parameters that `make` takes (None: it takes none).
        groups: names under which several tasks can be asked for together.
    """

    name: str
    make: Callable[..., Any]
    summary: str
    params: type | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@hookspec
def ktdeval_tasks() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Tasks; `make()` returns a `Task`. Build the list from a YAML file with `ktdeval.api.task_specs`."""


@hookspec
def ktdeval_models() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Models; `make(name, params)` returns a `Model`; `name` is what follows the provider's slash."""


@hookspec
def ktdeval_agents() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Agent scaffolds; `make(params)` returns an `Agent`."""


@hookspec
def ktdeval_tools() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Tools that task configs name; `make()` returns a `Tool`."""


@hookspec
def ktdeval_metrics() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Metrics; `make()` returns a `Metric`, a pure function of a ledger and a snapshot."""


@hookspec
def ktdeval_data() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Market data providers; `make(params)` returns a `MarketSnapshot` without an id."""


@hookspec
def ktdeval_runners() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Execution backends; `make(params)` returns a `Runner`."""


@hookspec
def ktdeval_commands() -> Sequence[Spec]:  # type: ignore[empty-body]
    """Commands of the command line; `make()` returns a `click.Command`."""


@hookspec
def ktdeval_event(event: Event) -> None:
    """Observe a run (progress, tracing). What it returns is ignored; it can't change the run."""
