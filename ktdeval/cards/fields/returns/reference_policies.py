"""Reference policies over the days of each window: the benchmark, buy and hold."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.origin.fact_types import ReferenceMetrics, ReferencePolicy, References
from ktdeval.cards.fields.origin.recorded_facts import TradingFacts
from ktdeval.cards.fields.returns.medians import EpisodeMetric
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats import series
from ktdeval.stats.performance_metrics import benchmark_levels, benchmark_problem
from ktdeval.trading.ledger import Ledger


def gather_references(sources: TradingSources) -> References:
    """Return the references for each window, computed from the ledger of one of its episodes."""
    snapshot = sources.inputs.snapshot
    held = {window: _benchmark(ledger, snapshot) for window, ledger in sources.by_window.items()}
    return References(benchmark_buy_and_hold=held)


def _benchmark(ledger: Ledger, snapshot: MarketSnapshot) -> ReferencePolicy:
    """Return the benchmark's buy-and-hold figures, without costs, from the close before an
    episode's first day to the close of its last day.
    """
    levels = benchmark_levels(ledger, snapshot)
    problem = benchmark_problem(snapshot, levels)
    if problem:
        undefined = EpisodeMetric.of(series.make_undefined(problem, len(ledger.steps)))
        metrics = ReferenceMetrics(
            total_return=undefined, sharpe=undefined, max_drawdown=undefined, volatility=undefined
        )
    else:
        returns = series.simple_returns(levels)
        metrics = ReferenceMetrics(
            total_return=EpisodeMetric.of(series.total_return(levels)),
            sharpe=EpisodeMetric.of(series.sharpe(returns, ledger.days_a_year)),
            max_drawdown=EpisodeMetric.of(series.max_drawdown(levels)),
            volatility=EpisodeMetric.of(series.volatility(returns, ledger.days_a_year)),
        )

    return ReferencePolicy(
        base_day=str(ledger.base_day), last_day=ledger.steps[-1].filled_on, metrics=metrics
    )


def reference_problems(reference: References, facts: TradingFacts) -> Iterator[Problem]:
    """Yield a problem if the reference's windows are not exactly the windows of finished episodes,
    or if a figure has an interval. The benchmark has a single path, so its figures are exact.
    """
    windows = {episode.window for episode in facts.episodes}
    if set(reference.benchmark_buy_and_hold) != windows:
        yield (
            ("reference", "benchmark_buy_and_hold"),
            "must have exactly the windows of finished episodes",
        )

    for window, policy in reference.benchmark_buy_and_hold.items():
        for name, figure in _reference_figures(policy.metrics):
            if figure.interval is not UNSET:
                where = ("reference", "benchmark_buy_and_hold", window, "metrics", name, "interval")
                yield where, "is given; figures of the benchmark have no interval"


def _reference_figures(metrics: ReferenceMetrics) -> Iterator[tuple[str, EpisodeMetric]]:
    """Yield the reference figures that the card contains, with their names."""
    yield from metrics.panel.items()
    if metrics.volatility is not UNSET:
        yield "volatility", metrics.volatility
