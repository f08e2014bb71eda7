"""Inference of the units of volumes and amounts from the data."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ktdeval.market import BoolArray, FloatArray
from ktdeval_raw_markets.sources.raw_tables import BarTable

#: factor by which an average price may lie outside low and high, since sources round amounts and
#: prices
PRICE_SLACK = 1.01
_SINGLE = 1.3e-7  # relative noise of a volume divided by a single-precision factor
MOSTLY_WHOLE = 0.7  #: minimum fraction of whole volumes for volumes that may be share counts
_WHOLE = 0.95  # minimum fraction of whole volumes for volumes that are share counts


def in_wholes(volume: FloatArray, unit: float = 1.0) -> tuple[BoolArray, BoolArray]:
    """Return which volumes are small enough for single precision to reveal whether they are
    multiples of `unit` shares, and which of these are multiples. Shape: [rows].
    """
    telling = (volume > 0) & (volume * _SINGLE < 0.2 * unit)
    small = np.where(telling, volume, 0.0)
    return telling, telling & (
        np.abs(small - np.round(small / unit) * unit) <= small * _SINGLE + 1e-3
    )


def _whole_part(volume: FloatArray, unit: float) -> float:
    telling, whole = in_wholes(volume, unit)
    return float(whole.sum() / telling.sum()) if telling.any() else float("nan")


def stored_volume(volume: FloatArray, factor: FloatArray) -> Literal["raw", "divided"] | None:
    """Return whether volumes are raw or divided by the factor. The interpretation under which they
    are whole shares, or whole lots of 100, is accepted; None if the data don't reveal it.

    Markets whose factor is always 1 are raw. Shapes: [rows].
    """
    moved = (factor > 0) & (factor != 1) & (volume > 0)
    if not moved.any():
        return "raw"

    for unit in (1.0, 100.0):
        raw = _whole_part(volume[moved], unit)
        divided = _whole_part((volume * factor)[moved], unit)
        if raw > _WHOLE and not divided > MOSTLY_WHOLE:
            return "raw"
        if divided > _WHOLE and not raw > MOSTLY_WHOLE:
            return "divided"

    return None


def average_price(table: BarTable) -> FloatArray:
    """Return amount / volume in currency units per share; NaN or infinite where either is missing
    or zero. Shape: [rows].
    """
    return np.asarray(table["amount"] / table["volume"])
