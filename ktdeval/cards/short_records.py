"""Figures at a year's pace of a card whose episodes are too short for them: shown as undefined.

A card records what was computed, and `card verify` recomputes it. What people read follows two rules
instead, both of `ktdeval.stats.data_limits`: a ratio needs some tens of returns (the error of a Sharpe
ratio of three days is 9, so that +22 and -25 say the same), and a return at a year's pace needs a year.
Every table and page reads the figures through `shown_metrics` or `shown_metric`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from ktdeval.cards.card import TradingCard
from ktdeval.cards.fields.episode_parts import TradingEpisode
from ktdeval.cards.fields.returns.medians import EpisodeMetric
from ktdeval.cards.fields.returns.metrics import MetricLine
from ktdeval.stats.data_limits import annualisation_problem, yearly_return_problem

_OF_SHARPE = frozenset({"psr", "min_track_record"})  #: what follows from a Sharpe ratio
BENCHMARK_RATIOS = frozenset({"sharpe"})  #: ratios at a year's pace of the benchmark
_A_YEAR = "fraction per year"


def shown_metrics(card: TradingCard, *, yearly_returns: bool = False) -> dict[str, MetricLine]:
    """Return a card's metrics as shown: a ratio or return at a year's pace is undefined, with the
    reason, if its shortest episode has too few returns. Turnover is no estimate, and stays.

    `yearly_returns`: keep returns of less than a year, for the columns of papers that define them.

    Example:
        shown_metrics(card)["sharpe"].value  # None for an episode of three days
    """
    steps = _fewest_steps(card)
    metrics = dict(card.metrics)
    for name, line in card.metrics.items():
        problem = _figure_problem(card, name, steps)
        if yearly_returns and is_yearly_return(line):
            problem = short_record_problem(card)
        if problem is not None:
            metrics[name] = _undefined_line(line, problem)
    return metrics


def _undefined_line(line: MetricLine, problem: str) -> MetricLine:
    episodes = line.n + sum(line.undefined.values())
    return replace(
        line,
        value=None,
        n=0,
        quartiles=UNSET,
        interval=UNSET,
        never=UNSET,
        undefined={problem: episodes},
        reason=problem,
    )


def shown_metric(card: TradingCard, episode: TradingEpisode, name: str) -> EpisodeMetric | None:
    """Return an episode's metric as shown, by the same rules over its own days; None if the card
    does not have it.
    """
    figure = episode.metrics.get(name)
    if figure is None:
        return None

    problem = _figure_problem(card, name, episode.steps)
    if problem is None or figure.value is None:
        return figure
    return EpisodeMetric(value=None, n=figure.n, reason=problem)


def shown_benchmark(
    card: TradingCard, figures: Mapping[str, EpisodeMetric]
) -> dict[str, EpisodeMetric]:
    """Return figures of the benchmark over a window as shown, by the same rules over its days."""
    a_year = float(card.snapshot.days_a_year)
    shown = dict(figures)
    for name, figure in figures.items():
        problem = annualisation_problem(figure.n, a_year)
        if name in BENCHMARK_RATIOS and problem is not None:
            shown[name] = EpisodeMetric(value=None, n=figure.n, reason=problem)
    return shown


def hidden_figures(card: TradingCard) -> dict[str, str]:
    """Return why figures are not shown that a card records, keyed by the metric's name, sorted."""
    steps = _fewest_steps(card)
    hidden = {}
    for name in sorted(card.metrics):
        problem = _figure_problem(card, name, steps)
        if problem is not None:
            hidden[name] = problem
    return hidden


def is_annualised(name: str, unit: str) -> bool:
    """Return whether a metric is a ratio or a return at a year's pace, or follows from one."""
    return unit.startswith("annualised ratio") or unit == _A_YEAR or name in _OF_SHARPE


def is_yearly_return(line: MetricLine) -> bool:
    """Return whether a metric is a return at a year's pace. Volatilities, of which less is better,
    have the same unit.
    """
    return line.unit == _A_YEAR and line.better != "lower"


def short_record_problem(card: TradingCard) -> str | None:
    """Return why a card's ratios are not shown, or None if they are."""
    return annualisation_problem(_fewest_steps(card), float(card.snapshot.days_a_year))


def _fewest_steps(card: TradingCard) -> int:
    return min((episode.steps for episode in card.pooled), default=0)


def _figure_problem(card: TradingCard, name: str, steps: int) -> str | None:
    """Return why a metric of this many steps is not shown, or None if it is."""
    line = card.metrics.get(name)
    if line is None or not is_annualised(name, line.unit):
        return None

    a_year = float(card.snapshot.days_a_year)
    if is_yearly_return(line):
        return yearly_return_problem(steps, a_year)
    return annualisation_problem(steps, a_year)
