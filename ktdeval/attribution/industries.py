"""Industries of each day's cross-section: small ones pooled, and all taken out of returns and styles before the regression.

As in Barra's models, industry returns g are identified by a constraint, so that the intercept is the market of the regression:

    minimise  sum_i w_i (r_i - f_0 - X_i' f - g_ind(i))^2   subject to   sum_i w_i g_ind(i) = 0

(Menchero, Orr and Wang, "The Barra US Equity Model (USE4)", 2011, weigh the constraint by capitalisation; a snapshot has none,
so here the regression's weights do). By Frisch, Waugh and Lovell, f is the regression of what is left of returns and styles after
taking out their weighted industry means; `f_0 + g` of an industry is its mean return less its mean exposures times f.

An industry with too few names on a day would explain its names by themselves: their selection would be 0 whatever they did.
Industries with fewer than `MINIMUM[scheme]` names in the day's regression are one, `other`. Where these are too few themselves, the
smallest of the others (the first by name of equals) joins them. Names of an unknown industry are always of `other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshot import BoolArray, FloatArray

IndexArray = npt.NDArray[np.intp]
Scheme = Literal["strict", "paper", "coarse", "fine"]
"""Industries of a fit: `strict` pools small ones; `paper` (KTD-Fin eq. 1) has none; `coarse` and `fine` show what pooling does."""

MINIMUM: Mapping[Scheme, int] = {"strict": 5, "coarse": 15, "fine": 1}
"""Fewest names in a day's regression of an industry with a return of its own."""
OTHER, _UNKNOWN = "other", "unknown"


def pooled_industries(industries: tuple[str, ...], used: BoolArray, minimum: int) -> tuple[tuple[str, ...], IndexArray]:
    """I industry names, `other` the last, and the [D, N] columns of N assets on days on which [D, N] `used` are regressed."""
    known = sorted(set(industries) - {_UNKNOWN, OTHER})
    columns = {name: place for place, name in enumerate(known)}
    column = np.array([columns.get(name, len(known)) for name in industries], dtype=np.intp)
    count = used.astype(np.float64) @ (column[:, None] == np.arange(len(known) + 1))
    pooled = count < minimum
    pooled[:, -1] = True
    size = np.where(pooled, count, 0.0).sum(axis=1)
    short = np.flatnonzero((size > 0) & (size < minimum) & ~pooled.all(axis=1))
    pooled[short, np.where(pooled, np.inf, count)[short].argmin(axis=1)] = True
    return (*known, OTHER), np.where(pooled[:, column], len(known), column)


def industry_means(values: FloatArray, weights: FloatArray, column: IndexArray, count: int) -> tuple[FloatArray, FloatArray]:
    """[D, K, I] weighted means of [D, K, N] values over the names of each of `count` industries, 0 for one without names, and the
    [D, I] weights of the industries.
    """
    days = len(values)
    cells = (np.arange(days)[:, None] * count + column).ravel()
    total = np.bincount(cells, weights.ravel(), days * count).astype(np.float64)
    share = weights / np.where(total > 0.0, total, 1.0)[cells].reshape(weights.shape)
    means = np.empty((days, values.shape[1], count))
    for place in range(values.shape[1]):
        means[:, place] = np.bincount(cells, (share * values[:, place]).ravel(), days * count).reshape(days, count)
    return means, total.reshape(days, count)


def of_names(figures: FloatArray, column: IndexArray) -> FloatArray:
    """[D, K, N] figure of each name's industry, from [D, K, I]."""
    return np.take_along_axis(figures, column[:, None, :], axis=2)
