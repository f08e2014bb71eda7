"""Inputs of every card, whatever its task: the plan, the market, and facts about the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from ktdeval.calls.prices import PriceEntry
from ktdeval.cards.fields.basics import strict_json, strict_object
from ktdeval.cards.fields.cutoff import gather_cutoff
from ktdeval.cards.fields.drift import NOT_ASKED
from ktdeval.cards.fields.episode_parts import RoleUsage, StepMaker
from ktdeval.cards.fields.market import gather_snapshot
from ktdeval.cards.fields.parts import CutoffEntry, Drift, FurtherModelPart, NoCutoff, Provenance
from ktdeval.cards.fields.task import gather_agent, gather_model
from ktdeval.cards.fields.windows import WindowDays, gather_windows
from ktdeval.errors import CardError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.tasks.spec import EpisodeSpec, Window
from ktdeval.values.jsonio import JsonValue, content_hash, dumps_canonical, plain


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """Inputs of every card, whatever its task. No clock, no folder, no run: equal inputs give equal
    cards.
    """

    #: the task's `describe()`: its resolved config with data card and sources
    task: Mapping[str, JsonValue]
    #: the market the episodes ran on, with its id; None where the task asks about none
    snapshot: MarketSnapshot | None
    #: every episode of the plan, finished or not, in any order: of one task, model and agent, with
    #: one set of call parameters
    specs: Sequence[EpisodeSpec]
    artefacts: Mapping[str, str]  #: path relative to the run folder -> SHA-256 of the file
    missing_episodes: Mapping[str, str]  #: id of each spec without a record -> its error
    provenance: Provenance  #: the only part that may differ between two equal runs
    price: PriceEntry | None = None  #: of the tokens; None where none is known, or none is due
    #: `RemoteModel.settings()`; None for a model of this machine
    request_settings: Mapping[str, JsonValue] | None = None
    #: end of the model's training data; `none`: nothing was trained; `unknown`: it is not known
    knowledge_cutoff: CutoffEntry | NoCutoff = "unknown"
    #: id of the registration with a leaderboard that the run was made under; None for a run under a
    #: key of its own
    registration: str | None = None
    drift: Drift = NOT_ASKED  #: how far the model's answers moved during the run
    #: replies without counts of tokens, by the id of their episode
    uncounted: Mapping[str, int] = field(default_factory=dict)
    #: models besides the run's own that its agent asked
    further_models: Sequence[FurtherModelPart] = ()
    #: calls by role and model, by the id of their episode
    roles: Mapping[str, Sequence[RoleUsage]] = field(default_factory=dict)
    #: what made the steps of each episode, by its id
    makers: Mapping[str, Sequence[StepMaker]] = field(default_factory=dict)


_SHARED = (
    "task_hash",
    "snapshot",
    "model",
    "model_args",
    "agent",
    "agent_args",
    "call",
    "task",
    "task_version",
    "mask",
    "mode",
    "limit",
    "mask_key",
)
"""Fields that the specs of a card have in common."""


def ordered_plan(inputs: EvaluationInputs) -> list[EpisodeSpec]:
    """Return planned episodes by day, then seed. Raises CardError: they differ in more than window
    and seed, or from the inputs.
    """
    if not inputs.specs:
        raise CardError("a card needs at least one planned episode")

    first = inputs.specs[0]
    if content_hash(plain(inputs.task)) != first.task_hash:
        raise CardError(
            f"task_hash {first.task_hash[:12]}… is not the content hash of the task's config"
        )

    expected = {name: getattr(first, name) for name in _SHARED}
    expected["snapshot"] = inputs.snapshot and inputs.snapshot.id
    windows: dict[str | None, Window | None] = {}
    for spec in inputs.specs:
        for name, value in expected.items():
            if dumps_canonical(plain(getattr(spec, name))) != dumps_canonical(plain(value)):
                raise CardError(
                    f"episode {spec.id}: its {name} is not the card's; one card holds one task,"
                    " model, agent and snapshot"
                )

        if spec.further_models != first.further_models:
            raise CardError(
                f"episode {spec.id}: its further_models are not the card's; one card holds the"
                " models of one system"
            )

        if windows.setdefault(spec.window_name, spec.window) != spec.window:
            raise CardError(
                f"window {spec.window_name!r} has two date ranges; give each window a name of"
                " its own"
            )

    if len({spec.id for spec in inputs.specs}) != len(inputs.specs):
        raise CardError("an episode is planned twice; each window and seed belongs on a card once")

    return sorted(inputs.specs, key=_plan_order)


def _plan_order(spec: EpisodeSpec) -> tuple[str, str, str, int, str]:
    return (*spec.ends, spec.window_name or "", spec.seed, spec.id)


def common_facts(
    inputs: EvaluationInputs, planned: Sequence[EpisodeSpec], days: WindowDays
) -> dict[str, Any]:
    """Return the facts of `Evaluation` but for the task: plan, model, agent, market and run.
    `planned` is from `ordered_plan`, `days` from `planned_days`.
    """
    first = planned[0]
    settings = inputs.request_settings
    market = None
    if inputs.snapshot is not None:
        market = gather_snapshot(inputs.snapshot, days.values())

    return {
        "schema_version": 1,
        "model": gather_model(first),
        "agent": gather_agent(first),
        "further_models": list(inputs.further_models),
        "call": strict_object("call", first.call),
        "request_settings": strict_json("sent_as", settings),
        "snapshot": market,
        "windows": gather_windows(days, inputs.snapshot),
        "seeds": sorted({spec.seed for spec in planned}),
        "limit": first.limit,
        "mask_key": UNSET if first.mask_key is None else first.mask_key,
        "registration": UNSET if inputs.registration is None else inputs.registration,
        "drift": inputs.drift,
        "knowledge_cutoff": gather_cutoff(inputs.knowledge_cutoff, inputs.snapshot, days),
        "artefacts": dict(inputs.artefacts),
        "provenance": inputs.provenance,
    }
