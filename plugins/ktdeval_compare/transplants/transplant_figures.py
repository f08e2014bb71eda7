"""Figures for decisions that were executed again with different capital: means over windows, cost
components, and the capital at which an edge vanishes.

The capital at which a mean falls to zero is interpolated linearly between two neighbouring
capitals, on a logarithmic scale. Its interval is interpolated in the same way from the ends of the
means' intervals. It contains the capitals at which a test can't distinguish the mean from zero. An
end of the interval is null if the interpolated end is not above zero at the smallest capital, or is
still above zero at the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
import numpy.typing as npt

from ktdeval.cards import TradingCard, TradingEpisode, episode_excess, percent
from ktdeval.runner import MIN_FILLED, BreakEven, CapitalLine, CostsLine, MeanLine, OtherStates
from ktdeval.stats import MeanEstimate, estimate_mean, overlap_correlation, yearly_return_problem
from ktdeval.trading import most_stale
from ktdeval_compare.transplants.transplanter import FillFigures, TransplantedTask

Values = npt.NDArray[np.float64]
Figure = Callable[[TradingCard, TradingEpisode], float | None]

CONFIDENCE = 0.95
MEASURES = ("excess_return", "net_selection")
_PARTS = ("commission", "duties", "execution", "financing")
_RETURNS = ("total_return", "excess_return", "selection_alpha", "net_selection")


def _metric(name: str) -> Figure:
    def figure(_card: TradingCard, episode: TradingEpisode) -> float | None:
        line = episode.metrics.get(name)
        return None if line is None else line.value

    return figure


def _net_selection(_card: TradingCard, episode: TradingEpisode) -> float | None:
    """Return the sum of selection and the trading effect. This is the part of the return that
    neither market nor style explains, minus the costs of fills and fees.
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
    """A figure for one task with one capital: the mean over seeds, for each window in which it is
    defined.
    """

    values: Mapping[str, float]
    spans: Mapping[str, tuple[str, str]]  #: first and last day in each window

    @property
    def correlation(self) -> Values:
        """[windows, windows] correlation between windows that is due to shared days."""
        return overlap_correlation([self.spans[window] for window in self.values])


def window_values(made: TransplantedTask, figure: Figure) -> WindowValues:
    """Return a figure by window, for the windows that are included in the card's own figures."""
    by_window: dict[str, list[float]] = {}
    spans = {}
    for episode in made.card.pooled:
        value = figure(made.card, episode)
        if value is not None:
            by_window.setdefault(episode.window, []).append(value)
            spans[episode.window] = (episode.first_day, episode.last_day)

    return WindowValues({window: fmean(own) for window, own in by_window.items()}, spans)


def capital_line(made: TransplantedTask) -> CapitalLine:
    """Return a task's figures with one capital."""
    first = made.episodes[0].ledger
    figures = _fills(made)
    filled = filled_share(made)
    withheld = withheld_reason(filled)
    capital_minor = first.initial_cash_minor * len(made.episodes)
    costs = {part: getattr(figures, f"{part}_minor") / capital_minor for part in _PARTS}

    means = {name: _mean_line(window_values(made, own)) for name, own in _FIGURES.items()}
    means["annualised_return"] = _annualise(made)
    if withheld is not None:
        for name in (*_RETURNS, "annualised_return"):
            windows = means[name].windows
            means[name] = MeanLine(
                value=None, low=None, high=None, windows=windows, reason=withheld
            )

    return CapitalLine(
        task=made.card.task.name,
        capital=made.trading.initial_cash,
        currency=first.currency,
        episodes=len(made.episodes),
        **means,
        filled_share=filled,
        withheld=withheld,
        costs=CostsLine(**costs),
        other_states=_other_states(made),
        stale=most_stale(episode.stale for episode in made.card.episodes),
    )


def _fills(made: TransplantedTask) -> FillFigures:
    """Return the fill figures, summed over episodes."""
    figures = FillFigures()
    for episode in made.episodes:
        figures += episode.figures

    return figures


def filled_share(made: TransplantedTask) -> float | None:
    """Return the filled share of the ordered notional, or None if nothing was ordered."""
    figures = _fills(made)
    if not figures.ordered_minor:
        return None

    return figures.filled_minor / figures.ordered_minor


def withheld_reason(filled: float | None) -> str | None:
    """Return why returns are withheld at this filled share, or None if they are not withheld."""
    if filled is None or filled >= MIN_FILLED:
        return None

    return (
        f"{percent(filled, '.1f')} of what was ordered was filled: returns are withheld below"
        f" {percent(MIN_FILLED, 'g')}"
    )


def _annualise(made: TransplantedTask) -> MeanLine:
    """Return the mean annualised return, over episodes that last about a year or more."""
    years = {}
    problems = {}
    for episode in made.episodes:
        steps = len(episode.ledger.steps)
        a_year = float(episode.ledger.days_a_year)
        years[episode.spec.id] = steps / a_year
        problems[episode.spec.id] = yearly_return_problem(steps, a_year)

    def figure(_card: TradingCard, episode: TradingEpisode) -> float | None:
        total = episode.metrics["total_return"].value
        if total is None or total <= -1.0 or problems[episode.id] is not None:
            return None
        return math.expm1(math.log1p(total) / years[episode.id])

    line = _mean_line(window_values(made, figure))
    if None in problems.values():
        return line

    days = max(len(episode.ledger.steps) for episode in made.episodes)
    reason = f"a return of at most {days} days, less than a year, is not annualised"
    return MeanLine(value=None, low=None, high=None, windows=0, reason=reason)


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


# ---- capitals at which an edge vanishes


def break_even(made: Sequence[TransplantedTask], measure: str) -> BreakEven:
    """Return the capital at which the mean of a measure over windows falls to zero. `made` has one
    task with several capitals, in ascending order. Capitals for which returns are withheld are
    ignored.
    """
    reason: str | None
    usable = [each for each in made if withheld_reason(filled_share(each)) is None]
    line = partial(BreakEven, task=made[0].card.task.name, measure=measure)
    if not usable:
        reason = f"less than {percent(MIN_FILLED, 'g')} is filled at every capital"
        return line(capital=None, low=None, high=None, windows=0, reason=reason)

    tables = [window_values(each, _FIGURES[measure]) for each in usable]
    shared = list(tables[0].values)
    for table in tables[1:]:
        shared = [name for name in shared if name in table.values]

    if not shared:
        reason = "not defined in any window at every capital"
        return line(capital=None, low=None, high=None, windows=0, reason=reason)
    if len(usable) < 2:
        reason = "one capital with figures: a crossing needs two"
        return line(capital=None, low=None, high=None, windows=len(shared), reason=reason)

    spans = [tables[0].spans[name] for name in shared]
    correlation = overlap_correlation(spans)
    means = []
    for table in tables:
        values = np.array([table.values[name] for name in shared])
        means.append(estimate_mean(values, correlation, CONFIDENCE))

    capitals = np.array([each.trading.initial_cash for each in usable], dtype=np.float64)
    crossing = zero_crossing(capitals, [mean.value for mean in means])
    capital = _within(crossing)
    reason = _beyond(crossing)
    low, high = crossing_interval(capitals, means)
    if len(shared) < 2 and reason is None:
        reason = "no interval: one window does not generalise to others"

    return line(capital=capital, low=low, high=high, windows=len(shared), reason=reason)


def crossing_interval(
    capitals: Values, means: Sequence[MeanEstimate]
) -> tuple[float | None, float | None]:
    """Return the capitals at which the lower and upper ends of the means' intervals fall to zero.
    Between these capitals, a test can't distinguish the mean from zero. An end is None if it lies
    beyond the range of capitals, or if an interval is missing.
    """
    lows = [mean.low for mean in means]
    highs = [mean.high for mean in means]
    return _within(zero_crossing(capitals, lows)), _within(zero_crossing(capitals, highs))


def zero_crossing(capitals: Values, means: Sequence[float | None]) -> float:
    """Return the first capital at which the means, [capitals], fall from above zero to zero or
    below. Return 0 if the first mean is not above zero, infinity if all means are above zero, and
    NaN if a mean is missing.
    """
    values = np.array(means, dtype=np.float64)
    if np.isnan(values).any():
        return math.nan
    if values[0] <= 0.0:
        return 0.0

    for index in range(1, len(values)):
        before = float(values[index - 1])
        now = float(values[index])
        if now <= 0.0:
            start = math.log(capitals[index - 1])
            step = math.log(capitals[index]) - start
            return math.exp(start + step * before / (before - now))

    return math.inf


def _beyond(crossing: float) -> str | None:
    if crossing == 0.0:
        return "not above zero at the smallest capital"
    if crossing == math.inf:
        return "still above zero at the largest capital"
    return None


def _within(end: float) -> float | None:
    return end if 0.0 < end < math.inf else None
