"""Metrics on a card: computed for each episode, with medians over episodes and definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import SupportsIndex

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from ktdeval.cards.fields.base_types import Count, Counts, Name, Number, Problem
from ktdeval.cards.fields.origin.fact_types import Definition
from ktdeval.cards.fields.origin.recorded_facts import DerivationBasis, TradingFacts
from ktdeval.cards.fields.returns.medians import (
    EpisodeMetric,
    Interval,
    OverEpisodes,
    Quartiles,
    aggregate,
)
from ktdeval.errors import CardError, PluginError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.stats.bootstrap import episode_intervals
from ktdeval.stats.metric import (
    FunctionMetric,
    Metric,
    MetricValue,
    RecordedTranscript,
    RuleSet,
    range_problem,
)
from ktdeval.stats.performance_metrics import ANNUALISED
from ktdeval.stats.resampling import Resampling
from ktdeval.stats.series import TRADING_DAYS
from ktdeval.trading.ledger import Ledger
from ktdeval.values.documents.strict_json import dumps_canonical
from ktdeval.values.documents.typed_json import convert_value


class MetricLine(OverEpisodes, Definition, frozen=True, kw_only=True):
    """A metric over all finished episodes, with its definition; value, n and undefined are those of
    a `Line`.
    """

    value: Number | None
    n: Count
    quartiles: Quartiles | UnsetType = UNSET
    interval: Interval | UnsetType = UNSET
    never: Count | UnsetType = UNSET
    undefined: Counts
    reason: Name | UnsetType = UNSET


# ---- gathered from ledgers


def define_metrics(metrics: Sequence[Metric], years: Sequence[int]) -> dict[str, Definition]:
    """Return the definition of each metric. `years` contains the days-per-year values of the
    episodes. Raises CardError if a metric is given twice, and PluginError if a definition is
    malformed.
    """
    counts = Counter(metric.name for metric in metrics)
    twice = [name for name, times in counts.items() if times > 1]
    if twice:
        raise CardError(f"metric {min(twice)!r} is given twice; ask for it once")
    return {metric.name: _definition(metric, years) for metric in metrics}


def _definition(metric: Metric, years: Sequence[int]) -> Definition:
    """Return the definition of a metric with the episodes' days per year filled into its formula:
    `252 or 365` if windows differ.
    """
    try:
        definition = convert_value(metric, Definition, from_attributes=True)
    except msgspec.ValidationError as error:
        raise PluginError(f"metric {metric.name!r}: {error}") from error

    if metric.name not in ANNUALISED:
        return definition

    days_a_year = " or ".join(map(str, years))
    return replace(definition, formula=definition.formula.replace(str(TRADING_DAYS), days_a_year))


def metrics_of(metrics: Iterable[Metric], transcript: RecordedTranscript | None) -> list[Metric]:
    """Return the metrics of an episode. Metrics that read conversations get the transcript."""
    if transcript is None:
        return list(metrics)

    own: list[Metric] = []
    for metric in metrics:
        if isinstance(metric, FunctionMetric):
            metric = metric.of_transcript(transcript)
        own.append(metric)

    return own


def gather_metrics(
    metrics: Iterable[Metric],
    owners: Mapping[str, str],
    ledger: Ledger,
    market: MarketSnapshot,
    rules: RuleSet,
    resampling: Resampling | None = None,
) -> dict[str, EpisodeMetric]:
    """Compute the metrics of an episode. A daily metric that has a value also gets a
    block-bootstrap interval over days, by `resampling`. `owners` gives the plugin that provides
    each metric. Raises as `compute_metric` does.
    """
    intervals = episode_intervals(ledger, market, resampling)
    figures = {}
    for metric in metrics:
        owner = owners.get(metric.name, "")
        result = compute_metric(metric, ledger, market, rules, owner)
        figures[metric.name] = EpisodeMetric.of(result, intervals.get(metric.name))

    return figures


def check_count(where: str, n: object, noun: str) -> None:
    """Raise PluginError, with a message that starts with `where`, unless `n` is a valid count of
    `noun`.
    """
    if not isinstance(n, SupportsIndex) or int(n) < 0:
        raise PluginError(f"{where}: n must be a count of {noun}, was {n!r:.80}")


def compute_metric(
    metric: Metric, ledger: Ledger, market: MarketSnapshot, rules: RuleSet, plugin: str
) -> MetricValue:
    """Return a metric for one episode. Raises PluginError, which names the metric and its plugin,
    if the metric raises an exception, returns something other than a `MetricValue`, or returns a
    value outside its declared range.
    """
    where = f"metric {metric.name!r}" + (f" of plugin {plugin}" if plugin else "")
    result = call_foreign(metric.compute, f"{where} can't be computed", ledger, market, rules)
    if not isinstance(result, MetricValue):
        raise PluginError(
            f"{where} returned {type(result).__name__}; compute() must return a MetricValue"
        )

    problem = call_foreign(range_problem, where, result.value, metric.range)
    if problem:
        raise PluginError(f"{where}: {problem}; fix the metric, or the range that it declares")
    check_count(where, result.n, "observations")
    call_foreign(
        lambda: dumps_canonical([result.reason, result.detail]).encode(),
        f"{where}: its reason and detail must be plain JSON",
    )
    return result


# ---- derived


def derive_metrics(basis: DerivationBasis[TradingFacts]) -> dict[str, MetricLine]:
    """Return each metric over the episodes that count towards figures over episodes."""
    metrics = [episode.metrics for episode in basis.facts.pooled]
    lines = {}
    for name, definition in basis.definitions.items():
        meaning = {part: getattr(definition, part) for part in Definition.__struct_fields__}
        median = aggregate(own[name] for own in metrics)
        lines[name] = MetricLine(**meaning, **asdict(median))

    return lines


# ---- checks


def metric_problems(metrics: Mapping[str, MetricLine], facts: TradingFacts) -> Iterator[Problem]:
    """Yield contradictions between the metrics of the episodes and the metrics of the card."""
    for index, episode in enumerate(facts.episodes):
        where = ("episodes", index, "metrics")
        surplus = sorted(set(episode.metrics) ^ set(metrics))
        if surplus:
            yield where, f"{surplus[0]!r} must be in every episode and under metrics"

        for name, entry in episode.metrics.items():
            if name not in metrics:
                continue

            problem = range_problem(entry.value, metrics[name].range)
            if problem:
                yield (*where, name, "value"), problem
