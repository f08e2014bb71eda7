"""What tie groups are made of: the days of the ranked entrants as one table.

Groups (`ktdeval.api.tie_groups`) go by mean daily returns and ranks by the median over episodes, so a group need not be a run of
ranks: it says that daily returns do not tell its members from the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ktdeval_board.ranking.series_facts import Cell, Daily

MOST_TESTED = 40
"""Entrants that take part, the best by rank: time and memory grow with the square of their number."""


def mean_by_day(episodes: Sequence[Sequence[Daily]], attribute: str) -> npt.NDArray[np.float64]:
    """[days, agents] mean over seeds, and over windows that share a day: a day counts once however many windows hold it.

    Args:
        episodes: of each agent, the same cells on the same days in the same order (`same_days`).
        attribute: `returns` or `selection`.
    """
    if not episodes or not episodes[0]:
        return np.empty((0, len(episodes)))
    days, place = np.unique(np.concatenate([each.days for each in episodes[0]]), return_inverse=True)
    place = place.reshape(-1)
    counts = np.bincount(place, minlength=len(days))
    columns = [np.concatenate([getattr(each, attribute) for each in of_agent]) for of_agent in episodes]
    table: npt.NDArray[np.float64] = np.array([np.bincount(place, column, len(days)) / counts for column in columns]).T
    return table


def same_days(one: Sequence[Daily], other: Sequence[Daily]) -> bool:
    """Whether two agents' episodes cover the same days."""
    return len(one) == len(other) and all(np.array_equal(left.days, right.days) for left, right in zip(one, other, strict=True))


def episodes_in(daily: Mapping[Cell, Daily], cells: Sequence[Cell]) -> list[Daily] | None:
    """The days of the given cells in order; None where one is missing."""
    return [daily[cell] for cell in cells] if all(cell in daily for cell in cells) else None
