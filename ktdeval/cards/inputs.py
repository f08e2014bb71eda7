"""Inputs of the cards of trading tasks and of scoring tasks: the plan, the finished episodes, and the market."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ktdeval.cards.compare import JsonPath
from ktdeval.cards.parts import NoCutoff, PriceEntry, TaskPart, WindowPart
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.errors import CardError
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical, plain
from ktdeval.market.snapshot import DayArray, MarketSnapshot
from ktdeval.typed import from_plain

T = TypeVar("T")
Problem = tuple[JsonPath, str]  #: Where a card contradicts itself, and how
WindowDays = Mapping[Window, DayArray]  #: Trading days of windows


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """Inputs of every card, whatever its task. No clock, no folder, no run: equal inputs give equal cards."""

    task: Mapping[str, JsonValue]  #: the task's `describe()`: its resolved config with data card and sources
    snapshot: MarketSnapshot | None  #: the market the episodes ran on, with its id; None where the task asks about none
    #: every episode of the plan, finished or not, in any order: of one task, model and agent, with one set of call parameters
    specs: Sequence[EpisodeSpec]
    artefacts: Mapping[str, str]  #: path relative to the run folder -> SHA-256 of the file
    missing_episodes: Sequence[Mapping[str, JsonValue]]  #: for each spec without a record `{"id": spec.id, "error": one line}`
    #: the only part that may differ between two equal runs: `created_at` (ISO 8601), `suite_version`, `source_revision` (text or
    #: None), `wall_time_s` (number or None) and `environment` (a JSON object)
    provenance: Mapping[str, JsonValue]
    price: Mapping[str, JsonValue] | None = None  #: `Price.to_json()`; None where none is known, or none is due
    request_settings: Mapping[str, JsonValue] | None = None  #: `RemoteModel.settings()`; None for a model of this machine
    #: end of the model's training data (`ktdeval.cards.CutoffEntry`); `none`: nothing was trained; `unknown`: it is not known
    knowledge_cutoff: Mapping[str, JsonValue] | NoCutoff = "unknown"
    #: id of the registration with a leaderboard that the run was made under; None for a run under a key of its own
    registration: str | None = None
    #: how far the model's answers moved during the run (`ktdeval.runner.canary.drift`), or null with a reason
    drift: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": "no fixed questions were asked"})
    #: what was asked of the provider (`ktdeval.calls.record.summarise_calls`); None where nothing was. It goes to
    #: `provenance.calls`, for a run that finds its answers in the cache makes other calls
    calls: Mapping[str, JsonValue] | None = None
    uncounted: Mapping[str, int] = field(default_factory=dict)  #: replies without counts of tokens, by the id of their episode


_OF_ALL = (
    "task_hash", "snapshot", "model", "model_args", "agent", "agent_args", "call", "task", "task_version", "mask", "mode", "limit",
    "mask_key",
)  # fmt: skip
"""Fields that the specs of a card have in common."""


def ordered_plan(inputs: EvaluationInputs) -> list[EpisodeSpec]:
    """Return planned episodes by day, then seed. Raises CardError: they differ in more than window and seed, or from the inputs."""
    if not inputs.specs:
        raise CardError("a card needs at least one planned episode")
    first = inputs.specs[0]
    if content_hash(plain(inputs.task)) != first.task_hash:
        raise CardError(f"task_hash {first.task_hash[:12]}… is not the content hash of the task's config")
    expected = {name: getattr(first, name) for name in _OF_ALL} | {"snapshot": inputs.snapshot and inputs.snapshot.id}
    windows: dict[str | None, Window | None] = {}
    for spec in inputs.specs:
        for name, value in expected.items():
            if dumps_canonical(plain(getattr(spec, name))) != dumps_canonical(plain(value)):
                raise CardError(
                    f"episode {spec.id}: its {name} is not the card's; one card holds one task, model, agent and snapshot"
                )
        if windows.setdefault(spec.window_name, spec.window) != spec.window:
            raise CardError(f"window {spec.window_name!r} has two date ranges; give each window a name of its own")
    if len({spec.id for spec in inputs.specs}) != len(inputs.specs):
        raise CardError("an episode is planned twice; each window and seed belongs on a card once")
    return sorted(inputs.specs, key=lambda spec: (*spec.ends, spec.window_name or "", spec.seed, spec.id))


def common_fields(
    inputs: EvaluationInputs, planned: Sequence[EpisodeSpec], days: WindowDays, finished: Collection[str], record: str
) -> dict[str, Any]:
    """Return the fields of a card on plan, model, agent and market, and on episodes that did not finish. `planned` is from
    `ordered_plan`, `days` from `planned_days`, `finished` holds ids, `record` is what an unfinished episode lacks, such as
    `a ledger`. Raises CardError if an unfinished episode has no error, or a finished or foreign one has.
    """
    first = planned[0]
    return {
        "schema_version": 1,
        "task": {
            "name": first.task,
            "version": first.task_version,
            "mask": first.mask,
            "mode": first.mode,
            "hash": first.task_hash,
            "config": inputs.task,
        },
        "model": {"name": first.model, "args": first.model_args},
        "agent": {"name": first.agent, "args": first.agent_args},
        "call": first.call,
        "sent_as": inputs.request_settings,
        "snapshot": None if inputs.snapshot is None else _snapshot_entry(inputs.snapshot, days),
        "windows": [
            {"name": window.name, "first": window.first, "last": window.last, "days": len(_days_of(window, inputs.snapshot))}
            for window in days
        ],
        "seeds": sorted({spec.seed for spec in planned}),
        "limit": first.limit,
        **({} if first.mask_key is None else {"mask_key": first.mask_key}),
        **({} if inputs.registration is None else {"registration": inputs.registration}),
        "drift": inputs.drift,
        "artefacts": inputs.artefacts,
        "provenance": {**inputs.provenance, "calls": inputs.calls},
        "missing_episodes": _missing_entries(inputs, [spec for spec in planned if spec.id not in finished], record),
    }


def _missing_entries(inputs: EvaluationInputs, unfinished: Sequence[EpisodeSpec], record: str) -> list[dict[str, JsonValue]]:
    errors = {entry["id"]: entry["error"] for entry in inputs.missing_episodes}
    for spec in unfinished:
        if spec.id not in errors:
            raise CardError(f"episode {spec.id} ({spec.label}) has neither {record} nor an error; finish the run")
    if surplus := sorted(set(errors) - {spec.id for spec in unfinished}):
        raise CardError(f"episode {surplus[0]} is listed as missing but is finished or was never planned")
    return [
        {"id": spec.id, "window": spec.window_name, "seed": spec.seed, "error": " ".join(str(errors[spec.id]).split())}
        for spec in unfinished
    ]


def task_problems(task: TaskPart, windows: Sequence[WindowPart], config: Mapping[str, JsonValue]) -> Iterator[Problem]:
    """Yield where a card's task and windows differ from the task's config. A field that the config lacks is not compared; a
    window that the config does not name must be named by its days, `FIRST:LAST`.
    """
    for name in ("name", "version", "mask", "mode"):
        recorded = getattr(task, name)
        if name in config and (config[name] or None) != recorded:
            yield ("task", name), f"is {str(recorded)[:60]!r}, the task's config says {str(config[name])[:60]!r}"
    dates: Any = config.get("windows")
    for index, window in enumerate(windows if isinstance(dates, Mapping) else ()):
        own = dates[window.name] if window.name in dates else dict(zip(("first", "last"), window.name.split(":"), strict=False))
        for name in ("first", "last"):
            day = own.get(name) if isinstance(own, Mapping) else None
            if getattr(window, name) != day:
                contrast = f"is {getattr(window, name)}, window {window.name[:60]!r} of the task's config"
                yield ("windows", index, name), f"{contrast} {'has no such day' if day is None else f'says {str(day)[:20]}'}"


def decode_strict(fields: Mapping[str, Any], type_: type[T]) -> T:
    """Decode a part of a card after a trip through strict JSON, so that a card in memory equals the card in its file. Raises
    CardError if a value is not strict JSON, or not what the part holds.
    """
    parts = {}
    for name, value in sorted(fields.items()):
        try:
            parts[name] = json.loads(dumps_canonical(plain(value)))
        except (TypeError, ValueError) as error:
            raise CardError(
                f"card field {name!r} is not strict JSON ({error}); metrics, scores and args must give finite plain values"
            ) from error
    return from_plain(parts, type_, "card", CardError)


def planned_days(planned: Sequence[EpisodeSpec], snapshot: MarketSnapshot | None, limit: int | None = None) -> WindowDays:
    """Return the trading days of each window of a plan, both ends included, without those after the first `limit`."""
    windows = dict.fromkeys(spec.window for spec in planned if spec.window is not None)
    return {window: _days_of(window, snapshot)[:limit] for window in windows}


def _days_of(window: Window, snapshot: MarketSnapshot | None) -> DayArray:
    assert snapshot is not None, "a window is one of a market"
    inside = (snapshot.days >= np.datetime64(window.first, "D")) & (snapshot.days <= np.datetime64(window.last, "D"))
    return np.asarray(snapshot.days[inside])


def price_of(inputs: EvaluationInputs) -> PriceEntry | None:
    """Return the price of the model's tokens; None where it is not known."""
    return None if inputs.price is None else decode_strict(inputs.price, PriceEntry)


def _snapshot_entry(snapshot: MarketSnapshot, days: WindowDays) -> dict[str, JsonValue]:
    meta = snapshot.meta
    units = snapshot.units_of(np.concatenate(list(days.values())) if days else snapshot.days)
    return {
        "id": snapshot.id,
        **{name: getattr(meta, name) for name in ("name", "source", "synthetic", "has_factor", "repairs")},
        "benchmark": meta.benchmark or "none",
        "benchmark_name": snapshot.index_names.get(meta.benchmark, meta.benchmark) or "no index",
        **({"venues": sorted(snapshot.rules), **units} if snapshot.instruments else {}),
        **({"documents": "no entity list"} if snapshot.documents.table is not None and not snapshot.documents.entities else {}),
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }
