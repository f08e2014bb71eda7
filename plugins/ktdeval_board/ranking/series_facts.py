"""What the ranking needs of a card's daily series: few numbers of a large document, so that thousands of cards fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ktdeval.api import CardError, JsonValue

Cell = tuple[str, int]
"""Window and seed."""
Vector = npt.NDArray[np.float64]
Days = npt.NDArray[np.datetime64]
LoadSeries = Callable[[str], JsonValue | None]
"""Card id -> its series document; None where the board has none."""

NO_SERIES = "no daily series: the board has not executed the records of this card"


@dataclass(frozen=True)
class Daily:
    """Days of one episode.

    Attributes:
        days: [n] trading days.
        returns: [n] simple daily returns of the NAV; not finite where a NAV is not positive.
        selection: [n] daily selection returns, unlinked; NaN where they are not defined.
    """

    days: Days
    returns: Vector
    selection: Vector


@dataclass(frozen=True)
class SeriesFacts:
    """One card's series.

    Attributes:
        gross: total return before fees, by cell.
        beaten: share of random traders beaten, or the reason why there is none, by cell.
        daily: days, by cell.
    """

    gross: Mapping[Cell, float] = field(default_factory=dict)
    beaten: Mapping[Cell, float | str] = field(default_factory=dict)
    daily: Mapping[Cell, Daily] = field(default_factory=dict)


def read_series(document: JsonValue, card_id: str) -> SeriesFacts:
    """The facts of a series document.

    Raises:
        CardError: it is the series of another card, or not in the form that `check` writes.
    """
    try:
        if document["card"] != card_id:
            raise CardError(f"series of card {card_id}: the document is of another card; run `ktdeval leaderboard check --all`")
        known: dict[tuple[str, ...], Days] = {}
        cells = {(str(episode["window"]), int(episode["seed"])): episode for episode in document["episodes"]}
        return SeriesFacts(
            {cell: float(episode["gross_nav"][-1]) / float(episode["gross_nav"][0]) - 1.0 for cell, episode in cells.items()},
            {cell: _beaten(episode) for cell, episode in cells.items()},
            {cell: _daily(episode, known) for cell, episode in cells.items()},
        )
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CardError(
            f"series of card {card_id}: not in the form that `check` writes ({error!r}); run `ktdeval leaderboard check --all`"
        ) from error


def _beaten(episode: Mapping[str, JsonValue]) -> float | str:
    envelope = episode["envelope"]
    rank = None if envelope is None else envelope["rank"]
    if rank is None:
        return str(episode.get("envelope_reason") or "no order was filled")
    return float(rank)


def _daily(episode: Mapping[str, JsonValue], known: dict[tuple[str, ...], Days]) -> Daily:
    days = tuple(episode["days"])
    if days not in known:
        known[days] = np.array(days, dtype="datetime64[D]")
    nav = np.array(episode["nav"], dtype=np.float64)
    given = episode["selection_daily"]  # null where the episode has no attribution
    selection = np.array([math.nan] * len(days) if given is None else given, dtype=np.float64)
    if len(nav) != len(days) + 1 or len(selection) != len(days):
        raise ValueError("nav, days and selection_daily have different lengths")
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = nav[1:] / nav[:-1] - 1.0
    return Daily(known[days], np.where(nav[1:] > 0, returns, math.nan), selection)
