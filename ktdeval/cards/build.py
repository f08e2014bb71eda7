"""Build the result card of a trading task: a pure function of recorded episodes, their market and the metrics asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.cards.aggregate import DEFINITION_FIELDS, derived_fields
from ktdeval.cards.certificate import NOT_GIVEN
from ktdeval.cards.common import EvaluationInputs, common_fields, missing_entries, ordered_plan, strict_card
from ktdeval.cards.episodes import check_complete, episode_entry, reference_entry
from ktdeval.cards.intervals import add_intervals
from ktdeval.errors import CardError
from ktdeval.fields import build
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.stats.metric import Metric, RuleSet
from ktdeval.trading.ledger import Ledger

SCHEMA_VERSION = 1
"""Version of `schema/result-card-v1.json` that `build_card` writes."""

KIND = "trading"
"""`kind` of the cards that `build_card` makes."""


@dataclass(frozen=True, kw_only=True)
class CardInputs(EvaluationInputs):
    """Everything the card of a trading task is made of.

    Attributes:
        rules: rule set of the metrics.
        ledgers: the finished episodes, in any order; each belongs to one of `specs` by the id of its `spec`.
        metrics: metric objects to apply; names are unique.
        certificate: what is certified of the mask (`ktdeval.cards.certificate.certificate_block`).
    """

    rules: RuleSet
    ledgers: Sequence[Ledger]
    metrics: Sequence[Metric]
    certificate: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": NOT_GIVEN})


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
    _check_metric_names(inputs.metrics)
    planned = ordered_plan(inputs)
    ledgers = _ledgers_by_id(inputs, planned)
    finished = [spec for spec in planned if spec.id in ledgers]
    card: dict[str, JsonValue] = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        **common_fields(inputs, planned),
        "rules": inputs.rules,
        "episodes": [_episode(inputs, spec, ledgers[spec.id]) for spec in finished],
        "missing_episodes": missing_entries(inputs, planned, ledgers.keys(), "a ledger"),
        "reference": {"benchmark_buy_and_hold": _references(finished, ledgers, inputs.snapshot)},
        "calibration": calibration_table(pool(judged_orders(ledgers[spec.id], inputs.snapshot) for spec in finished)),
        "metrics": {metric.name: {field: getattr(metric, field) for field in DEFINITION_FIELDS} for metric in inputs.metrics},
        "certificate": inputs.certificate,
    }
    card |= derived_fields(card)
    return strict_card(card)


def _episode(inputs: CardInputs, spec: EpisodeSpec, ledger: Ledger) -> dict[str, JsonValue]:
    entry = episode_entry(spec, ledger, inputs.snapshot, inputs.metrics, inputs.rules)
    return add_intervals(entry, ledger, inputs.snapshot)


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


def _references(
    finished: Sequence[EpisodeSpec], ledgers: Mapping[str, Ledger], snapshot: MarketSnapshot
) -> dict[str, Mapping[str, JsonValue]]:
    """By window; every finished episode of a window covers the same days."""
    ids = {spec.window.name: spec.id for spec in finished}
    return {window: reference_entry(ledgers[identity], snapshot) for window, identity in ids.items()}
