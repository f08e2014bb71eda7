"""Regressors of each day's cross-section: standardised exposures known at the close of the day before, and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.attribution.factors import MONTH, standardise
from ktdeval.attribution.notes import Note, daily_notes
from ktdeval.attribution.panel import FACTOR_NAMES, check_rows, factor_panel
from ktdeval.attribution.rolling import trailing_count, trailing_sum
from ktdeval.errors import DataError
from ktdeval.fields import near_matches
from ktdeval.market.snapshot import BoolArray, FloatArray, MarketSnapshot

_BLOCK = 256
"""Days standardised at a time: bounds the memory beside the result."""


@dataclass(frozen=True, slots=True)
class Exposures:
    """Exposures of D return days; those of day `rows[d]` are known at the close of the day before.

    Attributes:
        rows: rows of the snapshot whose returns they explain.
        names: the K factors.
        design: [D, 1 + K, N] the regression's columns: ones, then the exposures in standard deviations of the investable names,
            winsorised at 1 % and 99 %; 0 where undefined.
        weights: [D, N] regression weights: square root of the mean amount of the 20 days before, over the day's median.
        investable: [D, N] index members at the close of the day before.
        defined: [D, N] names with at least one exposure.
        notes: undefined exposures and weights among the investable names.
    """

    rows: range
    names: tuple[str, ...]
    design: FloatArray
    weights: FloatArray
    investable: BoolArray
    defined: BoolArray
    notes: tuple[Note, ...]

    @property
    def z(self) -> FloatArray:
        """[D, N, K] exposures, a view of `design`."""
        return self.design[:, 1:].transpose(0, 2, 1)


def exposures(snapshot: MarketSnapshot, rows: range, factors: tuple[str, ...] | None = None) -> Exposures:
    """Exposures and regression weights for the returns of `rows`.

    Names outside the index keep exposures: they are scaled by the index's figures.

    Args:
        snapshot: the market.
        rows: consecutive rows, the first at least 1.
        factors: which of the nine, such as those that a VIF screen kept; None for all.

    Raises:
        DataError: `rows` are not consecutive rows with a day before them, or a factor is unknown or named twice.
    """
    check_rows(snapshot, rows, 1)
    names = FACTOR_NAMES if factors is None else factors
    places = _places(names)
    design = np.ones((len(rows), 1 + len(names), len(snapshot.codes)))
    missing = np.zeros((len(rows), len(names)), dtype=np.intp)
    defined = np.zeros((len(rows), len(snapshot.codes)), dtype=bool)
    investable = snapshot.member[rows.start - 1 : rows.stop - 1]
    for start in range(0, len(rows), _BLOCK):
        days = slice(start, min(start + _BLOCK, len(rows)))
        values = factor_panel(snapshot, range(rows.start - 1 + days.start, rows.start - 1 + days.stop)).transpose(1, 0, 2)[
            :, places
        ]
        z = standardise(values, investable[days, None, :])
        unknown = ~np.isfinite(z)
        missing[days] = np.count_nonzero(unknown & investable[days, None, :], axis=2)
        defined[days] = ~unknown.all(axis=1)
        np.copyto(z, 0.0, where=unknown)
        design[days, 1:] = z
    weights, notes = _weights(snapshot, rows, investable)
    return Exposures(rows, names, design, weights, investable, defined, (*daily_notes("missing_exposure", missing, names), *notes))


def _places(names: tuple[str, ...]) -> list[int]:
    for place, name in enumerate(names):
        if name not in FACTOR_NAMES:
            raise DataError(f"no style factor {name!r}{near_matches(name, FACTOR_NAMES)}; there are {', '.join(FACTOR_NAMES)}")
        if name in names[:place]:
            raise DataError(f"style factor {name} is named twice")
    return [FACTOR_NAMES.index(name) for name in names]


def _weights(snapshot: MarketSnapshot, rows: range, investable: BoolArray) -> tuple[FloatArray, list[Note]]:
    """[D, N] square root of the trailing mean amount, over the investable names' median, which stands in where there is none."""
    first = rows.start - MONTH
    amount = snapshot.amount[max(0, first) : rows.stop - 1]
    if first < 0:
        amount = np.concatenate([np.full((-first, amount.shape[1]), np.nan), amount])
    traded = amount > 0.0
    count = trailing_count(traded, MONTH)
    weights = np.sqrt(trailing_sum(np.where(traded, amount, 0.0), MONTH) / np.maximum(count, 1.0))
    known = investable & (count > 0.0)
    median = _row_medians(weights, known)
    weights = np.where(count > 0.0, weights / median[:, None], 1.0)
    none: BoolArray = np.logical_and(investable.any(axis=1), ~known.any(axis=1))
    weights[none] = 1.0
    absent: BoolArray = investable & ~known & known.any(axis=1, keepdims=True)
    return weights, [*daily_notes("default_weight", absent.sum(axis=1, dtype=np.intp)), *daily_notes("equal_weights", none)]


def _row_medians(values: FloatArray, used: BoolArray) -> FloatArray:
    """[D] medians of the used entries of [D, N]; 1 where none is used."""
    ordered = np.sort(np.where(used, values, np.inf), axis=1)
    count = np.count_nonzero(used, axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    days = np.arange(len(values))
    return np.where(count > 0, 0.5 * (ordered[days, low] + ordered[days, high]), 1.0)
