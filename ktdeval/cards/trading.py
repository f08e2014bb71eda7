"""Card of a trading task: a pure function of recorded episodes, their market and the metrics asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import asdict, replace

from ktdeval.cards.card import Attribution, AttributionLines, Orders, TradingCard, TradingEpisode, TradingFacts
from ktdeval.cards.cutoff import cutoff_fields, cutoff_problems
from ktdeval.cards.derive import add_counts, add_up, aggregate, derive_common, planned_steps, trading_cost
from ktdeval.cards.inputs import (
    EvaluationInputs,
    Problem,
    WindowDays,
    common_fields,
    decode_strict,
    ordered_plan,
    planned_days,
    price_of,
)
from ktdeval.cards.parts import Definition, EpisodeMetric, Interval, MetricLine, PriceEntry, UsageCounts
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.errors import CardError, PluginError
from ktdeval.fields import build
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.plugin_import import call_foreign
from ktdeval.stats import series
from ktdeval.stats.bootstrap import episode_intervals
from ktdeval.stats.calibration import calibration_table, judged_orders, pool
from ktdeval.stats.designs import left_out_windows
from ktdeval.stats.metric import Metric, MetricValue, RuleSet, range_problem
from ktdeval.stats.panel import ANNUALISED, benchmark_levels, benchmark_problem
from ktdeval.stats.series import TRADING_DAYS
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.types import PROVENANCES
from ktdeval.typed import converted, from_plain

NOT_GIVEN = "no certificate was given"

_ATTRIBUTION_METRIC = "selection_alpha"
"""The metric whose detail holds all linked lines of the attribution (`linked`, and `intervals` of them)."""

_STATUSES = ("filled", "partially_filled", "rejected")


@dataclass(frozen=True, kw_only=True)
class CardInputs(EvaluationInputs):
    """Inputs of the card of a trading task."""

    snapshot: MarketSnapshot
    rules: RuleSet  #: rule set of the metrics
    ledgers: Sequence[Ledger]  #: the finished episodes, in any order; each belongs to one of `specs` by the id of its `spec`
    metrics: Sequence[Metric]  #: metric objects to apply; names are unique
    plugins: Mapping[str, str] = field(default_factory=dict)  #: plugin of each metric by its name, for messages
    #: `{"value": …}` of the card that is attached, or null with the reason
    certificate: Mapping[str, JsonValue] = field(default_factory=lambda: {"value": None, "reason": NOT_GIVEN})


def build_card(inputs: CardInputs) -> TradingCard:
    """Build the result card of one evaluation (one task, model and agent over windows and seeds). Two calls with equal inputs give
    equal cards whatever the order of specs, ledgers, metrics and missing episodes; only `provenance` is passed through as it is.
    Raises CardError: the inputs contradict each other (a spec of another task or snapshot, a planned episode that is neither
    finished nor missing, a ledger that does not cover its window, two metrics of one name, a value that is not strict JSON);
    PluginError: a metric returned something else than a `MetricValue`, or a value outside its range.
    """
    if twice := [name for name, count in Counter(metric.name for metric in inputs.metrics).items() if count > 1]:
        raise CardError(f"metric {min(twice)!r} is given twice; ask for it once")
    planned = ordered_plan(inputs)
    days = planned_days(planned, inputs.snapshot, planned[0].limit)
    units = {window: inputs.snapshot.units_of(own) for window, own in days.items()}
    years = sorted({each["days_a_year"] for each in units.values()})
    definitions = {metric.name: _definition(metric, years) for metric in inputs.metrics}
    ledgers = _ledgers_by_id(inputs, planned, days, units)
    finished = [spec for spec in planned if spec.id in ledgers]
    # Every finished episode of a window covers the same days.
    covered = {spec.span.name: ledgers[spec.id] for spec in finished}
    spans = {name: (ledger.steps[0].filled_on, ledger.steps[-1].filled_on) for name, ledger in covered.items()}
    left_out = left_out_windows(spans, years[-1])
    pooled = [ledgers[spec.id] for spec in finished if spec.span.name not in left_out]
    facts = decode_strict(
        {
            "kind": "trading",
            **common_fields(inputs, planned, days, ledgers.keys(), "a ledger"),
            **cutoff_fields(inputs, days),
            "rules": inputs.rules,
            "episodes": [_episode(spec, ledgers[spec.id], inputs) for spec in finished],
            "reference": {
                "benchmark_buy_and_hold": {window: _reference(ledger, inputs.snapshot) for window, ledger in covered.items()}
            },
            "calibration": calibration_table(pool(judged_orders(ledger, inputs.snapshot) for ledger in pooled)),
            "certificate": inputs.certificate,
        },
        TradingFacts,
    )
    return TradingCard(**asdict(facts), **_derived(facts, definitions, price_of(inputs)))


def _definition(metric: Metric, years: Sequence[int]) -> Definition:
    """Return the definition of a metric, with the days a year of the episodes in its formula: `252 or 365` where windows differ."""
    try:
        definition = converted(metric, Definition, from_attributes=True)
    except msgspec.ValidationError as error:
        raise PluginError(f"metric {metric.name!r}: {error}") from error
    if metric.name not in ANNUALISED:
        return definition
    return replace(definition, formula=definition.formula.replace(str(TRADING_DAYS), " or ".join(map(str, years))))


def derive_trading(card: TradingCard) -> TradingCard:
    """Recompute the fields that follow from the episodes of a card, the definitions of its metrics and its price."""
    return replace(card, **_derived(card, card.metrics, card.cost.price or None))


def _derived(card: TradingFacts, definitions: Mapping[str, Definition], price: PriceEntry | None) -> dict[str, Any]:
    orders = [episode.orders for episode in card.episodes]
    spans = {episode.window: (episode.first_day, episode.last_day) for episode in card.episodes}
    try:
        left_out = left_out_windows(spans, card.snapshot.year)
    except ValueError as error:
        raise CardError(f"episodes have days that do not exist: {error}") from error
    pooled = [episode for episode in card.episodes if episode.window not in left_out]
    return {
        **derive_common(card),
        "attribution": _attribution(pooled),
        "cost": trading_cost(card.episodes, pooled, price),
        "left_out": left_out or UNSET,
        "metrics": {
            name: MetricLine(
                **{part: getattr(definition, part) for part in Definition.__struct_fields__},
                **asdict(aggregate(episode.metrics[name] for episode in pooled)),
            )
            for name, definition in definitions.items()
        },
        "orders": add_up(Orders, orders, rules=add_counts(one.rules for one in orders)),
    }


def _attribution(episodes: Sequence[TradingEpisode]) -> Attribution:
    """Return medians of the linked lines in the detail of the attribution metric."""
    entries = [episode.metrics[_ATTRIBUTION_METRIC] for episode in episodes if _ATTRIBUTION_METRIC in episode.metrics]
    if not entries:
        return Attribution(value=None, reason=f"metric {_ATTRIBUTION_METRIC} was not asked for")
    computed = [entry for entry in entries if entry.value is not None]
    if not computed:
        return Attribution(value=None, reason="; ".join(sorted({str(entry.reason) for entry in entries})))
    names = dict.fromkeys(name for entry in computed for name in _linked(entry))
    if not names:
        return Attribution(value=None, reason=f"metric {_ATTRIBUTION_METRIC} has no linked lines in its detail")
    return Attribution(value=AttributionLines(lines={name: aggregate(_line(entry, name) for entry in entries) for name in names}))


def _line(entry: EpisodeMetric, name: str) -> EpisodeMetric:
    """Return one linked line of one episode, in the form of a metric."""
    if entry.value is None:
        return entry
    value = _linked(entry).get(name)
    if value is None:
        return EpisodeMetric(value=None, n=entry.n, reason="the episode has no such line")
    interval = _detail(entry, "intervals").get(name)
    typed = UNSET if interval is None else from_plain(interval, Interval, "card", CardError)
    return EpisodeMetric(value=value, n=entry.n, interval=typed)


def _linked(entry: EpisodeMetric) -> dict[str, float]:
    return {key: value for key, value in _detail(entry, "linked").items() if isinstance(value, float)}


def _detail(entry: EpisodeMetric, name: str) -> Mapping[str, Any]:
    """Return a mapping in a metric's detail; empty where a foreign card has something else there."""
    part = entry.detail.get(name) if isinstance(entry.detail, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def trading_problems(card: TradingCard) -> Iterator[Problem]:
    """Yield contradictions in lengths, metrics and references of a card's episodes."""
    for index, episode in enumerate(card.episodes):
        expected = planned_steps(card, episode.window)
        if episode.steps != expected or sum(asdict(episode.decisions).values()) != expected:
            yield ("episodes", index, "steps"), f"the window and limit give {expected} steps, each with one decision"
        if (episode.final_nav_minor is UNSET) == (episode.final_nav_fen is UNSET):
            yield ("episodes", index), "has neither final_nav_minor nor final_nav_fen, or both"
        if surplus := sorted(set(episode.metrics) ^ set(card.metrics)):
            yield ("episodes", index, "metrics"), f"{surplus[0]!r} must be in every episode and under metrics"
        for name, entry in episode.metrics.items():
            if name in card.metrics and (problem := range_problem(entry.value, card.metrics[name].range)):
                yield ("episodes", index, "metrics", name, "value"), problem
    if set(card.reference.benchmark_buy_and_hold) != {episode.window for episode in card.episodes}:
        yield ("reference", "benchmark_buy_and_hold"), "must have each window of a finished episode, and no other"
    yield from cutoff_problems(card, card.limit)


# ---- from ledgers


def _episode(spec: EpisodeSpec, ledger: Ledger, inputs: CardInputs) -> dict[str, JsonValue]:
    """Return the card's entry of one finished episode."""
    steps = ledger.steps
    orders = [order for step in steps for order in step.orders]
    decisions, statuses = Counter(step.provenance for step in steps), Counter[str](order.status for order in orders)
    intervals = episode_intervals(ledger, inputs.snapshot)
    return {
        "id": spec.id,
        "window": spec.span.name,
        "seed": spec.seed,
        "steps": len(steps),
        "first_day": steps[0].filled_on,
        "last_day": steps[-1].filled_on,
        "final_nav_minor" if inputs.snapshot.instruments else "final_nav_fen": steps[-1].nav_minor,
        "decisions": {provenance: decisions[provenance] for provenance in PROVENANCES},
        "failures": add_counts(step.failures for step in steps),
        "orders": {
            "submitted": len(orders),
            **{status: statuses[status] for status in _STATUSES},
            "rules": Counter(order.rule for order in orders if order.rule is not None),
        },
        "usage": {name: sum(getattr(step, name) for step in steps) for name in UsageCounts.__struct_fields__},
        "uncounted": inputs.uncounted.get(spec.id, 0),
        "metrics": {metric.name: _metric(metric, ledger, inputs, intervals.get(metric.name)) for metric in inputs.metrics},
    }


def _metric(metric: Metric, ledger: Ledger, inputs: CardInputs, interval: Any) -> dict[str, JsonValue]:
    """Return a metric's value as JSON; daily metrics with a value have an interval, of days resampled in blocks."""
    result = compute_metric(metric, ledger, inputs.snapshot, inputs.rules, inputs.plugins.get(metric.name, ""))
    entry = _value_entry(result)
    if result.detail is not None:
        entry["detail"] = result.detail
    if interval is not None and result.value is not None:
        entry["interval"] = interval.to_json()
    return entry


def compute_metric(metric: Metric, ledger: Ledger, market: MarketSnapshot, rules: RuleSet, plugin: str) -> MetricValue:
    """Return a metric of one episode. Raises PluginError, which names it and its plugin: it raises, returns something else than a
    `MetricValue`, or a value outside the range that it declares.
    """
    where = f"metric {metric.name!r}" + (f" of plugin {plugin}" if plugin else "")
    result = call_foreign(metric.compute, f"{where} can't be computed", ledger, market, rules)
    if not isinstance(result, MetricValue):
        raise PluginError(f"{where} returned {type(result).__name__}; compute() must return a MetricValue")
    if problem := call_foreign(range_problem, where, result.value, metric.range):
        raise PluginError(f"{where}: {problem}; fix the metric, or the range that it declares")
    if not isinstance(result.n, SupportsIndex) or int(result.n) < 0:
        raise PluginError(f"{where}: n must be a count of observations, was {result.n!r:.80}")
    explanation = [result.reason, result.detail]
    call_foreign(lambda: dumps_canonical(explanation).encode(), f"{where}: its reason and detail must be plain JSON")
    return result


def _value_entry(result: MetricValue) -> dict[str, JsonValue]:
    if result.value is None:
        return {"value": None, "n": int(result.n), "reason": result.reason}
    return {"value": float(result.value), "n": int(result.n)}


def _reference(ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """Return the buy and hold of the benchmark from the close before an episode's first day to its last, without costs."""
    levels = benchmark_levels(ledger, snapshot)
    if problem := benchmark_problem(snapshot, levels):
        figures = dict.fromkeys(("total_return", "sharpe", "max_drawdown"), series.undefined(problem, len(ledger.steps)))
    else:
        sharpe = series.sharpe(series.simple_returns(levels), ledger.days_a_year)
        figures = {"total_return": series.total_return(levels), "sharpe": sharpe, "max_drawdown": series.max_drawdown(levels)}
    return {
        "base_day": str(ledger.base_day),
        "last_day": ledger.steps[-1].filled_on,
        "metrics": {name: _value_entry(figure) for name, figure in figures.items()},
    }


def _ledgers_by_id(
    inputs: CardInputs, planned: Sequence[EpisodeSpec], days: WindowDays, units: Mapping[Window, Mapping[str, object]]
) -> dict[str, Ledger]:
    """Return ledgers by the id of their episode; CardError unless they cover its days, since a part must not pass for the whole."""
    specs = {spec.id: spec for spec in planned}
    ledgers: dict[str, Ledger] = {}
    for ledger in inputs.ledgers:
        identity = build(EpisodeSpec, ledger.spec, "ledger spec").id
        if identity not in specs:
            raise CardError(f"a ledger belongs to episode {identity}, which the plan does not have")
        if identity in ledgers:
            raise CardError(f"episode {identity} has two ledgers")
        spec = specs[identity]
        expected, market_units = days[spec.span], units[spec.span]
        if (own := {name: getattr(ledger, name) for name in market_units}) != market_units:
            raise CardError(f"the ledger of episode {identity} has the units {own}, its market {market_units}")
        if not np.array_equal(ledger.days, expected):
            raise CardError(
                f"episode {spec.id} ({spec.label}): the ledger has {len(ledger.steps)} steps that are not"
                f" the {len(expected)} trading days of its window; resume the run, or list the episode as missing"
            )
        ledgers[identity] = ledger
    return ledgers
