"""What a card says of one finished episode: counts taken from its records, and its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ktdeval.errors import CardError, PluginError
from ktdeval.harness.messages import USAGE_FIELDS
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import DayArray, MarketSnapshot
from ktdeval.plugin_import import call_foreign
from ktdeval.runner.spec import EpisodeSpec, Window
from ktdeval.stats import series
from ktdeval.stats.metric import Metric, MetricValue, RuleSet
from ktdeval.stats.panel import benchmark_levels
from ktdeval.trading.ledger import Ledger

PROVENANCES = ("model", "model_after_retry", "fallback", "error")
STATUSES = ("filled", "partially_filled", "rejected")
USAGE_COUNTS = (*USAGE_FIELDS, "tool_calls", "tool_calls_valid", "submissions")
"""What `usage` counts, of an episode and of a card."""


def window_days(window: Window, snapshot: MarketSnapshot) -> DayArray:
    """The trading days of `window` in the snapshot, both ends included."""
    inside = (snapshot.days >= np.datetime64(window.first, "D")) & (snapshot.days <= np.datetime64(window.last, "D"))
    days: DayArray = snapshot.days[inside]
    return days


def check_complete(spec: EpisodeSpec, ledger: Ledger, snapshot: MarketSnapshot) -> None:
    """Refuse a ledger that does not cover the days of its spec, so that a part is never shown as the whole.

    Raises:
        CardError: a day is missing, doubled or foreign.
    """
    expected = window_days(spec.window, snapshot)[: spec.limit]
    if not np.array_equal(ledger.days, expected):
        raise CardError(
            f"episode {spec.id} ({spec.window.name}, seed {spec.seed}): the ledger has {len(ledger.steps)} steps that are not the"
            f" {len(expected)} trading days of its window; resume the run, or list the episode as missing"
        )


def episode_entry(
    spec: EpisodeSpec, ledger: Ledger, snapshot: MarketSnapshot, metrics: Sequence[Metric], rules: RuleSet
) -> dict[str, JsonValue]:
    """The card's entry of one finished episode."""
    steps = ledger.steps
    return {
        "id": spec.id,
        "window": spec.window.name,
        "seed": spec.seed,
        "steps": len(steps),
        "first_day": str(steps[0]["filled_on"]),
        "last_day": str(steps[-1]["filled_on"]),
        "final_nav_fen": int(steps[-1]["nav_fen"]),
        "decisions": _decisions(ledger),
        "failures": _failures(ledger),
        "orders": _orders(ledger),
        "usage": {name: sum(int(step[name]) for step in steps) for name in USAGE_COUNTS},
        "metrics": {metric.name: metric_entry(metric, _compute(metric, ledger, snapshot, rules)) for metric in metrics},
    }


def _compute(metric: Metric, ledger: Ledger, snapshot: MarketSnapshot, rules: RuleSet) -> MetricValue:
    value: MetricValue = call_foreign(metric.compute, f"metric {metric.name!r} can't be computed", ledger, snapshot, rules)
    return value


def _decisions(ledger: Ledger) -> dict[str, int]:
    counts = Counter(step["provenance"] for step in ledger.steps)
    return {provenance: counts[provenance] for provenance in PROVENANCES}


def _failures(ledger: Ledger) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for step in ledger.steps:
        counts.update(step["failures"])
    return {kind: int(count) for kind, count in counts.items()}


def _orders(ledger: Ledger) -> dict[str, JsonValue]:
    orders = [order for step in ledger.steps for order in step["orders"]]
    statuses = Counter(order["status"] for order in orders)
    return {
        "submitted": len(orders),
        **{status: statuses[status] for status in STATUSES},
        "rules": dict(Counter(order["rule"] for order in orders if order["rule"] is not None)),
    }


def metric_entry(metric: Metric, result: MetricValue) -> dict[str, JsonValue]:
    """A metric's value as JSON: `value`, `n`, a `reason` exactly when the value is null, `detail` where there is one.

    Raises:
        PluginError: the metric returned something else than a `MetricValue`.
    """
    if not isinstance(result, MetricValue):
        raise PluginError(f"metric {metric.name!r} returned {type(result).__name__}; compute() must return a MetricValue")
    entry = value_entry(result)
    if result.detail is not None:
        entry["detail"] = result.detail
    return entry


def value_entry(result: MetricValue) -> dict[str, JsonValue]:
    """A value with its n, or null with its reason."""
    if result.value is None:
        return {"value": None, "n": int(result.n), "reason": result.reason}
    return {"value": float(result.value), "n": int(result.n)}


def reference_entry(ledger: Ledger, snapshot: MarketSnapshot) -> Mapping[str, JsonValue]:
    """Buying the benchmark at the close before an episode's first day and holding it to its last close, without costs."""
    levels = benchmark_levels(ledger, snapshot)
    problem = series.level_problem(levels)
    sharpe = series.undefined(problem, len(ledger.steps)) if problem else series.sharpe(series.simple_returns(levels))
    return {
        "base_day": str(ledger.base_day),
        "last_day": str(ledger.steps[-1]["filled_on"]),
        "metrics": {
            "total_return": value_entry(series.total_return(levels)),
            "sharpe": value_entry(sharpe),
            "max_drawdown": value_entry(series.max_drawdown(levels)),
        },
    }
