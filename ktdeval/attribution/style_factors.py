"""Nine style factors: raw values from trailing windows of prices and turnover, and standardised
exposures.

KTD-Fin (Table 7) names the factors without specifying windows; the windows here are ktdeval's. Each
factor is a pure function that reduces the leading (time) axis of a `TrailingWindow`. Therefore the
same definitions serve one day ([rows, N] arrays) and many days at once ([rows, days, N], for
instance from `numpy.lib.stride_tricks.sliding_window_view`).

Sums over trailing windows are built in a number of passes that is logarithmic in the window length:
a sum over 20 rows is the sum of two sums over 10, and so on. Like pairwise summation, and unlike a
difference of two running totals, such a sum is not affected by values outside its window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.rules.own_sessions import SessionGroup, session_groups
from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray, MarketSnapshot, MarketView
from ktdeval.values.disk.files import csv_rows


def trailing_sum(values: FloatArray, width: int) -> FloatArray:
    """Return sums over `width` (at least 1) consecutive rows of finite numbers. With width 1,
    return `values` itself. Shape: [rows - width + 1, N].
    """
    if width == 1:
        return values

    half = trailing_sum(values, width // 2)
    length = len(values) - width + 1
    total = half[:length] + half[width // 2 :][:length]

    if width % 2:
        total += values[width - 1 :]

    return total


def trailing_count(flags: BoolArray, width: int) -> FloatArray:
    """Return the number of True among `width` (1 to 255) consecutive rows, as floats. Shape: [rows
    - width + 1, N].
    """
    return trailing_sum(flags.view(np.uint8), width).astype(np.float64)


def trailing_maximum(values: FloatArray, width: int) -> FloatArray:
    """Return maxima over `width` consecutive rows of numbers without NaN. Shape: [rows - width + 1,
    N].
    """
    size = 1
    while size * 2 <= width:
        values = np.maximum(values[: len(values) - size], values[size:])
        size *= 2
    # Two overlapping windows whose length is a power of two: for a maximum, a row may count twice.
    return np.maximum(values[: len(values) - (width - size)], values[width - size :])


def filled_forward(values: FloatArray, before: FloatArray | None = None) -> FloatArray:
    """Replace every NaN by the last number above it in its column. Shape: [rows, N]. `before`: the
    row above the first one, [N].
    """
    # Missing entries column by column: a run ends where a row does not directly follow the previous
    # one.
    column, row = np.divmod(np.flatnonzero(np.isnan(values).T), len(values))
    if not len(row):
        return values

    begins = np.ones(len(row), dtype=bool)
    begins[1:] = (row[1:] != row[:-1] + 1) | (column[1:] != column[:-1])
    source = (row[begins] - 1)[np.cumsum(begins) - 1]
    filled = values.copy()
    filled[row, column] = values[source, column]
    above = source < 0
    filled[row[above], column[above]] = np.nan if before is None else before[column[above]]

    return filled


def last_known(values: FloatArray, row: int) -> FloatArray:
    """Return the last number above `row` in each column of [rows, N] values; NaN if all are NaN.
    Shape: [N].
    """
    if row == 0:
        return np.full(values.shape[1], np.nan)

    last: FloatArray = values[row - 1].copy()
    missing = np.flatnonzero(np.isnan(last))
    backwards = values[:row, missing][::-1]
    last[missing] = backwards[(~np.isnan(backwards)).argmax(axis=0), np.arange(len(missing))]

    return last


TRADING_DAYS_PER_YEAR = 252
YEAR, QUARTER, MONTH = 252, 60, 20  #: window lengths in trading days
#: `MOM_12_1` ends at `close[-21]`, because the last 20 daily returns belong to short-term reversal
MONTH_SKIPPED = 21
#: minimum observations in a window: two thirds of its length, rounded up
YEAR_MINIMUM = 168
QUARTER_MINIMUM = 40
MONTH_MINIMUM = 14
#: exposures are clipped at this quantile and its mirror image before z-scoring (both: KTD-Fin §4.5)
WINSOR_TAIL = 0.01


# a tuple: it is created from a market's arrays by field name and sliced by position
class PriceHistory(NamedTuple):
    """Prices up to row `day` of a growing market, each [day + 1, N]. These are the fields of a
    `MarketView` that factors read, in the same units.
    """

    day: int
    adjusted_close: FloatArray
    adjusted_open: FloatArray
    high: FloatArray
    factor: FloatArray
    volume: FloatArray
    amount: FloatArray


@dataclass(frozen=True)
class TrailingWindow:
    """The last `YEAR` trading days (fewer at the start of the data), oldest first. Time is the
    leading axis.
    """

    close: FloatArray  #: adjusted close, NaN on days without a bar
    #: adjusted close of the latest bar up to each day; NaN before an asset's first bar
    last_close: FloatArray
    open: FloatArray  #: adjusted open (scaled by the same day's factor as the close)
    high: FloatArray  #: adjusted high
    volume: FloatArray  #: shares divided by the factor, so that volume does not jump at a split
    amount: FloatArray  #: turnover, in currency units

    @cached_property
    def returns(self) -> FloatArray:
        """Close-to-close returns; NaN without a bar. The first return after a suspension is
        measured from the last close. Shape: [≤ 60, ...].
        """
        return self.close[1:][-QUARTER:] / self.last_close[:-1][-QUARTER:] - 1.0


@dataclass(frozen=True, slots=True)
class FactorDefinition:
    """One style factor."""

    name: str  #: name on cards and in tools, such as `MOM_12_1`
    description: str  #: description of the factor, with its formula
    window: int  #: look-back length in trading days
    minimum_observations: int  #: minimum usable days in the window; with fewer, the value is NaN
    #: maps a trailing window [rows, ...] to raw values [...]
    kernel: Callable[[TrailingWindow], FloatArray]


@dataclass(frozen=True, slots=True)
class FactorTable:
    """Raw factor values at the close of one day."""

    #: factor name -> [N] float64, NaN where undefined; in the order of `FACTORS`
    values: Mapping[str, FloatArray]

    def matrix(self) -> FloatArray:
        """Return the values with factors in the order of `FACTORS`: [K, N]."""
        return np.stack(list(self.values.values()))

    def standardise_over(self, investable: BoolArray) -> FloatArray:
        """Return exposures, with every factor standardised over the `investable` names, [N]. Shape:
        [K, N].
        """
        return standardise(self.matrix(), investable)


def factor_values(view: MarketView | PriceHistory) -> FactorTable:
    """Return raw style factors of every asset from information up to the close of `view.day`. NaN
    if there are too few observations.

    Names follow KTD-Fin, Appendix E; windows and rules for gaps follow docs/attribution.md. Windows
    count sessions of the asset's own calendar. If the day is not one of its sessions, values are as
    of its last session.
    """
    if isinstance(view, PriceHistory):
        return _factors_of(view)

    groups = session_groups(view)
    if len(groups) == 1:
        return _factors_of(view)

    values = {definition.name: np.full(len(view.codes), np.nan) for definition in FACTORS}
    for group in groups:
        history = price_history(view, group)
        if history.day < 0:
            continue
        for name, own in _factors_of(history).values.items():
            values[name][group.columns] = own

    return FactorTable(values)


def _factors_of(view: MarketView | PriceHistory) -> FactorTable:
    return FactorTable(
        trailing_factors(price_window(view, slice(max(0, view.day + 1 - YEAR), view.day + 1)))
    )


def price_history(market: MarketSnapshot | MarketView, group: SessionGroup) -> PriceHistory:
    """Return the price history over the sessions of one calendar's assets."""
    close, *others = (group.of(getattr(market, name)) for name in PriceHistory._fields[1:])
    return PriceHistory(len(close) - 1, close, *others)


def price_window(market: MarketSnapshot | MarketView | PriceHistory, rows: slice) -> TrailingWindow:
    """Return some rows of a price history; arrays are [rows, N]."""
    close = market.adjusted_close[rows]
    factor = market.factor[rows]
    before = last_known(market.adjusted_close, rows.start) if np.isnan(close[0]).any() else None

    return TrailingWindow(
        close=close,
        last_close=filled_forward(close, before),
        open=market.adjusted_open[rows],
        high=market.high[rows] * factor,
        volume=market.volume[rows] / factor,
        amount=market.amount[rows],
    )


def trailing_factors(window: TrailingWindow) -> dict[str, FloatArray]:
    """Return the raw values of each factor by name. Their shape is the window's shape without the
    time axis: [N], or [days, N] for a batch.
    """
    with np.errstate(all="ignore"):
        return {definition.name: definition.kernel(window) for definition in FACTORS}


def standardise(values: FloatArray, investable: BoolArray) -> FloatArray:
    """Winsorise raw values, [..., N], at 1 % and 99 %, and z-score them. Quantiles, mean and
    deviation are taken over the `investable` names ([N] or [..., N]); other names are clipped and
    scaled with the same figures. NaN stays NaN. If the investable names do not differ, exposures
    are 0. Raises DataError if `investable` does not match the assets.
    """
    if investable.shape[-1:] != values.shape[-1:]:
        raise DataError(
            f"standardise: values has {values.shape[-1]} assets, investable has"
            f" {investable.shape[-1]}; pass one flag per asset"
        )

    used = investable & np.isfinite(values)
    count = used.sum(axis=-1, keepdims=True)
    ordered = np.sort(np.where(used, values, np.inf), axis=-1)

    with np.errstate(all="ignore"):
        clipped = np.clip(
            values,
            _quantile(ordered, count, WINSOR_TAIL),
            _quantile(ordered, count, 1.0 - WINSOR_TAIL),
        )
        mean = np.where(used, clipped, 0.0).sum(axis=-1, keepdims=True) / count
        centred = clipped - mean
        deviation = np.sqrt(
            np.where(used, centred * centred, 0.0).sum(axis=-1, keepdims=True) / count
        )
        # A spread at rounding level is treated as zero, since dividing by it would amplify noise to
        # unit
        flat = deviation <= 1e-12 * np.maximum(np.abs(mean), np.finfo(np.float64).tiny)

        return np.asarray(np.where(flat, centred * 0.0, centred / np.where(flat, 1.0, deviation)))


def _quantile(ordered: FloatArray, count: FloatArray, level: float) -> FloatArray:
    """Return the linearly interpolated quantile of the first `count` entries of each sorted row;
    NaN where `count` is 0.
    """
    position = np.maximum(count - 1, 0) * level
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    low = np.take_along_axis(ordered, below, axis=-1)
    high = np.take_along_axis(ordered, above, axis=-1)

    return np.where(count > 0, low + (high - low) * (position - below), np.nan)


def _true_counts(flags: BoolArray) -> npt.NDArray[np.uint8]:
    """Return the number of True values over time, in a window of at most `YEAR` rows."""
    count: npt.NDArray[np.uint8] = flags.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return count


def _average_known(values: FloatArray, minimum: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the finite values over time, and their number. If there are fewer than
    `minimum`, both are NaN.
    """
    finite = np.isfinite(values)
    count = _true_counts(finite).astype(np.float64)
    count[count < minimum] = np.nan

    return np.where(finite, values, 0.0).sum(axis=0) / count, count


def _deviations(values: FloatArray, mean: FloatArray) -> FloatArray:
    """Return deviations from the mean, with 0 for missing values, so that these do not
    affect sums.
    """
    return np.where(np.isfinite(values), values - mean, 0.0)


def _sample_deviation(values: FloatArray, mean: FloatArray, count: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((_deviations(values, mean) ** 2).sum(axis=0) / (count - 1.0)))


def _momentum(window: TrailingWindow) -> FloatArray:
    # MOM_12_1 of KTD-Fin, Table 7: 12-minus-1-month momentum
    if len(window.close) < YEAR:
        return np.full(window.close.shape[1:], np.nan)
    enough = _true_counts(np.isfinite(window.close)) >= YEAR_MINIMUM
    return np.where(
        enough, window.last_close[-MONTH_SKIPPED] / window.last_close[-YEAR] - 1.0, np.nan
    )


def _realised_volatility(window: TrailingWindow) -> FloatArray:
    # RV_60 of Table 7: 60-day realised volatility
    returns = np.log1p(window.returns)
    mean, count = _average_known(returns, QUARTER_MINIMUM)
    return _sample_deviation(returns, mean, count) * math.sqrt(TRADING_DAYS_PER_YEAR)


def _illiquidity(window: TrailingWindow) -> FloatArray:
    # ILLIQ of Table 7: Amihud's illiquidity
    returns = window.returns[-MONTH:]
    amount = window.amount[1:][-MONTH:]
    mean, _ = _average_known(np.abs(returns) / np.where(amount > 0, amount, np.nan), MONTH_MINIMUM)

    return np.log(np.where(mean > 0, mean, np.nan))


def _overnight_return(window: TrailingWindow) -> FloatArray:
    # REV_ON of Table 7: overnight return
    return _average_known(
        window.open[1:][-MONTH:] / window.last_close[:-1][-MONTH:] - 1.0, MONTH_MINIMUM
    )[0]


def _intraday_return(window: TrailingWindow) -> FloatArray:
    # MOM_ID of Table 7: intraday momentum
    return _average_known(window.close[-MONTH:] / window.open[-MONTH:] - 1.0, MONTH_MINIMUM)[0]


def _negative_skewness(window: TrailingWindow) -> FloatArray:
    # SKEW of Table 7: negative return skewness
    mean, count = _average_known(window.returns, QUARTER_MINIMUM)
    deviations = _deviations(window.returns, mean)
    variance = (deviations**2).sum(axis=0) / count
    third_moment = (deviations * deviations * deviations).sum(axis=0) / count

    # 0 - x rather than -x, so that a symmetric sample has skewness 0.0, not -0.0.
    return np.asarray(0.0 - third_moment / np.where(variance > 0, variance, np.nan) ** 1.5)


def _price_volume_correlation(window: TrailingWindow) -> FloatArray:
    # CORR_PV of Table 7: correlation of volume and return
    volume = window.volume[-(MONTH + 1) :]
    change = np.diff(np.log(np.where(volume > 0, volume, np.nan)), axis=0)
    returns = window.returns[-MONTH:]
    both = np.isfinite(change) & np.isfinite(returns)
    x = np.where(both, returns, np.nan)
    y = np.where(both, change, np.nan)
    x_mean, _ = _average_known(x, MONTH_MINIMUM)
    y_mean, _ = _average_known(y, MONTH_MINIMUM)
    dx = _deviations(x, x_mean)
    dy = _deviations(y, y_mean)
    scale = (dx**2).sum(axis=0) * (dy**2).sum(axis=0)
    correlation: FloatArray = (dx * dy).sum(axis=0) / np.sqrt(np.where(scale > 0, scale, np.nan))

    return np.where(np.isfinite(x_mean), correlation, np.nan)


def _year_high(window: TrailingWindow) -> FloatArray:
    # HIGH_52W of Table 7: 52-week high anchor
    finite = np.isfinite(window.high)
    high = np.where(finite, window.high, -np.inf).max(axis=0)
    return np.where(_true_counts(finite) >= YEAR_MINIMUM, window.last_close[-1] / high, np.nan)


def _amount_variation(window: TrailingWindow) -> FloatArray:
    # CV_VOL of Table 7: coefficient of variation of the amount
    amount = window.amount[-MONTH:]
    amount = np.where(np.isfinite(window.close[-MONTH:]) & (amount > 0), amount, np.nan)
    mean, count = _average_known(amount, MONTH_MINIMUM)

    return _sample_deviation(amount, mean, count) / mean


_KERNELS: tuple[Callable[[TrailingWindow], FloatArray], ...] = (
    _momentum,
    _realised_volatility,
    _illiquidity,
    _overnight_return,
    _intraday_return,
    _negative_skewness,
    _price_volume_correlation,
    _year_high,
    _amount_variation,
)
FACTORS: tuple[FactorDefinition, ...] = tuple(
    FactorDefinition(
        row["name"], row["description"], int(row["window"]), int(row["minimum"]), kernel
    )
    for row, kernel in zip(csv_rows(Path(__file__).with_name("factors.csv")), _KERNELS, strict=True)
)
"""The nine style factors of KTD-Fin (Appendix E), in the paper's order, with ktdeval's windows."""
