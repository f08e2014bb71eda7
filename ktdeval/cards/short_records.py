"""Figures at a year's pace of a card whose episodes are too short for any: shown as undefined.

A card records what was computed, and `card verify` recomputes it. What people read follows one rule
instead (`ktdeval.stats.annualisation_problem`): a Sharpe ratio of three days has an error of 9, so
that +22 and -25 say the same. Every table and page reads the figures through `shown_metrics`.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from ktdeval.cards.card import TradingCard
from ktdeval.cards.fields.metrics import MetricLine
from ktdeval.stats.data_limits import annualisation_problem

_OF_SHARPE = frozenset({"psr", "min_track_record"})  #: what follows from a Sharpe ratio


def shown_metrics(card: TradingCard) -> dict[str, MetricLine]:
    """Return a card's metrics as shown: a ratio or return at a year's pace is undefined, with the
    reason, if its shortest episode has too few returns. Turnover is no estimate, and stays.

    Example:
        shown_metrics(card)["sharpe"].value  # None for an episode of three days
    """
    problem = short_record_problem(card)
    metrics = dict(card.metrics)
    if problem is None:
        return metrics

    for name, line in card.metrics.items():
        if not is_annualised(name, line.unit):
            continue
        episodes = line.n + sum(line.undefined.values())
        metrics[name] = replace(
            line,
            value=None,
            n=0,
            quartiles=UNSET,
            interval=UNSET,
            never=UNSET,
            undefined={problem: episodes},
            reason=problem,
        )
    return metrics


def is_annualised(name: str, unit: str) -> bool:
    """Return whether a metric is a ratio or a return at a year's pace, or follows from one."""
    return unit.startswith("annualised ratio") or unit == "fraction per year" or name in _OF_SHARPE


def short_record_problem(card: TradingCard) -> str | None:
    """Return why a card's ratios are not shown, or None if they are."""
    steps = min((episode.steps for episode in card.pooled), default=0)
    return annualisation_problem(steps, float(card.snapshot.days_a_year))
