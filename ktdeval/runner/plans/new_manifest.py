"""Manifest that a run writes before its first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ktdeval.calls.costs.prices import Price
from ktdeval.cards.fields.knowledge.cutoff import latest_cutoff
from ktdeval.cards.fields.knowledge.listed_cutoffs import run_cutoff
from ktdeval.cards.fields.origin.fact_types import CutoffEntry, NoCutoff
from ktdeval.harness.chat_messages import RemoteModel
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.additional_models import RunModel
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.plan import Plan
from ktdeval.runner.records.foreign_code import foreign_packages, unite_packages
from ktdeval.runner.records.leaderboard_registration import load_drawn_key
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import FurtherFacts, RunManifest
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.config_options import lasting_data


def run_manifest(
    config: RunConfig,
    plan: Plan,
    snapshot: MarketSnapshot | None,
    remote: RemoteModel | None,
    price: Price | None,
    recorded: RunFolder | None,
) -> RunManifest:
    """Return the manifest that a run writes before its first step.

    `recorded`: the same run, if it has already begun. Its knowledge cutoff and registration are
    kept unless new ones are given.
    """
    cutoff: CutoffEntry | NoCutoff
    if config.knowledge_cutoff is None and recorded is not None:
        cutoff = recorded.manifest.knowledge_cutoff
    else:
        cutoff = run_cutoff(config.model, config.model_args, config.knowledge_cutoff)

    data: Mapping[str, JsonValue] | None = None
    if snapshot is not None:
        data = {"data": lasting_data(config.data), "data_args": dict(config.data_args)}

    registration = None if recorded is None else recorded.manifest.registration
    if config.registration is not None:
        registration = load_drawn_key(config.registration).id

    return RunManifest(
        data=data,
        snapshot=None if snapshot is None else snapshot.id,
        metrics=config.metrics,
        rules=config.rules,
        specs=plan.specs,
        price=price,
        request_settings=_settings_of(remote),
        knowledge_cutoff=cutoff,
        registration=registration,
    )


def with_further(
    manifest: RunManifest,
    config: RunConfig,
    models: Sequence[RunModel],
    recorded: RunFolder | None,
) -> RunManifest:
    """Return the manifest with the run's additional models. Unless a knowledge cutoff was given or
    recorded, the latest cutoff of all models is used.
    """
    cutoff = manifest.knowledge_cutoff
    if config.knowledge_cutoff is None and recorded is None:
        cutoff = latest_cutoff([cutoff, *(each.cutoff for each in models)])

    facts = {}
    for each in models:
        facts[each.choice.asked_as] = FurtherFacts(
            price=each.price,
            request_settings=_settings_of(each.remote),
            knowledge_cutoff=each.cutoff,
        )

    return replace(manifest, further_models=facts, knowledge_cutoff=cutoff)


def with_foreign(
    manifest: RunManifest, plugins: Plugins, recorded: RunFolder | None
) -> RunManifest:
    """Return the manifest with the foreign packages of this session and of earlier ones."""
    before = () if recorded is None else recorded.manifest.foreign
    return replace(manifest, foreign=unite_packages(before, foreign_packages(plugins)))


def _settings_of(remote: RemoteModel | None) -> Mapping[str, JsonValue] | None:
    """Return a remote model's request settings at its provider; None for a local model."""
    settings = None if remote is None else remote.settings()
    return settings if isinstance(settings, Mapping) else None  # already checked by `connect`
