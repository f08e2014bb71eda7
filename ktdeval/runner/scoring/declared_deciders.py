"""Kinds of models and agents as their plugins declare them, and whether a card states them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, cast

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.origin.fact_types import DECIDERS
from ktdeval.errors import UsageError
from ktdeval.harness.external.external_acts import Isolation
from ktdeval.harness.traits import DeciderKind
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.foreign_code import is_foreign

_OWN = "ktdeval"  # distribution of the suite's own plugins
WALLS: Mapping[Isolation, DeciderKind] = {
    "bwrap": "sandboxed_program",
    "none": "program",
    "remote": "remote_agent",
}
_OUTSIDE = "outside"  # declared by agents that decide outside of this process
_HARMLESS = frozenset({"rule", "model", "nobody"})  # kinds on which no label and no rank depends

DeclaredKind = DeciderKind | Literal["nobody", "outside"]


def decider_kind(
    plugins: Plugins, kind: Literal["models", "agents"], name: str
) -> DeclaredKind | None:
    """Return the kind of decider that a model (given by its full name) or an agent is, as declared
    by its plugin.

    The kind is `nobody` for a model that does not decide, `outside` for an agent whose transcripts
    record how it was isolated, and None for an agent that leaves decisions to its model. Code other
    than ktdeval's own is always a `plugin`.
    """
    try:
        own = plugins.model_spec_name(name)[0] if kind == "models" else name
        spec = plugins.spec(kind, own)
    except UsageError:
        return "plugin"

    owner = plugins.info.get(plugins.owner(kind, own))
    if owner is None or owner.distribution != _OWN or is_foreign(owner):
        return "plugin"
    if spec.decider is not None or kind == "agents":
        return cast("DeclaredKind | None", spec.decider)
    return "model" if plugins.is_remote(name) else "rule"


def decider_problems(card: TradingCard | ScoringCard, plugins: Plugins) -> Iterator[str]:
    """Yield each decider that a card omits, or names by another kind than its plugin declares.

    Where its records are not at hand, a card could otherwise describe a program as a rule. A name
    that no installed plugin has may be omitted, as by cards from before the field.
    """
    recorded = {walls for episode in card.episodes for walls in episode.isolation}
    for name, kind in _declared_kinds(card, plugins).items():
        stated = {each.kind for each in card.deciders if each.name == name}
        is_known = kind != "plugin" or _is_installed(plugins, name)
        is_old = not card.deciders and kind == _OUTSIDE and recorded
        if stated and not stated <= _kinds_allowed(kind):
            others = ", ".join(sorted(stated))
            yield f"deciders: names {name} as {others}, but it is {_kind_words(kind)}"
        elif not stated and is_known and kind not in _HARMLESS and not is_old:
            yield f"deciders: does not name {name}, which is {_kind_words(kind)}; score the run again"


def _is_installed(plugins: Plugins, name: str) -> bool:
    """Return whether an installed plugin has a model or an agent of this name."""
    if name in plugins.specs("agents"):
        return True
    try:
        plugins.model_spec_name(name)
    except UsageError:
        return False
    return True


def _declared_kinds(card: TradingCard | ScoringCard, plugins: Plugins) -> dict[str, DeclaredKind]:
    """Return the kind of each model and of the agent of a card, as their plugins declare it."""
    found: dict[str, DeclaredKind] = {}
    for name in (card.model.name, *(each.name for each in card.further_models)):
        kind = decider_kind(plugins, "models", name)
        if kind is not None:
            found[name] = kind

    of_agent = decider_kind(plugins, "agents", card.agent.name)
    if of_agent is not None:
        found[card.agent.name] = of_agent
    return found


def _kinds_allowed(kind: DeclaredKind) -> frozenset[str]:
    """Return the kinds that a card may state for a declared kind."""
    if kind == _OUTSIDE:
        return frozenset(WALLS.values())
    if kind == "model":  # which may have looked something up
        return frozenset({"model", "model_with_lookups"})
    return frozenset({kind})


def _kind_words(kind: DeclaredKind) -> str:
    if kind == "outside":
        return "an agent outside of the process"
    if kind == "nobody":
        return "no decider"
    return DECIDERS[kind].words
