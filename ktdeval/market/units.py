"""Units of volumes and amounts, inferred from the numbers themselves."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from ktdeval.jsonio import csv_rows
from ktdeval.market.raw import BarTable, IntArray, RawMarket
from ktdeval.market.snapshot import BoolArray, FloatArray

PRICE_SLACK = 1.01  #: An average price may lie this far outside low and high: sources round amounts and prices
_SINGLE = 1.3e-7  # relative noise of a volume that was divided by a factor in single precision
MOSTLY_WHOLE = 0.7  #: Less than this part of volumes in whole shares: they are no counts of shares
_WHOLE = 0.95  # more than this part is whole where volumes are counts of shares
_MOST, _PART_OF_A_MARKET = 0.5, 0.01  # bars of a code or day, and of a market: fewer are odd rows
_WORDS = {row["scale"]: row["words"] for row in csv_rows(Path(__file__).with_name("units.csv"))}
"""Amount / volume over the price, a number or a power of the factor -> the likely unit."""


def in_wholes(volume: FloatArray, unit: float = 1.0) -> tuple[BoolArray, BoolArray]:
    """[rows] volumes small enough for single precision to tell whether they are whole numbers of `unit` shares, and which are."""
    telling = (volume > 0) & (volume * _SINGLE < 0.2 * unit)
    small = np.where(telling, volume, 0.0)
    return telling, telling & (np.abs(small - np.round(small / unit) * unit) <= small * _SINGLE + 1e-3)


def _whole_part(volume: FloatArray, unit: float) -> float:
    telling, whole = in_wholes(volume, unit)
    return float(whole.sum() / telling.sum()) if telling.any() else float("nan")


def stored_volume(volume: FloatArray, factor: FloatArray) -> Literal["raw", "divided"] | None:
    """Return by whole shares, or whole lots of 100, whether volumes are raw or divided by the factor; None: that does not show.

    Markets whose factor is 1 throughout are raw. Shapes [rows].
    """
    moved = (factor > 0) & (factor != 1) & (volume > 0)
    if not moved.any():
        return "raw"
    for unit in (1.0, 100.0):
        raw, divided = _whole_part(volume[moved], unit), _whole_part((volume * factor)[moved], unit)
        if raw > _WHOLE and not divided > MOSTLY_WHOLE:
            return "raw"
        if divided > _WHOLE and not raw > MOSTLY_WHOLE:
            return "divided"
    return None


def average_price(table: BarTable) -> FloatArray:
    """[rows] amount / volume in units of currency a share; NaN or infinite where one of them is missing or zero."""
    return np.asarray(table["amount"] / table["volume"])


def outside_bar(table: BarTable, average: FloatArray) -> BoolArray:
    """[rows] a day with trade whose average price lies below its low or above its high."""
    below, above = average < table["low"] / PRICE_SLACK, average > table["high"] * PRICE_SLACK
    return np.asarray(table.traded & (below | above))


def wrong_units(raw: RawMarket) -> tuple[BoolArray, str] | None:
    """Bars ([rows]) whose amount, volume and prices fit after one constant of units or the factor, and not as they are, with the
    likely unit in words, or most bars, where no constant makes them fit. None where those are only a few.
    """
    table = raw.table
    known = table.judged(lambda part: part.traded & np.isfinite(average_price(part)) & (average_price(part) > 0))
    off = known & table.judged(lambda part: outside_bar(part, average_price(part)))
    best: tuple[int, BoolArray, str] = (0, off, "")
    for key, words in _WORDS.items() if off.any() else ():
        fits = off & table.judged(partial(_fits, key=key))
        # Without a factor prices may be adjusted, and those of single codes happen to be some ten times what was paid.
        fits &= _mostly(fits, known, table.column) | _mostly(fits, known, table.row) | (not raw.has_factor)
        if fits.sum() > max(best[0], (_PART_OF_A_MARKET if raw.has_factor else _MOST) * known.sum()):
            times = "the factor" if key == "factor" else key
            best = (int(fits.sum()), fits, f"{times} times the price: {words}")
    if not best[0] and raw.has_factor and off.sum() > _MOST * known.sum():
        return off, "not the price, nor a known number of times it: columns or units that don't belong together"
    return (best[1], best[2]) if best[0] else None


def _fits(table: BarTable, key: str) -> BoolArray:
    """[rows] an average price that is inside its bar after a scale: a number, the factor or its inverse."""
    factor = np.where((table["factor"] > 0) & np.isfinite(table["factor"]), table["factor"], np.nan)
    scale = factor if key == "factor" else 1 / factor if key == "1 / factor" else np.float64(key)
    return np.asarray(np.isfinite(scale) & ~outside_bar(table, average_price(table) / scale))


def _mostly(fits: BoolArray, known: BoolArray, group: IntArray) -> BoolArray:
    """[rows] whether most known bars of a row's group, a code or a day, fit."""
    count, fitting = (np.bincount(group[mask], minlength=group.max() + 1) for mask in (known, fits))
    return np.asarray((fitting > _MOST * count)[group])
