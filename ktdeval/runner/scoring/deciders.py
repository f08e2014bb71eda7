"""Deciders of a run (models and agents) for its cards, derived from its plan, the registry and its
transcripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktdeval.cards.fields.origin.fact_types import Decider
from ktdeval.errors import KtdevalError
from ktdeval.harness.chat_messages import LOOKED_UP
from ktdeval.harness.external.external_acts import Isolation, ShownPart
from ktdeval.harness.traits import model_traits
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.runner.scoring.declared_deciders import WALLS, decider_kind
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.documents.strict_json import JsonValue


def run_deciders(spec: EpisodeSpec, plugins: Plugins, said: Iterable[Said]) -> list[Decider]:
    """Return the deciders for a card: its models, followed by its agent unless that is merely one
    of ktdeval's own scaffolds.

    `spec`: the spec of any of its episodes. `said`: counts of its transcripts.
    """
    heard = list(said)
    looked_up = {own.model for each in heard for own in each.served if own.looked_up}

    deciders = list(_model(spec.model, spec.model_args, plugins, "" in looked_up))
    for further in spec.further_models:
        deciders += _model(further.name, further.args, plugins, further.asked_as in looked_up)
    if decider_kind(plugins, "agents", spec.agent) == "plugin":
        deciders.append(Decider(name=spec.agent, kind="plugin"))

    return [*deciders, *_outside(spec, plugins, heard)]


def _model(
    name: str, args: Mapping[str, JsonValue], plugins: Plugins, looked_up: bool
) -> Iterator[Decider]:
    """Yield a model as a decider, if it is one. `looked_up`: True if its provider reported that it
    looked something up.
    """
    kind = decider_kind(plugins, "models", name)
    if kind is None or kind == "nobody" or kind == "outside":
        return

    why = ""
    if kind == "model":
        try:
            why = model_traits(plugins.make_model(name, args)).may_look_up
        except KtdevalError as error:
            why = f"its parameters can't be read: {error}"
        if looked_up and not why:
            why = LOOKED_UP
    if why:
        kind = "model_with_lookups"
    yield Decider(name=name, kind=kind, why=why)


def _outside(spec: EpisodeSpec, plugins: Plugins, said: Sequence[Said]) -> Iterator[Decider]:
    """Yield an external agent as a decider, once per kind of isolation; nothing for other
    agents.
    """
    if decider_kind(plugins, "agents", spec.agent) == "plugin":
        return

    steps: Counter[Isolation] = Counter()
    shown: dict[ShownPart, None] = {}
    for each in said:
        steps.update(each.isolation)
        shown |= dict.fromkeys(each.shown)

    for walls, number in steps.items():
        parts = list(shown) if walls == "bwrap" else []
        yield Decider(name=spec.agent, kind=WALLS[walls], steps=number, shown=parts)
