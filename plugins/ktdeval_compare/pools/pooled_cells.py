"""Cells of a pooled estimate: figures and variances for the windows of each market. Windows that
share days are combined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import UNSET
from scipy.special import ndtri

from ktdeval import stats
from ktdeval.cards import EpisodeMetric
from ktdeval.trading import Ledger
from ktdeval_compare.pairs.compared_cards import Cell, EntrantCard, Values, recorded_ledger

Span = tuple[str, str]
Source = Literal["days", "seeds"]


@dataclass(frozen=True)
class WindowFigure:
    """The compared figure in one window on one market: the mean over seeds."""

    market: str
    window: str
    span: Span  #: first and last day that the episodes covered
    venues: frozenset[str]
    value: float
    by_days: float | str  #: standard error from daily series, or the reason why it is missing
    by_seeds: float | None  #: standard error from seeds; None if there is only one seed

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.market} {self.window}"


@dataclass(frozen=True)
class CellFigure:
    """Windows that share days, combined into one value that is independent of the other cells."""

    windows: Sequence[WindowFigure]
    value: float  #: mean over the windows
    variance: float
    #: variance of the cell's true figure, relative to the variance for a single window
    share: float

    @property
    def name(self) -> str:
        """Name in tables."""
        return " + ".join(window.name for window in self.windows)

    @property
    def markets(self) -> frozenset[str]:
        """Return the markets to which the cell's windows belong."""
        return frozenset(window.market for window in self.windows)


# ---- the figure of a window


def window_figures(
    entrants: Sequence[EntrantCard], metric: str, values: Mapping[Cell, float], market: str
) -> Iterator[WindowFigure]:
    """Yield the window figures for one card, or for the difference between two cards. `values`:
    figures by window and seed.
    """
    by_window: dict[str, dict[int, float]] = {}
    for (window, seed), value in values.items():
        by_window.setdefault(window, {})[seed] = value

    episodes = entrants[0].episodes()
    for window, of_seeds in by_window.items():
        cells = [(window, seed) for seed in of_seeds]
        figures = list(of_seeds.values())
        episode = episodes[cells[0]]
        if len(entrants) == 1:
            by_days = _recorded_error(entrants[0], metric, cells)
        else:
            by_days = _difference_error(entrants[0], entrants[1], metric, cells)

        by_seeds = None
        if len(figures) > 1:
            by_seeds = stats.standard_deviation(figures) / math.sqrt(len(figures))

        yield WindowFigure(
            market=market,
            window=window,
            span=(episode.first_day, episode.last_day),
            venues=frozenset(entrants[0].card.snapshot.venues),
            value=stats.mean(figures),
            by_days=by_days,
            by_seeds=by_seeds,
        )


def _growth_terms(ledger: Ledger) -> Values:
    """Return the [n] daily terms of the total return `exp(sum of log growth) - 1`, by the delta
    method. The standard error of their mean equals the standard error of the total return.
    """
    growth = np.log1p(ledger.returns)
    total = math.exp(math.fsum(growth))
    return np.asarray(total * len(growth) * (growth - growth.mean()))


def _sharpe_terms(ledger: Ledger) -> Values:
    """Return the [n] daily terms of the annualised Sharpe ratio S, which must be defined. For a day
    with standardised return z, the term is `z - S / 2 * (z**2 - 1)`.
    """
    returns = ledger.returns
    spread = float(returns.std(ddof=1))
    standardised = (returns - returns.mean()) / spread
    ratio = float(returns.mean()) / spread
    terms = standardised - ratio / 2.0 * (standardised**2 - 1.0)

    return np.asarray(math.sqrt(ledger.days_a_year) * terms)


_TERMS: Mapping[str, Callable[[Ledger], Values]] = {
    "total_return": _growth_terms,
    "sharpe": _sharpe_terms,
}
"""Metrics that need only a ledger and whose standard error is that of a mean over days."""


def _difference_error(
    first: EntrantCard, second: EntrantCard, metric: str, cells: Sequence[Cell]
) -> float | str:
    """Return the standard error of the mean difference over seeds, computed from paired daily
    terms, or the reason why the standard error is undefined.
    """
    if metric not in _TERMS:
        return f"no daily series of {metric} is recorded"

    rows: list[Values] = []
    days: npt.NDArray[np.datetime64] | None = None
    for cell in cells:
        of_cards = []
        for entrant in (first, second):
            ledger = recorded_ledger(entrant, entrant.episodes()[cell].id)
            problem = ledger if isinstance(ledger, str) else _ledger_problem(ledger)
            if isinstance(ledger, str) or problem:
                return f"{entrant.label}: {problem}"

            if days is None:
                days = ledger.days
            elif not np.array_equal(days, ledger.days):
                return "ledgers cover other days"

            of_cards.append(_TERMS[metric](ledger))

        rows.append(of_cards[0] - of_cards[1])

    terms = np.mean(rows, axis=0)
    # The same number of lags as for the intervals of a single episode (Lazarus, Lewis, Stock and
    # Watson 2018)
    return stats.newey_west_mean(terms, int(1.3 * math.sqrt(len(terms)))).se


def _ledger_problem(ledger: Ledger) -> str:
    if (ledger.nav <= 0).any():
        return "a NAV is not positive"
    if len(ledger.returns) < stats.MIN_DAYS:
        return f"fewer than {stats.MIN_DAYS} days"

    return ""


def _recorded_error(entrant: EntrantCard, metric: str, cells: Sequence[Cell]) -> float | str:
    """Return the standard error of one card's figure, as recorded on the card, or the reason why
    the standard error is missing. All seeds trade the same days, so the standard error of the mean
    over seeds is assumed to equal the standard error for one seed.
    """
    episodes = entrant.episodes()
    errors = []
    for cell in cells:
        error = _card_error(episodes[cell].metrics[metric])
        if error is None:
            return f"{entrant.label}: no error of {metric} is on its card"

        errors.append(error)

    return stats.mean(errors)


def _card_error(figure: EpisodeMetric) -> float | None:
    """Return the standard error of a figure, derived from the standard error of the mean daily
    value in its detail, or from its interval.
    """
    daily: Any = figure.detail.get("daily") if isinstance(figure.detail, Mapping) else None
    if isinstance(daily, Mapping):
        error = daily.get("se")
        return figure.n * float(error) if isinstance(error, int | float) else None

    spread = figure.interval
    if spread is UNSET or spread.low is None or spread.high is None or spread.level is UNSET:
        return None

    return (spread.high - spread.low) / (2.0 * float(ndtri((1.0 + spread.level) / 2.0)))


# ---- cells


def source_of(figures: Sequence[WindowFigure]) -> Source | str:
    """Return the source from which all cells can have a variance, or the reason why a cell has
    none. Days are preferred to seeds: seeds only show the randomness of decoding, whereas days also
    show the randomness of the market.
    """
    lacking = [figure for figure in figures if isinstance(figure.by_days, str)]
    if not lacking:
        source: Source = "days"
    elif all(figure.by_seeds is not None for figure in figures):
        source = "seeds"
    else:
        alone = next((one for one in lacking if one.by_seeds is None), lacking[0])
        return f"{alone.name} has no variance: {alone.by_days}, and it has one seed"

    for figure in figures:
        if _error(figure, source) <= 0:
            return f"{figure.name} has no variance: its figure is the same on all its {source}"

    return source


def _error(figure: WindowFigure, source: Source) -> float:
    """Return the standard error for a window. With days as source, it is at least the standard
    error from seeds. If a seed's run makes a choice and keeps it throughout a window, the resulting
    shift can't be seen on any single day.
    """
    by_seeds = figure.by_seeds or 0.0
    if source == "seeds" or isinstance(figure.by_days, str):
        return by_seeds
    return max(figure.by_days, by_seeds)


def independent_cells(figures: Sequence[WindowFigure], source: Source) -> list[CellFigure]:
    """Combine windows that share days at the same venue. A cell is the mean of such windows. Errors
    from days are correlated according to the days that two windows share. Errors from seeds are
    independent.
    """
    correlation = shared_correlation(figures)
    blocks = stats.blocks_of(correlation)
    cells = []
    for block in dict.fromkeys(blocks.tolist()):
        members = np.flatnonzero(blocks == block).tolist()
        windows = [figures[index] for index in members]
        errors = np.array([_error(window, source) for window in windows])
        together = np.eye(len(members))
        if source == "days":
            together = correlation[np.ix_(members, members)]

        variance = float(errors @ together @ errors) / len(windows) ** 2
        value = stats.mean(window.value for window in windows)
        # True figures are correlated according to the days that their windows share.
        share = 1.0 / stats.effective_count(correlation[np.ix_(members, members)])
        cells.append(CellFigure(windows, value, variance, share))

    return cells


def shared_correlation(figures: Sequence[WindowFigure], at_one_venue: bool = True) -> Values:
    """Return the [n, n] correlation between windows, according to the weekdays that they share. The
    correlation is 0 for pairs without a common venue or, if `at_one_venue` is False, for pairs with
    a common venue.
    """
    correlation = stats.overlap_correlation([figure.span for figure in figures])
    for i, one in enumerate(figures):
        for j, other in enumerate(figures):
            shares = not one.venues.isdisjoint(other.venues)
            if i != j and shares != at_one_venue:
                correlation[i, j] = 0.0

    return correlation


def lengths_problem(figures: Sequence[WindowFigure]) -> str:
    """Return why the windows are too different in length to be combined; empty if they can be
    combined.
    """
    lengths = [(stats.shared_days(figure.span, figure.span), figure) for figure in figures]
    shortest, short = min(lengths, key=lambda each: each[0])
    longest, long = max(lengths, key=lambda each: each[0])
    if longest <= stats.LENGTH_RATIO * max(shortest, 1):
        return ""

    return (
        f"{long.name} has {longest} weekdays, {short.name} {shortest}: figures over such "
        "different lengths are not comparable"
    )
