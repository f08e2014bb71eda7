"""What the cards of trading tasks and of scoring tasks have in common: the plan, what was run, and the market."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.cards.cost import FREE
from ktdeval.cards.episodes import window_days
from ktdeval.errors import CardError
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.spec import EpisodeSpec

_NOT_ASKED = "no fixed questions were asked"


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """What every card is made of, whatever its task. No clock, no folder, no run: equal inputs give equal cards.

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
        sent_as: `RemoteModel.settings()` of the model; None for a model of this machine.
        drift: how far the model's answers moved during the run (`ktdeval.calls.canary.drift`), or null with a reason.
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
    sent_as: Mapping[str, JsonValue] | None = None
    drift: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": _NOT_ASKED})
    calls: Mapping[str, JsonValue] | None = None


def ordered_plan(inputs: EvaluationInputs) -> list[EpisodeSpec]:
    """The planned episodes by day, then seed.

    Raises:
        CardError: they differ in more than window and seed, or do not say what the inputs say.
    """
    _check_specs(inputs)
    return sorted(inputs.specs, key=_spec_order)


def common_fields(inputs: EvaluationInputs, planned: Sequence[EpisodeSpec]) -> dict[str, JsonValue]:
    """The fields of a card that say what was planned, with what, and on which market.

    Args:
        inputs: of the card.
        planned: from `ordered_plan`.
    """
    first = planned[0]
    return {
        "task": {
            "name": first.task,
            "version": first.task_version,
            "mask": first.mask,
            "mode": first.mode,
            "hash": inputs.task_hash,
            "config": inputs.task,
        },
        "model": {"name": inputs.model["name"], "args": inputs.model["args"]},
        "agent": {"name": inputs.agent["name"], "args": inputs.agent["args"]},
        "call": inputs.call,
        "sent_as": inputs.sent_as,
        "snapshot": _snapshot_entry(inputs.snapshot),
        "windows": _windows(planned, inputs.snapshot),
        "seeds": sorted({spec.seed for spec in planned}),
        "limit": first.limit,
        "mask_draw": first.mask_draw,
        "cost": _priced(inputs),
        "drift": inputs.drift,
        "artefacts": inputs.artefacts,
        "provenance": {**inputs.provenance, "calls": inputs.calls},
    }


def missing_entries(
    inputs: EvaluationInputs, planned: Sequence[EpisodeSpec], finished: Collection[str], record: str
) -> list[dict[str, JsonValue]]:
    """The card's entries of the planned episodes that did not finish.

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
        {"id": spec.id, "window": spec.window.name, "seed": spec.seed, "error": " ".join(str(errors[spec.id]).split())}
        for spec in unfinished
    ]


def strict_card(card: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The card after a trip through strict JSON, field by field, so that a card in memory equals the card in its file.

    Raises:
        CardError: a value is not strict JSON.
    """
    return {name: _strict(name, value) for name, value in sorted(card.items())}


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
        "snapshot": inputs.snapshot.id,
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


def _priced(inputs: EvaluationInputs) -> dict[str, JsonValue]:
    """What the card's cost derives from besides its usage: the price, where there is one."""
    price = inputs.price
    if price is None and "tool_protocol" not in inputs.call:  # which is chosen for every model of a provider
        price = FREE.to_json()
    return {} if price is None else {"price": price}


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
    windows = {spec.window.name: spec.window for spec in planned}
    return [
        {"name": window.name, "first": window.first, "last": window.last, "days": len(window_days(window, snapshot))}
        for window in windows.values()
    ]
