"""Figures of decisions that were executed again at other capitals: means over windows, costs by part,
and the capital at which an edge is gone.

The capital at which a mean falls to zero is read off the straight line between two neighbouring
capitals, on the logarithm of the capital. Its interval draws windows again, with replacement, and
reads each draw's mean likewise: windows that share days are drawn together. A draw that is not
above zero at the least capital counts as below all, one that is still above zero at the greatest
as above all: an end of the interval that falls there is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from ktdeval.cards import TradingCard, TradingEpisode, episode_excess
from ktdeval.runner import (
    BreakEven,
    CapitalLine,
    CostsLine,
    FillFigures,
    MeanLine,
    OtherStates,
    TransplantedTask,
)
from ktdeval.stats import blocks_of, estimate_mean, overlap_correlation

Values = npt.NDArray[np.float64]
Figure = Callable[[TradingCard, TradingEpisode], float | None]

DRAWS = 2000
CONFIDENCE = 0.95
MEASURES = ("excess_return", "net_selection")
_PARTS = ("commission", "duties", "execution", "financing")


def _metric(name: str) -> Figure:
    def figure(_card: TradingCard, episode: TradingEpisode) -> float | None:
        line = episode.metrics.get(name)
        return None if line is None else line.value

    return figure


def _net_selection(_card: TradingCard, episode: TradingEpisode) -> float | None:
    """Selection and the trading effect: the parts of a return that are no market and no style,
    less what fills and fees took.
    """
    total = 0.0
    for name in ("selection_alpha", "trading_effect"):
        line = episode.metrics.get(name)
        if line is None or line.value is None:
            return None

        total += line.value

    return total


_FIGURES: Mapping[str, Figure] = {
    "total_return": _metric("total_return"),
    "excess_return": episode_excess,
    "selection_alpha": _metric("selection_alpha"),
    "net_selection": _net_selection,
    "turnover": _metric("turnover"),
}


@dataclass(frozen=True)
class WindowValues:
    """A figure of one task at one capital: the mean over seeds of each window that has it."""

    values: Mapping[str, float]
    spans: Mapping[str, tuple[str, str]]  #: days that each window covered

    @property
    def correlation(self) -> Values:
        """[windows, windows] correlation of the windows by the days they share."""
        return overlap_correlation([self.spans[window] for window in self.values])


def window_values(made: TransplantedTask, figure: Figure) -> WindowValues:
    """Return a figure by window, of the windows that the card's own figures rest on."""
    by_window: dict[str, list[float]] = {}
    spans = {}
    for episode in made.card.pooled:
        value = figure(made.card, episode)
        if value is not None:
            by_window.setdefault(episode.window, []).append(value)
            spans[episode.window] = (episode.first_day, episode.last_day)

    return WindowValues({window: fmean(own) for window, own in by_window.items()}, spans)


def capital_line(made: TransplantedTask) -> CapitalLine:
    """Return the figures of a task at one capital."""
    first = made.episodes[0].ledger
    figures = FillFigures()
    for episode in made.episodes:
        figures += episode.figures

    filled = None
    if figures.ordered_minor:
        filled = figures.filled_minor / figures.ordered_minor

    capital_minor = first.initial_cash_minor * len(made.episodes)
    costs = {part: getattr(figures, f"{part}_minor") / capital_minor for part in _PARTS}
    means = {name: _mean_line(window_values(made, own)) for name, own in _FIGURES.items()}

    return CapitalLine(
        task=made.card.task.name,
        capital=made.trading.initial_cash,
        currency=first.currency,
        episodes=len(made.episodes),
        **means,
        annualised_return=_mean_line(window_values(made, _annualised(made))),
        filled_share=filled,
        costs=CostsLine(**costs),
        other_states=_other_states(made),
    )


def _annualised(made: TransplantedTask) -> Figure:
    """Return the figure of a year at an episode's pace; None where the NAV fell to nothing."""
    years = {}
    for episode in made.episodes:
        ledger = episode.ledger
        years[episode.spec.id] = len(ledger.steps) / ledger.days_a_year

    def figure(_card: TradingCard, episode: TradingEpisode) -> float | None:
        total = episode.metrics["total_return"].value
        if total is None or total <= -1.0:
            return None
        return math.expm1(math.log1p(total) / years[episode.id])

    return figure


def _other_states(made: TransplantedTask) -> OtherStates:
    steps = sum(len(episode.ledger.steps) for episode in made.episodes)
    others: list[int] = []
    for episode in made.episodes:
        others += episode.other_states

    return OtherStates(first_step=min(others, default=None), share=len(others) / steps)


def _mean_line(of: WindowValues) -> MeanLine:
    values = np.array(list(of.values.values()), dtype=np.float64)
    mean = estimate_mean(values, of.correlation if len(values) else None)
    reason = mean.reason
    if not len(values):
        reason = "not defined in any window"

    return MeanLine(
        value=mean.value, low=mean.low, high=mean.high, windows=len(values), reason=reason
    )


# ---- where an edge is gone


def break_even(made: Sequence[TransplantedTask], measure: str, seed: int = 0) -> BreakEven:
    """Return the capital at which a measure's mean over windows falls to zero; `made`: one task at
    several capitals, ascending.
    """
    tables = [window_values(each, _FIGURES[measure]) for each in made]
    shared = list(tables[0].values)
    for table in tables[1:]:
        shared = [name for name in shared if name in table.values]

    rows = []
    for name in shared:
        rows.append([table.values[name] for table in tables])

    curves = np.array(rows)  # one row a window, one column a capital
    capitals = np.array([each.trading.initial_cash for each in made], dtype=np.float64)

    capital: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    if not shared:
        reason = "not defined in any window at every capital"
    elif len(capitals) < 2:
        reason = "one capital: a crossing needs two"
    else:
        crossing = zero_crossing(capitals, curves.mean(axis=0))
        capital = crossing if 0.0 < crossing < math.inf else None
        reason = _beyond(crossing)
        if len(shared) < 2:
            reason = reason or "no interval: one window says nothing of other windows"
        else:
            spans = [tables[0].spans[name] for name in shared]
            blocks = blocks_of(overlap_correlation(spans))
            low, high = _interval(capitals, curves, blocks, seed)

    return BreakEven(
        task=made[0].card.task.name,
        measure=measure,
        capital=capital,
        low=low,
        high=high,
        windows=len(shared),
        draws=DRAWS if len(shared) > 1 and len(capitals) > 1 else 0,
        reason=reason,
    )


def zero_crossing(capitals: Values, means: Values) -> float:
    """Return the first capital at which means [capitals] fall from above zero to it; 0 where they
    are not above it at the least, infinity where they stay above it.
    """
    if means[0] <= 0.0:
        return 0.0

    for index in range(1, len(means)):
        before = float(means[index - 1])
        now = float(means[index])
        if now <= 0.0:
            start = math.log(capitals[index - 1])
            step = math.log(capitals[index]) - start
            return math.exp(start + step * before / (before - now))

    return math.inf


def _beyond(crossing: float) -> str | None:
    if crossing == 0.0:
        return "not above zero at the least capital"
    if crossing == math.inf:
        return "still above zero at the greatest capital"
    return None


def _interval(
    capitals: Values, curves: Values, blocks: npt.NDArray[np.int64], seed: int
) -> tuple[float | None, float | None]:
    """Return the ends of the interval of a crossing, None beyond the capitals; `curves`: [windows,
    capitals], `blocks`: [windows] windows of one number are drawn together.
    """
    names = np.unique(blocks)
    if len(names) < 2:
        return None, None

    sums = np.array([curves[blocks == name].sum(axis=0) for name in names])
    sizes = np.array([(blocks == name).sum() for name in names])
    drawn = np.random.default_rng(seed).integers(len(names), size=(DRAWS, len(names)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None]
    crossings = np.array([zero_crossing(capitals, mean) for mean in means])
    tail = (1.0 - CONFIDENCE) / 2.0
    # no interpolation: a draw may lie beyond the capitals
    low = float(np.quantile(crossings, tail, method="inverted_cdf"))
    high = float(np.quantile(crossings, 1.0 - tail, method="inverted_cdf"))

    return _within(low), _within(high)


def _within(end: float) -> float | None:
    return end if 0.0 < end < math.inf else None
