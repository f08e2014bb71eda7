"""What the cards of trading tasks and of scoring tasks are made of: the plan, what was run, and the market."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ktdeval.cards.compare import JsonPath
from ktdeval.cards.derive import FREE
from ktdeval.cards.parts import PriceEntry
from ktdeval.contracts.spec import NO_WINDOW, EpisodeSpec, Window
from ktdeval.errors import CardError
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical
from ktdeval.market.snapshot import DayArray, MarketSnapshot
from ktdeval.typed import from_plain

T = TypeVar("T")
Problem = tuple[JsonPath, str]
"""Where a card contradicts itself, and how."""

_NOT_ASKED = "no fixed questions were asked"


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """Inputs of every card, whatever its task. No clock, no folder, no run: equal inputs give equal cards.

    Attributes:
        task: the task's `describe()`: its resolved config with data card and sources.
        task_hash: hash of that config, as in every spec.
        model: `{"name": full name such as builtin/momentum, "args": {…}}`.
        agent: `{"name": …, "args": {…}}`.
        call: sampling and transport parameters of the model calls, as in every spec.
        snapshot: the market the episodes ran on, with its id.
        specs: every episode of the plan, finished or not, in any order.
        artefacts: path relative to the run folder -> SHA-256 of the file.
        missing_episodes: one mapping for each spec without a record: `{"id": spec.id, "error": one line}`.
        provenance: the only part that may differ between two equal runs: `created_at` (ISO 8601), `suite_version`,
            `source_revision` (text or None), `wall_time_s` (number or None) and `environment` (a JSON object).
        price: `Price.to_json()` of the model's tokens; None where none is known, or none is due.
        request_settings: `RemoteModel.settings()` of the model; None for a model of this machine.
        drift: how far the model's answers moved during the run (`ktdeval.runner.canary.drift`), or null with a reason.
        calls: what was asked of the provider (`ktdeval.calls.summary.summarise_calls`); None where nothing was. It goes to
            `provenance.calls`, for a run that finds its answers in the cache makes other calls.
    """

    task: Mapping[str, JsonValue]
    task_hash: str
    model: Mapping[str, JsonValue]
    agent: Mapping[str, JsonValue]
    call: Mapping[str, JsonValue]
    snapshot: MarketSnapshot
    specs: Sequence[EpisodeSpec]
    artefacts: Mapping[str, str]
    missing_episodes: Sequence[Mapping[str, JsonValue]]
    provenance: Mapping[str, JsonValue]
    price: Mapping[str, JsonValue] | None = None
    request_settings: Mapping[str, JsonValue] | None = None
    drift: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": _NOT_ASKED})
    calls: Mapping[str, JsonValue] | None = None


def ordered_plan(inputs: EvaluationInputs) -> list[EpisodeSpec]:
    """Planned episodes by day, then seed.

    Raises:
        CardError: they differ in more than window and seed, or do not say what the inputs say.
    """
    _check_specs(inputs)
    return sorted(inputs.specs, key=_spec_order)


def common_fields(inputs: EvaluationInputs, planned: Sequence[EpisodeSpec]) -> dict[str, JsonValue]:
    """Fields of a card that say what was planned, with what, and on which market.

    Args:
        inputs: of the card.
        planned: from `ordered_plan`.
    """
    first = planned[0]
    return {
        "task": {
            "name": first.task,
            "version": first.task_version,
            "mask": first.mask or None,
            "mode": first.mode or None,
            "hash": inputs.task_hash,
            "config": inputs.task,
        },
        "model": {"name": inputs.model["name"], "args": inputs.model["args"]},
        "agent": {"name": inputs.agent["name"], "args": inputs.agent["args"]},
        "call": inputs.call,
        "sent_as": inputs.request_settings,
        "snapshot": _snapshot_entry(inputs.snapshot) if first.snapshot else None,
        "windows": _windows(planned, inputs.snapshot),
        "seeds": sorted({spec.seed for spec in planned}),
        "limit": first.limit,
        "mask_draw": first.mask_draw,
        "drift": inputs.drift,
        "artefacts": inputs.artefacts,
        "provenance": {**inputs.provenance, "calls": inputs.calls},
    }


def missing_entries(
    inputs: EvaluationInputs, planned: Sequence[EpisodeSpec], finished: Collection[str], record: str
) -> list[dict[str, JsonValue]]:
    """Entries of the planned episodes that did not finish.

    Args:
        inputs: of the card.
        planned: from `ordered_plan`.
        finished: ids of the finished episodes.
        record: what an unfinished episode lacks, with its article: `a ledger`.

    Raises:
        CardError: an unfinished episode has no error, or a finished or foreign one has.
    """
    errors = {entry["id"]: entry["error"] for entry in inputs.missing_episodes}
    unfinished = [spec for spec in planned if spec.id not in finished]
    for spec in unfinished:
        if spec.id not in errors:
            raise CardError(
                f"episode {spec.id} ({spec.window.name}, seed {spec.seed}) has neither {record} nor an error; finish the run"
            )
    if surplus := sorted(set(errors) - {spec.id for spec in unfinished}):
        raise CardError(f"episode {surplus[0]} is listed as missing but is finished or was never planned")
    return [
        {"id": spec.id, "window": spec.window.name or None, "seed": spec.seed, "error": " ".join(str(errors[spec.id]).split())}
        for spec in unfinished
    ]


def decode_strict(fields: Mapping[str, Any], type_: type[T]) -> T:
    """Decode a part of a card after a trip through strict JSON, so that a card in memory equals the card in its file.

    Raises:
        CardError: a value is not strict JSON, or not what the part holds.
    """
    return from_plain({name: _strict(name, value) for name, value in sorted(fields.items())}, type_, "card", CardError)


def window_days(window: Window, snapshot: MarketSnapshot) -> DayArray:
    """Trading days of `window` in the snapshot, both ends included."""
    inside = (snapshot.days >= np.datetime64(window.first, "D")) & (snapshot.days <= np.datetime64(window.last, "D"))
    days: DayArray = snapshot.days[inside]
    return days


def price_of(inputs: EvaluationInputs) -> PriceEntry | None:
    """Price of the model's tokens: its own, or nothing for a model of this machine; None where it is not known."""
    if inputs.price is not None:
        return decode_strict(inputs.price, PriceEntry)
    # A protocol is chosen for every model of a provider.
    return None if "tool_protocol" in inputs.call else decode_strict(FREE.to_json(), PriceEntry)


def to_plain(value: object) -> JsonValue:
    """Mappings as dicts and sequences as lists, all the way down."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _strict(name: str, value: JsonValue) -> JsonValue:
    try:
        return json.loads(dumps_canonical(to_plain(value)))
    except (TypeError, ValueError) as error:
        raise CardError(
            f"card field {name!r} is not strict JSON ({error}); metrics, scores and args must give finite plain values"
        ) from error


def _spec_order(spec: EpisodeSpec) -> tuple[str, str, str, int, str]:
    return (spec.window.first, spec.window.last, spec.window.name, spec.seed, spec.id)


def _check_specs(inputs: EvaluationInputs) -> None:
    """All specs of a card differ in window and seed only, and say what the inputs say."""
    if not inputs.specs:
        raise CardError("a card needs at least one planned episode")
    if content_hash(to_plain(inputs.task)) != inputs.task_hash:
        raise CardError(f"task_hash {inputs.task_hash[:12]}… is not the content hash of the task's config")
    first = inputs.specs[0]
    expected = {
        "task": first.task,
        "task_version": first.task_version,
        "task_hash": inputs.task_hash,
        "snapshot": first.snapshot and inputs.snapshot.id,
        "mask": first.mask,
        "mode": first.mode,
        "model": inputs.model["name"],
        "model_args": inputs.model["args"],
        "agent": inputs.agent["name"],
        "agent_args": inputs.agent["args"],
        "call": inputs.call,
        "limit": first.limit,
        "mask_draw": first.mask_draw,
    }
    windows: dict[str, object] = {}
    for spec in inputs.specs:
        given = spec.to_json()
        for name, value in expected.items():
            if dumps_canonical(given[name]) != dumps_canonical(to_plain(value)):
                raise CardError(
                    f"episode {spec.id}: its {name} is not the card's; one card holds one task, model, agent and snapshot"
                )
        if windows.setdefault(spec.window.name, spec.window) != spec.window:
            raise CardError(f"window {spec.window.name!r} has two date ranges; give each window a name of its own")
    if len({spec.id for spec in inputs.specs}) != len(inputs.specs):
        raise CardError("an episode is planned twice; each window and seed belongs on a card once")


def _snapshot_entry(snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    meta = snapshot.meta
    return {
        "id": snapshot.id,
        "name": meta.name,
        "source": meta.source,
        "synthetic": meta.synthetic,
        "has_factor": meta.has_factor,
        "repairs": list(meta.repairs),
        "benchmark": meta.benchmark,
        "benchmark_name": snapshot.index_names.get(meta.benchmark, meta.benchmark),
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }


def _windows(planned: Sequence[EpisodeSpec], snapshot: MarketSnapshot) -> list[dict[str, JsonValue]]:
    windows = {spec.window.name: spec.window for spec in planned if spec.window != NO_WINDOW}
    return [
        {"name": window.name, "first": window.first, "last": window.last, "days": len(window_days(window, snapshot))}
        for window in windows.values()
    ]
