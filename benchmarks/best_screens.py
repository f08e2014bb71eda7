"""Which screens of a day show the labels that are worth most to whoever knows the day.

The ranks of a screen follow from the history. So whoever knows the day computes beforehand which
stocks each screen would show, and asks for those that together show the most wanted ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from known_history import DIMS, KnownHistory

SHOWN = 30  #: rows of a screen
FACTORS = 6  #: of a screen, at most
SOUGHT = 40  #: stocks that screens are made for


def best_screens(
    history: KnownHistory, row: int, wanted: np.ndarray, most: int
) -> list[tuple[str, ...]]:
    """At most `most` screens of a day, each the names of its factors, that show what is wanted most.
    `wanted`: [N] worth of knowing a stock's label; 0 for one that is known.
    """
    pool = history.screened(row)
    ranks = _percentiles(history, row, pool)
    screens = _screens_for(ranks, wanted)
    shown = np.stack([_shown(ranks, screen) for screen in screens])

    left = wanted.copy()
    chosen: list[tuple[str, ...]] = []
    while len(chosen) < most:
        gains = shown @ left
        best = int(gains.argmax())
        if gains[best] <= 0.0:
            break

        left[shown[best]] = 0.0
        chosen.append(tuple(_name(column) for column in screens[best]))

    return chosen


def _percentiles(history: KnownHistory, row: int, pool: np.ndarray) -> np.ndarray:
    """[2 D, N] percentile ranks of the pool by each dim, then by each dim's negative; NaN outside."""
    ranks = np.full((2 * len(DIMS), len(pool)), np.nan)
    for number, name in enumerate(DIMS):
        figure = history.figure(name)
        if figure is None:
            continue

        values = figure[row]
        ranked = np.flatnonzero(pool & np.isfinite(values))
        order = values[ranked].argsort().argsort()
        ranks[number, ranked] = order / max(1, len(ranked) - 1)
        ranks[number + len(DIMS), ranked] = 1.0 - ranks[number, ranked]

    return ranks


def _screens_for(ranks: np.ndarray, wanted: np.ndarray) -> Sequence[tuple[int, ...]]:
    """Each factor alone; and for each stock that is sought, those by which it ranks best."""
    screens = {(column,) for column in range(len(ranks))}
    for asset in np.argsort(-wanted)[:SOUGHT].tolist():
        own = np.nan_to_num(ranks[:, asset], nan=-1.0)
        best = np.argsort(-own)[:FACTORS].tolist()
        for count in range(1, FACTORS + 1):
            screens.add(tuple(sorted(best[:count])))

    return sorted(screens)


def _shown(ranks: np.ndarray, screen: tuple[int, ...]) -> np.ndarray:
    """[N] whether a screen shows a stock."""
    score = ranks[list(screen)].mean(axis=0)
    found = np.zeros(len(score), dtype=bool)
    best = np.argsort(-np.nan_to_num(score, nan=-1.0), kind="stable")[:SHOWN]
    found[best] = np.isfinite(score[best])
    return found


def _name(column: int) -> str:
    if column < len(DIMS):
        return DIMS[column]
    return f"-{DIMS[column - len(DIMS)]}"
