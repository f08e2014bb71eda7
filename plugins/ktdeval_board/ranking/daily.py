"""Facts of a card's daily series that the ranking needs: few numbers, so that thousands of cards fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ktdeval_board.documents import EpisodeSeries, Series

Cell = tuple[str, int]  #: Window and seed
Vector = npt.NDArray[np.float64]
Days = npt.NDArray[np.datetime64]
LoadSeries = Callable[[str], Series | None]  #: Card id -> its series; None where the board has none

NO_SERIES = "no daily series: the board has not executed the records of this card"


@dataclass(frozen=True)
class Daily:
    """Days of one episode."""

    days: Days  #: [n] trading days
    returns: Vector  #: [n] simple daily returns of the NAV; NaN where the NAV before or after is not positive
    selection: Vector  #: [n] daily selection returns, unlinked; NaN where they are not defined


@dataclass(frozen=True)
class SeriesFacts:
    """Facts of one card's series, by cell."""

    gross: Mapping[Cell, float | str] = field(default_factory=dict)  #: total return before fees, or why there is none
    beaten: Mapping[Cell, float | str] = field(default_factory=dict)  #: share of random traders beaten, or why there is none
    daily: Mapping[Cell, Daily] = field(default_factory=dict)


def facts_of(series: Series) -> SeriesFacts:
    """Return the facts of a series."""
    arrays: dict[tuple[str, ...], Days] = {}
    gross, beaten, daily = dict[Cell, float | str](), dict[Cell, float | str](), dict[Cell, Daily]()
    for episode in series.episodes:
        cell, envelope = (episode.window, episode.seed), episode.envelope
        is_positive = min(*episode.nav, *episode.gross_nav) > 0
        gross[cell] = episode.gross_nav[-1] / episode.gross_nav[0] - 1.0 if is_positive else "a level is not positive"
        beaten[cell] = envelope.rank if envelope is not None else episode.envelope_reason or "no order was filled"
        daily[cell] = _daily(episode, arrays)
    return SeriesFacts(gross, beaten, daily)


def _daily(episode: EpisodeSeries, arrays: dict[tuple[str, ...], Days]) -> Daily:
    days = tuple(episode.days)
    if days not in arrays:
        arrays[days] = np.array(days, dtype="datetime64[D]")
    nav = np.array(episode.nav)
    selection = np.full(len(days), math.nan) if episode.selection_daily is None else np.array(episode.selection_daily)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = nav[1:] / nav[:-1] - 1.0
    return Daily(arrays[days], np.where((nav[1:] > 0) & (nav[:-1] > 0), returns, math.nan), selection)


def mean_by_day(episodes: Sequence[Sequence[Daily]], attribute: str) -> Vector:
    """[days, agents] mean over seeds, and over windows that share a day: a day counts once however many windows hold it."""
    if not episodes or not episodes[0]:
        return np.empty((0, len(episodes)))
    days, index = np.unique(np.concatenate([each.days for each in episodes[0]]), return_inverse=True)
    index = index.reshape(-1)
    counts = np.bincount(index, minlength=len(days))
    columns = [np.concatenate([getattr(each, attribute) for each in of_agent]) for of_agent in episodes]
    return np.array([np.bincount(index, column, len(days)) / counts for column in columns]).T


def same_days(one: Sequence[Daily], other: Sequence[Daily]) -> bool:
    """Return whether two agents' episodes cover the same days."""
    return len(one) == len(other) and all(np.array_equal(left.days, right.days) for left, right in zip(one, other, strict=True))
