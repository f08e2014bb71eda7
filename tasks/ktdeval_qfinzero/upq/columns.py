"""From columns of numbers to the rows of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.data.rows import E4, Bars, FloatArray, IntArray
from ktdeval_qfinzero.moments import SECOND, moment_text

PRICE_DECIMALS = 6  #: Of adjusted prices and indicators; unadjusted prices have the four that are stored

_VOLUME_DECIMALS = 4

Column = Sequence[JsonValue]


def to_rows(columns: Mapping[str, Column]) -> list[dict[str, JsonValue]]:
    """One object for each row of the columns, which are equally long."""
    names = tuple(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def bar_value(bars: Bars, name: str, price: FloatArray | None = None, volume: FloatArray | None = None) -> Column:
    """[n] a field of bars: open, high, low, close, volume or transactions. `bars`: [n] bars; `name`: the field; `price`: [n] what
    prices are multiplied with; nothing where None; `volume`: [n] the same for volumes.
    """
    if name == "volume":
        return volumes(bars.volume, volume)
    return plain(bars.transactions) if name == "transactions" else prices(getattr(bars, f"{name}_e4"), price)


def prices(e4: IntArray, factor: FloatArray | None = None) -> Column:
    """[n] dollars."""
    return plain(e4 / E4) if factor is None else numbers(e4 / E4 * factor)


def volumes(volume: FloatArray, factor: FloatArray | None = None) -> Column:
    """[n] shares, contracts or coins; whole numbers where all of them are."""
    scaled = volume if factor is None else np.round(volume * factor, _VOLUME_DECIMALS)
    whole = scaled.astype(np.int64)
    return plain(whole if np.array_equal(whole, scaled) else scaled)


def numbers(values: FloatArray, decimals: int = PRICE_DECIMALS) -> Column:
    """[n] rounded numbers; None for NaN."""
    rounded = np.round(values, decimals) + 0.0  # no minus before a zero
    missing = np.isnan(values)
    if not missing.any():
        return plain(rounded)
    shown = rounded.astype(object)
    shown[missing] = None
    return plain(shown)


def plain(values: npt.NDArray[Any]) -> Column:
    """[n] the same as values of Python."""
    found: list[JsonValue] = values.tolist()
    return found


def days(start_ns: IntArray) -> Column:
    """[n] days such as `2025-01-06`."""
    return plain(np.datetime_as_string(start_ns.astype("datetime64[ns]"), unit="D"))


def moments(start_ns: IntArray) -> Column:
    """[n] moments such as `2025-01-06T14:30:00Z`."""
    if (start_ns % SECOND).any():
        return [moment_text(ns) for ns in start_ns.tolist()]
    return plain(np.datetime_as_string(start_ns.astype("datetime64[ns]"), unit="s", timezone="UTC"))
