"""Facts from a card's daily series that the ranking needs, kept so small that those of thousands of
cards fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ktdeval.cards import TradingEpisode
from ktdeval_board.document_types import EpisodeSeries, Series

Cell = tuple[str, int]  #: Window and seed
Vector = npt.NDArray[np.float64]
Days = npt.NDArray[np.datetime64]
#: Maps a card id to the card's series; None if the board lacks it
LoadSeries = Callable[[str], Series | None]

NO_SERIES = "no daily series: the board has not executed this card's records"


@dataclass(frozen=True)
class EpisodeDays:
    """Daily data of one episode."""

    days: Days  #: [n] trading days
    #: [n] simple daily returns of the NAV; NaN where the NAV before or after is not positive
    returns: Vector
    selection: Vector  #: [n] daily selection returns, not linked; NaN where undefined
    benchmark: Vector  #: [n] simple daily returns of the benchmark; NaN without a benchmark


@dataclass(frozen=True)
class SeriesFacts:
    """Facts from one card's series, keyed by cell."""

    #: total return before fees, or the reason why it is undefined
    gross: Mapping[Cell, float | str] = field(default_factory=dict)
    #: fraction of random traders beaten, or the reason why it is undefined
    beaten: Mapping[Cell, float | str] = field(default_factory=dict)
    daily: Mapping[Cell, EpisodeDays] = field(default_factory=dict)


def facts_of(series: Series) -> SeriesFacts:
    """Return the facts of a series."""
    arrays: dict[tuple[str, ...], Days] = {}
    gross = dict[Cell, float | str]()
    beaten = dict[Cell, float | str]()
    daily = dict[Cell, EpisodeDays]()

    for episode in series.episodes:
        cell = (episode.window, episode.seed)
        envelope = episode.envelope
        if min(*episode.nav, *episode.gross_nav) > 0:
            gross[cell] = episode.gross_nav[-1] / episode.gross_nav[0] - 1.0
        else:
            gross[cell] = "a level is not positive"

        if envelope is not None:
            beaten[cell] = envelope.rank
        else:
            beaten[cell] = episode.envelope_reason or "no order was filled"

        daily[cell] = _daily(episode, arrays)

    return SeriesFacts(gross, beaten, daily)


def _daily(episode: EpisodeSeries, arrays: dict[tuple[str, ...], Days]) -> EpisodeDays:
    # Episodes of the same window share a single array of days.
    days = tuple(episode.days)
    if days not in arrays:
        arrays[days] = np.array(days, dtype="datetime64[D]")

    selection = np.full(len(days), math.nan)
    if episode.selection_daily is not None:
        selection = np.array(episode.selection_daily)

    benchmark = np.full(len(days), math.nan)
    if episode.benchmark is not None:
        benchmark = _returns(episode.benchmark)

    return EpisodeDays(arrays[days], _returns(episode.nav), selection, benchmark)


def _returns(levels: Sequence[float]) -> Vector:
    """Return simple returns; NaN where the level before or after is not positive."""
    level = np.array(levels)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = level[1:] / level[:-1] - 1.0

    is_positive = (level[1:] > 0) & (level[:-1] > 0)
    return np.where(is_positive, returns, math.nan)


def figures_by_cell(episodes: Iterable[TradingEpisode], metric: str) -> dict[Cell, float]:
    """Return a metric's defined figures, keyed by window and seed."""
    figures = {}
    for episode in episodes:
        figure = episode.metrics.get(metric)
        if figure is not None and figure.value is not None:
            figures[episode.window, episode.seed] = figure.value

    return figures


def mean_by_day(episodes: Sequence[Sequence[EpisodeDays]], attribute: str) -> Vector:
    """Return the [days, agents] means over seeds. Windows that share a day are averaged too, so
    that each day counts once.
    """
    if not episodes or not episodes[0]:
        return np.empty((0, len(episodes)))

    # All agents have the same days as the first one.
    dates = np.concatenate([each.days for each in episodes[0]])
    days, index = np.unique(dates, return_inverse=True)
    index = index.reshape(-1)
    counts = np.bincount(index, minlength=len(days))
    means = []

    for of_agent in episodes:
        column = np.concatenate([getattr(each, attribute) for each in of_agent])
        means.append(np.bincount(index, column, len(days)) / counts)

    return np.array(means).T


def same_days(one: Sequence[EpisodeDays], other: Sequence[EpisodeDays]) -> bool:
    """Return whether the episodes of two agents cover the same days."""
    if len(one) != len(other):
        return False

    return all(
        np.array_equal(left.days, right.days) for left, right in zip(one, other, strict=True)
    )
