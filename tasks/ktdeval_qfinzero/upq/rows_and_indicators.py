"""Conversion of numeric columns to answer rows, and indicators computed from closes.

An indicator is computed over the ticker's whole history before the query's end, so a day's value
does not depend on where a query starts:

    ma_N    mean of the last N closes,
    ema_N   EMA(N) of the closes: e_0 = x_0, e_t = e_(t−1) + 2 / (N + 1) · (x_t − e_(t−1)),
            as pandas `ewm(span=N, adjust=False)`,
    macd    EMA(12) − EMA(26);  macd_signal  EMA(9) of macd;  macd_histogram  macd − macd_signal.

An indicator is missing until there have been enough closes: N for averages, 26 for macd, and 34 =
26 + 9 − 1 for its signal and histogram.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import E4, Bars, FloatArray, IntArray
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.timestamps import SECOND, moment_text

#: Decimals of adjusted prices and indicators; unadjusted prices keep the four stored decimals
PRICE_DECIMALS = 6

_VOLUME_DECIMALS = 4

Cell = str | int | float | bool | None
Column = Sequence[Cell]
Rows = list[dict[str, Cell]]  #: Rows of an answer


def to_rows(columns: Mapping[str, Column]) -> Rows:
    """Return one object per row of the columns, which are equally long."""
    names = tuple(columns)
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def bar_value(
    bars: Bars, name: str, price: FloatArray | None = None, volume: FloatArray | None = None
) -> Column:
    """Return one [n] field of bars. `price`, `volume`: [n] factors for prices and volumes; None for
    unadjusted values.
    """
    if name == "volume":
        return volumes(bars.volume, volume)
    if name == "transactions":
        return plain(bars.transactions)

    return prices(bars.price_e4(name), price)


def prices(e4: IntArray, factor: FloatArray | None = None) -> Column:
    """Return the [n] prices in dollars."""
    return plain(e4 / E4) if factor is None else numbers(e4 / E4 * factor)


def volumes(volume: FloatArray, factor: FloatArray | None = None) -> Column:
    """Return the [n] volumes in shares, contracts or units of a crypto asset; integers if all of
    them are whole.
    """
    scaled = volume if factor is None else np.round(volume * factor, _VOLUME_DECIMALS)
    whole = scaled.astype(np.int64)
    return plain(whole if np.array_equal(whole, scaled) else scaled)


def numbers(values: FloatArray, decimals: int = PRICE_DECIMALS) -> Column:
    """Return the [n] rounded numbers, with None in place of NaN."""
    rounded = np.round(values, decimals) + 0.0  # no negative zero
    missing = np.isnan(values)
    if not missing.any():
        return plain(rounded)

    objects = rounded.astype(object)
    objects[missing] = None
    return plain(objects)


def plain(values: npt.NDArray[Any]) -> Column:
    """Return the [n] values as Python objects."""
    column: list[Cell] = values.tolist()
    return column


def days(start_ns: IntArray) -> Column:
    """Format [n] days, such as `2025-01-06`."""
    return plain(np.datetime_as_string(start_ns.astype("datetime64[ns]"), unit="D"))


def moments(start_ns: IntArray) -> Column:
    """Format [n] times, such as `2025-01-06T14:30:00Z`."""
    if (start_ns % SECOND).any():
        return [moment_text(ns) for ns in start_ns.tolist()]
    return plain(np.datetime_as_string(start_ns.astype("datetime64[ns]"), unit="s", timezone="UTC"))


MAX_BARS = 400
MAX_INDICATORS = 10
FAST = 12
SLOW = 26
SIGNAL = 9

_NAME = re.compile(r"(ma|ema)_([1-9][0-9]{0,2})")


def read_indicators(text: str | None) -> tuple[str, ...]:
    """Return comma-separated indicators in order, each once. Raises ServiceError `invalid_argument`
    if one is unknown, or there are too many.
    """
    if text is None:
        return ()

    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if len(names) > MAX_INDICATORS:
        raise invalid("indicators", f"at most {MAX_INDICATORS} in one call")

    for name in names:
        match = _NAME.fullmatch(name)
        if name != "macd" and (match is None or int(match[2]) > MAX_BARS):
            raise invalid(
                "indicators",
                f"expected ma_N, ema_N (N from 1 to {MAX_BARS}) or macd, separated by commas",
            )

    return names


def indicator_columns(names: tuple[str, ...], closes: FloatArray) -> dict[str, FloatArray]:
    """Return the [n] values of each indicator, keyed by column name; NaN until there are enough
    closes.
    """
    columns: dict[str, FloatArray] = {}
    for name in names:
        if name == "macd":
            columns |= macd(closes)
        else:
            bars = int(name.partition("_")[2])
            if name.startswith("ema"):
                columns[name] = _from(_recursion(closes, bars), bars)
            elif len(closes) < bars:
                columns[name] = np.full(len(closes), np.nan)
            else:
                means = np.lib.stride_tricks.sliding_window_view(closes, bars).mean(axis=1)
                columns[name] = np.concatenate((np.full(bars - 1, np.nan), means))

    return columns


def macd(closes: FloatArray) -> dict[str, FloatArray]:
    """Return the difference between a fast and a slow exponential average, its signal line, and the
    difference of the two.
    """
    line = _recursion(closes, FAST) - _recursion(closes, SLOW)
    signal = _recursion(line, SIGNAL)
    complete = SLOW + SIGNAL - 1

    return {
        "macd": _from(line, SLOW),
        "macd_signal": _from(signal, complete),
        "macd_histogram": _from(line - signal, complete),
    }


def _recursion(values: FloatArray, bars: int) -> FloatArray:
    weight = 2 / (bars + 1)
    averages = accumulate(
        values.tolist(), lambda average, value: average + weight * (value - average)
    )
    return np.fromiter(averages, dtype=np.float64, count=len(values))


def _from(values: FloatArray, bars: int) -> FloatArray:
    """Return the values with the first `bars` − 1 set to NaN."""
    return np.where(np.arange(len(values)) < bars - 1, np.nan, values)
