"""Build a result card: a pure function of recorded episodes, their market and the metrics asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.cards.aggregate import DEFINITION_FIELDS, derived_fields
from ktdeval.cards.cost import FREE
from ktdeval.cards.episodes import check_complete, episode_entry, reference_entry, window_days
from ktdeval.cards.intervals import add_intervals
from ktdeval.errors import CardError
from ktdeval.fields import build
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.stats.metric import Metric, RuleSet
from ktdeval.trading.ledger import Ledger

SCHEMA_VERSION = 1
"""Version of `schema/result-card-v1.json` that `build_card` writes."""

_NOT_COMPUTED = "not computed by this version"
_NOT_ASKED = "no fixed questions were asked"


@dataclass(frozen=True)
class CardInputs:
    """Everything a card is made of. No clock, no folder, no run: equal inputs give equal cards.

    Attributes:
        task: the task's `describe()`: its resolved config with data card and sources.
        task_hash: hash of that config, as in every spec.
        model: `{"name": full name such as builtin/momentum, "args": {…}}`.
        agent: `{"name": …, "args": {…}}`.
        call: sampling and transport parameters of the model calls, as in every spec.
        rules: rule set of the metrics.
        snapshot: the market the episodes ran on, with its id.
        specs: every episode of the plan, finished or not, in any order.
        ledgers: the finished episodes, in any order; each belongs to one of `specs` by the id of its `spec`.
        metrics: metric objects to apply; names are unique.
        artefacts: path relative to the run folder -> SHA-256 of the file.
        missing_episodes: one mapping for each spec without a ledger: `{"id": spec.id, "error": one line}`.
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
    rules: RuleSet
    snapshot: MarketSnapshot
    specs: Sequence[EpisodeSpec]
    ledgers: Sequence[Ledger]
    metrics: Sequence[Metric]
    artefacts: Mapping[str, str]
    missing_episodes: Sequence[Mapping[str, JsonValue]]
    provenance: Mapping[str, JsonValue]
    price: Mapping[str, JsonValue] | None = None
    sent_as: Mapping[str, JsonValue] | None = None
    drift: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": _NOT_ASKED})
    calls: Mapping[str, JsonValue] | None = None


def build_card(inputs: CardInputs) -> dict[str, JsonValue]:
    """The result card of one evaluation (one task, model and agent over windows and seeds).

    Two calls with equal inputs give equal cards whatever the order of specs, ledgers, metrics and missing episodes; only
    `provenance` is passed through as it is.

    Returns:
        A JSON object that follows `schema/result-card-v1.json`; `ktdeval.jsonio.dumps_pretty` gives its file.

    Raises:
        CardError: the inputs contradict each other (a spec of another task or snapshot, a planned episode that is neither finished
            nor missing, a ledger that does not cover its window, two metrics of one name, a value that is not strict JSON).
        PluginError: a metric returned something else than a `MetricValue`.
    """
    _check_specs(inputs)
    _check_metric_names(inputs.metrics)
    planned = sorted(inputs.specs, key=_spec_order)
    ledgers = _ledgers_by_id(inputs, planned)
    finished = [spec for spec in planned if spec.id in ledgers]
    first = planned[0]
    card: dict[str, JsonValue] = {
        "schema_version": SCHEMA_VERSION,
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
        "rules": inputs.rules,
        "snapshot": _snapshot_entry(inputs.snapshot),
        "windows": _windows(planned, inputs.snapshot),
        "seeds": sorted({spec.seed for spec in planned}),
        "limit": first.limit,
        "episodes": [_episode(inputs, spec, ledgers[spec.id]) for spec in finished],
        "missing_episodes": _missing(inputs, planned, ledgers),
        "reference": {"benchmark_buy_and_hold": _references(finished, ledgers, inputs.snapshot)},
        "calibration": calibration_table(pool(judged_orders(ledgers[spec.id], inputs.snapshot) for spec in finished)),
        "metrics": {metric.name: {field: getattr(metric, field) for field in DEFINITION_FIELDS} for metric in inputs.metrics},
        "certificate": {"value": None, "reason": _NOT_COMPUTED},
        "cost": _priced(inputs),
        "drift": inputs.drift,
        "artefacts": inputs.artefacts,
        "provenance": {**inputs.provenance, "calls": inputs.calls},
    }
    card |= derived_fields(card)
    return {name: _strict(name, value) for name, value in sorted(card.items())}


def _priced(inputs: CardInputs) -> dict[str, JsonValue]:
    """What the card's cost derives from besides its usage: the price, where there is one."""
    price = inputs.price
    if price is None and "tool_protocol" not in inputs.call:  # which is chosen for every model of a provider
        price = FREE.to_json()
    return {} if price is None else {"price": price}


def _episode(inputs: CardInputs, spec: EpisodeSpec, ledger: Ledger) -> dict[str, JsonValue]:
    entry = episode_entry(spec, ledger, inputs.snapshot, inputs.metrics, inputs.rules)
    return add_intervals(entry, ledger, inputs.snapshot)


def _spec_order(spec: EpisodeSpec) -> tuple[str, str, str, int, str]:
    return (spec.window.first, spec.window.last, spec.window.name, spec.seed, spec.id)


def _check_specs(inputs: CardInputs) -> None:
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


def _check_metric_names(metrics: Sequence[Metric]) -> None:
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CardError(f"metric {twice[0]!r} is given twice; ask for it once")


def _ledgers_by_id(inputs: CardInputs, planned: Sequence[EpisodeSpec]) -> dict[str, Ledger]:
    specs = {spec.id: spec for spec in planned}
    ledgers: dict[str, Ledger] = {}
    for ledger in inputs.ledgers:
        identity = build(EpisodeSpec, ledger.spec, "ledger spec").id
        if identity not in specs:
            raise CardError(f"a ledger belongs to episode {identity}, which the plan does not have")
        if identity in ledgers:
            raise CardError(f"episode {identity} has two ledgers")
        check_complete(specs[identity], ledger, inputs.snapshot)
        ledgers[identity] = ledger
    return ledgers


def _missing(inputs: CardInputs, planned: Sequence[EpisodeSpec], ledgers: Mapping[str, Ledger]) -> list[dict[str, JsonValue]]:
    errors = {entry["id"]: entry["error"] for entry in inputs.missing_episodes}
    unfinished = [spec for spec in planned if spec.id not in ledgers]
    for spec in unfinished:
        if spec.id not in errors:
            raise CardError(
                f"episode {spec.id} ({spec.window.name}, seed {spec.seed}) has neither a ledger nor an error; finish the run"
            )
    if surplus := sorted(set(errors) - {spec.id for spec in unfinished}):
        raise CardError(f"episode {surplus[0]} is listed as missing but is finished or was never planned")
    return [
        {"id": spec.id, "window": spec.window.name, "seed": spec.seed, "error": " ".join(str(errors[spec.id]).split())}
        for spec in unfinished
    ]


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


def _references(
    finished: Sequence[EpisodeSpec], ledgers: Mapping[str, Ledger], snapshot: MarketSnapshot
) -> dict[str, Mapping[str, JsonValue]]:
    """By window; every finished episode of a window covers the same days."""
    ids = {spec.window.name: spec.id for spec in finished}
    return {window: reference_entry(ledgers[identity], snapshot) for window, identity in ids.items()}


def to_plain(value: object) -> JsonValue:
    """Mappings as dicts and sequences as lists, all the way down."""
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _strict(name: str, value: JsonValue) -> JsonValue:
    """The value after a trip through strict JSON, so that a card in memory equals the card in its file."""
    try:
        return json.loads(dumps_canonical(to_plain(value)))
    except (TypeError, ValueError) as error:
        raise CardError(
            f"card field {name!r} is not strict JSON ({error}); metrics and args must give finite plain values"
        ) from error
