"""Which style factors say the same: variance inflation on a calibration window that ends before the evaluation.

VIF of factor k is 1 / (1 - R^2) of its regression on an intercept and the others, over all name-days of the window pooled
(exposures are standardised day by day, so pooling mixes no levels). The screen drops the factor with the largest VIF until none
exceeds the limit.

Source: KTD-Fin §4.5 (screened on a pre-evaluation calibration window by variance inflation factor); the limit of 10 is ktdeval's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.attribution.exposures import exposures
from ktdeval.errors import DataError
from ktdeval.market.snapshot import FloatArray, MarketSnapshot

VIF_LIMIT = 10.0
_SINGULAR = 1e-12


@dataclass(frozen=True, slots=True)
class Screen:
    """Outcome of a screen.

    Attributes:
        kept: factors to use, in order.
        vif: factor -> VIF among all factors; None where it is not finite (constant, or explained whole by the others).
        dropped: factors taken out, in the order taken out, with the VIF at that point (None where not finite) and the reason.
        final: factor -> VIF among those kept.
        name_days: rows of the pooled table.
    """

    kept: tuple[str, ...]
    vif: dict[str, float | None]
    dropped: tuple[tuple[str, float | None, str], ...]
    final: dict[str, float | None]
    name_days: int


def variance_inflation(table: FloatArray) -> FloatArray:
    """[K] variance inflation factors of the columns of [n, K], against an intercept and each other.

    Returns:
        At least 1; infinite for columns that the others explain whole; NaN for constant ones, which take no part.

    Raises:
        DataError: no more rows than columns, or a value that is not finite.
    """
    rows, columns = table.shape
    if rows <= columns + 1 or not np.isfinite(table).all():
        raise DataError(f"variance inflation: needs finite values and more than {columns + 1} rows, got {rows} × {columns}")
    centred = table - table.mean(axis=0)
    norm = np.sqrt((centred * centred).sum(axis=0))
    varies = norm > _SINGULAR * np.sqrt((table * table).sum(axis=0))
    result = np.full(columns, np.nan)
    for column in np.flatnonzero(varies):
        others = np.flatnonzero(varies & (np.arange(columns) != column))
        if len(others) == 0:
            result[column] = 1.0
            continue
        target = centred[:, column] / norm[column]
        solution = np.linalg.lstsq(centred[:, others] / norm[others], target, rcond=_SINGULAR)[0]
        unexplained = float(((target - centred[:, others] / norm[others] @ solution) ** 2).sum())
        result[column] = np.inf if unexplained < _SINGULAR else 1.0 / unexplained
    return result


def vif_screen(snapshot: MarketSnapshot, rows: range, evaluation_row: int, limit: float = VIF_LIMIT) -> Screen:
    """Screen the nine factors on a calibration window.

    Args:
        snapshot: the market.
        rows: return days of the window; their exposures are of the days before. All lie before `evaluation_row`.
        evaluation_row: first row of the evaluation, of which nothing is used.
        limit: largest VIF allowed.

    Raises:
        DataError: the window reaches into the evaluation, is not in the snapshot, or holds too few names.
    """
    if rows.stop > evaluation_row:
        raise DataError(
            f"VIF screen: the calibration window ends on row {rows.stop - 1}, not before the evaluation at {evaluation_row}"
        )
    known = exposures(snapshot, rows)
    table = known.z[known.investable & known.defined]
    names = list(known.names)
    everything = variance_inflation(table)
    dropped: list[tuple[str, float | None, str]] = []
    current = everything
    while len(names) > 0 and (worst := _worst(current, limit)) is not None:
        value = float(current[worst])
        reason = (
            "does not vary" if np.isnan(value) else "explained whole by the others" if np.isinf(value) else f"VIF above {limit:g}"
        )
        dropped.append((names.pop(worst), _finite(value), reason))
        table = np.delete(table, worst, axis=1)
        current = variance_inflation(table)
    return Screen(
        kept=tuple(names),
        vif={name: _finite(value) for name, value in zip(known.names, everything, strict=True)},
        dropped=tuple(dropped),
        final={name: _finite(value) for name, value in zip(names, current, strict=True)},
        name_days=len(table),
    )


def _worst(values: FloatArray, limit: float) -> int | None:
    """Place of the factor to drop, or None: constant ones first, then the largest VIF, the later of equals."""
    if len(values) == 0:
        return None
    if np.isnan(values).any():
        return int(np.flatnonzero(np.isnan(values))[-1])
    worst = len(values) - 1 - int(np.argmax(values[::-1]))
    return worst if values[worst] > limit else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
