"""Checks that a run's models match their plugins: that no remote model is recorded as a local one,
and that request settings follow from a model's parameters.

Manifests and cards are written by the person who ran the model. Looking up the model's name in the
installed plugins shows whether it is remote. Its parameters, which a registration fixes, determine
its request settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ktdeval
from ktdeval.calls.costs.prices import FREE, PriceEntry, is_free_price
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.origin.fact_types import Provenance
from ktdeval.cards.fields.origin.provenance import LIBRARIES, unknown_version
from ktdeval.cards.fields.replies.calls import (
    Calls,
    several_models_problem,
    uncounted_problems,
    unpaid_problems,
)
from ktdeval.cards.recomputation_diff import value_difference
from ktdeval.errors import KtdevalError
from ktdeval.harness.chat_messages import as_remote
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.runner.scoring.declared_deciders import decider_problems
from ktdeval.values.documents.strict_json import JsonValue

OF_PYTHON = "python/"
"""Prefix for the names of models that are passed to `ktdeval.evaluate` as an object or function. No
plugin offers such a model later.
"""


_UNKNOWN = (
    "no installed plugin declares {} as a local model (calls of local models are not recorded);"
    " install its plugin, or give its file with --plugin"
)


@dataclass(frozen=True)
class StatedModel:
    """Model as described by a document."""

    where: str  #: prefix of its field names; empty for the run's own model
    name: str  #: full name
    args: Mapping[str, JsonValue]
    request_settings: Mapping[str, Any] | None  #: request settings at its provider
    price: PriceEntry | None


def manifest_problems(manifest: RunManifest, plugins: Plugins) -> Iterator[str]:
    """Yield contradictions between a run's manifest and its models, one line each, beginning with
    the field.
    """
    for model in _models_of_run(manifest):
        yield from _located_problems(model, plugins)


def card_claims(card: TradingCard | ScoringCard, plugins: Plugins) -> Iterator[str]:
    """Yield false or contradictory claims on a card, one line each, beginning with the field.

    These concern its models, who decided, its versions, the plugins that provide its metrics, and its calls.
    Local models are not created, so their parameters are not checked.
    """
    for model in _models_of_card(card):
        yield from _located_problems(model, plugins)

    yield from decider_problems(card, plugins)
    problem = unknown_version(card.provenance, ktdeval.__version__)
    if problem is not None:
        yield problem

    yield from _environment_problems(card.provenance, plugins)
    if card.provenance.calls is not None:
        yield from _call_problems(card, card.provenance.calls)


def _call_problems(card: TradingCard | ScoringCard, calls: Calls) -> Iterator[str]:
    """Yield contradictions between a card's calls and its tokens, price and roles."""
    yield from uncounted_problems(calls, {episode.id: episode.usage for episode in card.episodes})
    prices = {model.name: model.price for model in _models_of_card(card)}
    yield from unpaid_problems(calls, card.model.name, prices)
    problem = several_models_problem(calls, {usage.model for usage in card.roles})
    if problem is not None:
        yield problem


def _environment_problems(provenance: Provenance, plugins: Plugins) -> Iterator[str]:
    """Yield libraries whose version is missing from a card, and plugins that do not provide the
    metrics attributed to them.
    """
    named = provenance.environment
    for name in ("python", "platform", *LIBRARIES):
        if name not in named:
            yield (
                f"provenance.environment: does not state the version of {name} with which the card"
                " was made"
            )

    for name, owner in named.items():
        kind, _, metric = name.partition(" ")
        if kind != "metric":
            continue

        owners = plugins.owners("metrics", [metric])
        if owners and owners[metric] != owner:
            yield (
                f"provenance.environment.{name}: is {owner!r:.80}, but the metric belongs to"
                f" plugin {owners[metric]}"
            )


def unknown_model(card: TradingCard | ScoringCard, plugins: Plugins) -> str | None:
    """Return a message if a card records a model as local but no installed plugin confirms this;
    None if the card has no such model.

    Without the plugin, it is unknown whether the model's calls should have been recorded.
    """
    for model in _models_of_card(card):
        if model.request_settings is None and plugins.is_remote(model.name) is None:
            return f"{model.where}sent_as: is null, but {_UNKNOWN.format(model.name)}"

    return None


def _models_of_run(manifest: RunManifest) -> Iterator[StatedModel]:
    """Yield each distinct model of a run's episodes."""
    seen: list[StatedModel] = []
    for spec in manifest.specs:
        own = StatedModel(
            "", spec.model, spec.model_args, manifest.request_settings, manifest.price
        )
        stated = [own]
        for model in spec.further_models:
            facts = manifest.further_models[model.asked_as]
            where = f"further_models.{model.asked_as}."
            further = StatedModel(
                where, model.name, model.args, facts.request_settings, facts.price
            )
            stated.append(further)

        new = [each for each in stated if each not in seen]
        seen += new
        yield from new


def _models_of_card(card: TradingCard | ScoringCard) -> Iterator[StatedModel]:
    price = card.cost.price
    yield StatedModel(
        "",
        card.model.name,
        card.model.args,
        card.request_settings,
        price if isinstance(price, PriceEntry) else None,
    )
    for number, model in enumerate(card.further_models):
        where = f"further_models[{number}]."
        yield StatedModel(where, model.name, model.args, model.request_settings, model.price)


def _located_problems(model: StatedModel, plugins: Plugins) -> Iterator[str]:
    for field, problem in _model_problems(model, plugins):
        yield f"{model.where}{field}: {problem}"


def _model_problems(model: StatedModel, plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Yield each problem with a model as a pair of field and message."""
    is_remote = plugins.is_remote(model.name)
    says_remote = model.request_settings is not None
    if is_remote is None:
        is_claimed = not says_remote and is_free_price(model.price)
        if is_claimed and not model.name.startswith(OF_PYTHON):
            yield "price", f"is the price of {FREE.source}, but {_UNKNOWN.format(model.name)}"

        return

    if not is_remote:
        if says_remote:
            yield "sent_as", f"is given, but {model.name} is a local model"

        return

    if not says_remote:
        yield (
            "sent_as",
            f"is null, as for a local model, but {model.name} is remote, so its calls must be"
            " recorded and counted",
        )
        return

    if is_free_price(model.price):
        yield "price", f"is the price of {FREE.source}, but {model.name} is remote"

    yield from _settings_problems(model, plugins)


def _settings_problems(model: StatedModel, plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Yield differences between the recorded request settings and the settings that follow from the
    parameters.
    """
    try:
        made = as_remote(plugins.make_model(model.name, model.args))
        settings = None
        if made is not None:
            settings = call_foreign(made.settings, f"settings of {model.name}")
    except KtdevalError as error:
        yield "sent_as", f"can't be derived from the parameters of {model.name}: {error}"
        return

    difference = value_difference(model.request_settings, settings)
    if difference is not None:
        yield "sent_as", f"does not follow from the parameters of {model.name}: {difference}"
