"""Regressors for each day's cross-section: standardised exposures known at the previous close,
weights, notes on missing data, and a screen for collinear factors.

The VIF of factor k is 1 / (1 - R^2), from its regression on an intercept and the other factors. The
regression is pooled over all name-days of the window; since exposures are standardised day by day,
pooling does not mix levels. The screen drops the factor with the largest VIF until none exceeds the
limit. Source: KTD-Fin §4.5 (screened on a pre-evaluation calibration window); the limit of 10 is
ktdeval's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, check_rows, factor_panel
from ktdeval.attribution.style_factors import MONTH, standardise, trailing_count, trailing_sum
from ktdeval.errors import DataError
from ktdeval.market.rules.own_sessions import session_groups
from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray, MarketSnapshot
from ktdeval.values.disk.files import csv_rows
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.config_options import near_matches

NoteKind = Literal[
    "missing_exposure",
    "no_exposures",
    "default_weight",
    "equal_weights",
    "constant_factor",
    "collinear_factor",
    "too_few_names",
    "no_names",
    "held_outside_index",
    "held_without_exposures",
    "held_without_return",
    "market_model",
    "beta_assumed",
]

NOTE_MEANINGS: dict[str, str] = {
    row["kind"]: row["meaning"] for row in csv_rows(Path(__file__).with_name("notes.csv"))
}


@dataclass(frozen=True, slots=True)
class ExposureNote:
    """One kind of missing data."""

    kind: NoteKind  #: a key of `NOTE_MEANINGS`
    subject: str  #: the factor or industry affected; empty if all are affected
    count: int  #: number of entries (name-days or days, depending on the kind)
    days: int  #: number of days affected

    @property
    def meaning(self) -> str:
        """Description of what was counted."""
        return NOTE_MEANINGS[self.kind]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the note with its meaning."""
        return {**asdict(self), "meaning": self.meaning}


def daily_notes(
    kind: NoteKind,
    counts: npt.NDArray[np.intp] | npt.NDArray[np.bool_],
    subjects: tuple[str, ...] = ("",),
) -> list[ExposureNote]:
    """Return notes of one kind, one per subject with a non-zero count. `counts`: [D] or
    [D, subjects].
    """
    table = counts.reshape(len(counts), -1)
    totals = table.sum(axis=0)
    days = np.count_nonzero(table, axis=0)

    return [
        ExposureNote(kind, subject, int(totals[index]), int(days[index]))
        for index, subject in enumerate(subjects)
        if days[index]
    ]


_BLOCK = 128  #: days standardised at a time; limits the memory needed in addition to the result


@dataclass(frozen=True)
class Exposures:
    """Exposures for D return days. The exposures for the returns in row `rows[d]` are known at the
    previous close.
    """

    rows: range  #: snapshot rows whose returns the exposures explain
    names: tuple[str, ...]  #: the K factors
    #: [D, 1 + K, N] regression columns: ones, then exposures in standard deviations of the
    #: investable names, winsorised at 1 % and 99 %; 0 where undefined
    design: FloatArray
    #: [D, N] regression weights: square root of the mean amount over the 20 preceding days, divided
    #: by the day's median
    weights: FloatArray
    investable: BoolArray  #: [D, N] index members at the previous close
    #: [D, K, N] whether an exposure has a value; exposures without a value are 0 in `design`
    known: BoolArray
    notes: tuple[ExposureNote, ...]  #: notes on undefined exposures and weights of investable names

    @cached_property
    def defined(self) -> BoolArray:
        """True if a name has at least one known exposure. Shape: [D, N]."""
        return np.asarray(self.known.any(axis=1))

    @cached_property
    def complete(self) -> BoolArray:
        """True if all exposures of a name are known. Shape: [D, N]."""
        return np.asarray(self.known.all(axis=1))

    @property
    def z(self) -> FloatArray:
        """Exposures as a view of `design`: [D, N, K]."""
        return self.design[:, 1:].transpose(0, 2, 1)


def exposures(
    snapshot: MarketSnapshot, rows: range, factors: tuple[str, ...] | None = None
) -> Exposures:
    """Return exposures and regression weights for the returns of `rows`, for the named factors or,
    by default, all nine.

    Assets outside the index are standardised with the index's mean and deviation. Raises DataError
    unless `rows` are consecutive and preceded by at least one day, and the factors are known and
    distinct.
    """
    check_rows(snapshot, rows, 1)
    names = FACTOR_NAMES if factors is None else factors
    columns = _factor_columns(names)
    design = np.ones((len(rows), 1 + len(names), len(snapshot.codes)))
    missing = np.zeros((len(rows), len(names)), dtype=np.intp)
    known = np.zeros((len(rows), len(names), len(snapshot.codes)), dtype=np.bool_)
    investable = snapshot.member[rows.start - 1 : rows.stop - 1]

    for start in range(0, len(rows), _BLOCK):
        days = slice(start, min(start + _BLOCK, len(rows)))
        values = factor_panel(
            snapshot, range(rows.start - 1 + days.start, rows.start - 1 + days.stop)
        )
        z = standardise(values.transpose(1, 0, 2)[:, columns], investable[days, None, :])
        known[days] = np.isfinite(z)
        unknown = ~known[days]
        missing[days] = np.count_nonzero(unknown & investable[days, None, :], axis=2)
        np.copyto(z, 0.0, where=unknown)
        design[days, 1:] = z

    weights, notes = _amount_weights(snapshot, rows, investable)
    all_notes = (*daily_notes("missing_exposure", missing, names), *notes)
    return Exposures(rows, names, design, weights, investable, known, all_notes)


def _factor_columns(names: tuple[str, ...]) -> list[int]:
    for index, name in enumerate(names):
        if name not in FACTOR_NAMES:
            raise DataError(
                f"unknown style factor {name!r}{near_matches(name, FACTOR_NAMES)}; known:"
                f" {', '.join(FACTOR_NAMES)}"
            )
        if name in names[:index]:
            raise DataError(f"style factor {name} is named twice")

    return [FACTOR_NAMES.index(name) for name in names]


def _amount_weights(
    snapshot: MarketSnapshot, rows: range, investable: BoolArray
) -> tuple[FloatArray, list[ExposureNote]]:
    """Return regression weights: the square root of the trailing mean amount, divided by the median
    over the investable names. A missing weight is replaced by the median. Shape: [D, N].
    """
    shape = investable.shape
    count = np.zeros(shape)
    total = np.zeros(shape)
    for group in session_groups(snapshot):
        # KTD-Fin §4.5: information strictly before the day
        before = group.sessions_before(rows)
        amount = group.of(snapshot.amount)[max(0, before[0] - MONTH) : before[-1]]
        unknown = np.full((max(0, MONTH - before[0]), amount.shape[1]), np.nan)
        amount = np.concatenate([unknown, amount])
        traded = amount > 0.0
        days = before - before[0]
        count[:, group.columns] = trailing_count(traded, MONTH)[days]
        total[:, group.columns] = trailing_sum(np.where(traded, amount, 0.0), MONTH)[days]

    weights = np.sqrt(total / np.maximum(count, 1.0))
    known = investable & (count > 0.0)
    median = _row_medians(weights, known)
    weights = np.where(count > 0.0, weights / median[:, None], 1.0)
    none: BoolArray = np.logical_and(investable.any(axis=1), ~known.any(axis=1))
    weights[none] = 1.0
    absent: BoolArray = investable & ~known & known.any(axis=1, keepdims=True)

    return weights, [
        *daily_notes("default_weight", absent.sum(axis=1, dtype=np.intp)),
        *daily_notes("equal_weights", none),
    ]


def _row_medians(values: FloatArray, used: BoolArray) -> FloatArray:
    """Return medians over the used entries of [D, N] values; 1 if no entry is used. Shape: [D]."""
    ordered = np.sort(np.where(used, values, np.inf), axis=1)
    count = np.count_nonzero(used, axis=1)
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(count // 2, values.shape[1] - 1)
    days = np.arange(len(values))

    return np.where(count > 0, 0.5 * (ordered[days, low] + ordered[days, high]), 1.0)


VIF_LIMIT = 10.0
_SINGULAR = 1e-12


@dataclass(frozen=True, slots=True)
class VifScreen:
    """Outcome of the VIF screen."""

    kept: tuple[str, ...]  #: factors to use, in their original order
    #: factor -> VIF among all factors; None if not finite (constant, or fully explained by the
    #: others)
    vif: dict[str, float | None]
    #: factors dropped, in the order of removal, with the VIF at that point (None if not finite) and
    #: the reason
    dropped: tuple[tuple[str, float | None, str], ...]
    final: dict[str, float | None]  #: factor -> VIF among the kept factors
    name_days: int  #: number of rows of the pooled table


def variance_inflation(table: FloatArray) -> FloatArray:
    """Return the variance inflation factor of each column of [n, K] values. It is infinite if the
    other columns explain a column fully, and NaN for constant columns, which are excluded. Shape:
    [K]. Raises DataError if there are too few rows or a value is not finite.
    """
    rows, columns = table.shape
    if rows <= columns + 1 or not np.isfinite(table).all():
        raise DataError(
            f"variance inflation: needs finite values and more than {columns + 1} rows, got {rows}"
            f" × {columns}"
        )

    centred = table - table.mean(axis=0)
    norm = np.sqrt((centred * centred).sum(axis=0))
    varies = norm > _SINGULAR * np.sqrt((table * table).sum(axis=0))
    result = np.full(columns, np.nan)
    # All regressions use columns of the same table. Its triangular factor has columns of the same
    # lengths and angles, but only as many rows as columns.
    unit: FloatArray = np.asarray(np.linalg.qr(centred[:, varies] / norm[varies], mode="r"))

    for index, column in enumerate(np.flatnonzero(varies)):
        others = np.delete(unit, index, axis=1)
        own = unit[:, index]
        coefficients = np.linalg.lstsq(others, own, rcond=_SINGULAR)[0]
        residuals = own - others @ coefficients
        unexplained = float(residuals @ residuals)
        result[column] = np.inf if unexplained < _SINGULAR else 1.0 / unexplained

    return result


def vif_screen(
    snapshot: MarketSnapshot, rows: range, evaluation_row: int, limit: float = VIF_LIMIT
) -> VifScreen:
    """Screen the nine factors on the return days `rows`, with exposures from the previous days. All
    days must be before `evaluation_row`. Raises DataError if the window overlaps the evaluation, is
    not in the snapshot or has too few names.
    """
    # KTD-Fin §4.5: screened on a pre-evaluation calibration window
    if rows.stop > evaluation_row:
        raise DataError(
            f"VIF screen: the calibration window ends on row {rows.stop - 1}, not before the"
            f" evaluation at {evaluation_row}"
        )

    exposed = exposures(snapshot, rows)
    table = exposed.z[exposed.investable & exposed.defined]
    names = list(exposed.names)
    everything = variance_inflation(table)
    dropped: list[tuple[str, float | None, str]] = []
    current = everything

    # One factor at a time, because dropping a factor reduces the VIFs of the others.
    worst = _worst(current, limit)
    while worst is not None:
        value = float(current[worst])
        if np.isnan(value):
            reason = "does not vary"
        elif np.isinf(value):
            reason = "explained whole by the others"
        else:
            reason = f"VIF above {limit:g}"

        dropped.append((names.pop(worst), _finite(value), reason))
        table = np.delete(table, worst, axis=1)
        current = variance_inflation(table)
        worst = _worst(current, limit)

    return VifScreen(
        kept=tuple(names),
        vif={name: _finite(value) for name, value in zip(exposed.names, everything, strict=True)},
        dropped=tuple(dropped),
        final={name: _finite(value) for name, value in zip(names, current, strict=True)},
        name_days=len(table),
    )


def _worst(values: FloatArray, limit: float) -> int | None:
    """Return the index of the factor to drop, or None. Constant factors are dropped first, then the
    factor with the largest VIF; of several with the same VIF, the last one.
    """
    if len(values) == 0:
        return None
    if np.isnan(values).any():
        return int(np.flatnonzero(np.isnan(values))[-1])

    worst = len(values) - 1 - int(np.argmax(values[::-1]))
    if values[worst] > limit:
        return worst
    return None


def _finite(value: float) -> float | None:
    """Return a value, or None if it is infinite or undefined and thus can't be expressed
    in JSON.
    """
    if np.isfinite(value):
        return float(value)
    return None
