"""Nine style factors for many days at once. The factors are those of `style_factors`, computed as
trailing sums over [days x assets].

The kernels in `style_factors` remain the definition. This module arranges the same arithmetic for a
range of days, and tests compare the results. A one-pass variance loses precision in a window whose
values hardly differ from their mean; such entries are computed by the kernel itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from ktdeval.attribution.style_factors import (
    FACTORS,
    MONTH,
    MONTH_MINIMUM,
    MONTH_SKIPPED,
    QUARTER,
    QUARTER_MINIMUM,
    TRADING_DAYS_PER_YEAR,
    YEAR,
    YEAR_MINIMUM,
    PriceHistory,
    TrailingWindow,
    price_history,
    price_window,
    trailing_count,
    trailing_maximum,
    trailing_sum,
)
from ktdeval.errors import DataError
from ktdeval.market.rules.own_sessions import session_groups
from ktdeval.market.snapshots.snapshot import BoolArray, FloatArray, MarketSnapshot, MarketView
from ktdeval.values.all_cores import on_all_cores

IndexArray = npt.NDArray[np.intp]
FACTOR_NAMES: tuple[str, ...] = tuple(definition.name for definition in FACTORS)
#: days and assets per pass: its arrays fit in the cache, however many assets there are
_BLOCK = 256
_BLOCK_ASSETS = 320
_CANCELLATION = 1e-3
"""Fraction of the raw second moment below which the kernel computes a central moment. Above this
fraction, one-pass sums keep thirteen digits.
"""
_GATHERED = 1024  #: maximum number of windows passed to the kernel at a time


def factor_panel(prices: MarketSnapshot | MarketView, rows: range) -> FloatArray:
    """Return raw values of `FACTORS` at the close of each day of `rows`: [K, D, N]. They equal
    `factor_values(snapshot.as_of(row))`. A day's values are bit-identical for any range, and for a
    snapshot or a view of it. Days come first in memory. Raises DataError unless `rows` are
    consecutive rows of the snapshot or view.
    """
    check_rows(prices, rows, 0)
    groups = session_groups(prices)
    if len(groups) == 1:
        return _panel_of_sessions(prices, rows)

    values = np.full((len(rows), len(FACTORS), len(prices.codes)), np.nan)
    for group in groups:
        # On a day when an exchange is closed, its assets have the values of the last session.
        latest = group.sessions_before(range(rows.start + 1, rows.stop + 1)) - 1
        days = np.flatnonzero(latest >= 0)
        if not len(days):
            continue

        first = int(latest[days[0]])
        sessions = range(first, int(latest[-1]) + 1)
        panel = _panel_of_sessions(price_history(prices, group), sessions)
        values[days[:, None], :, group.columns] = panel[:, latest[days] - first].transpose(1, 2, 0)

    return values.transpose(1, 0, 2)


def _panel_of_sessions(
    prices: MarketSnapshot | MarketView | PriceHistory, rows: range
) -> FloatArray:
    """Return raw values at the close of each of `rows`, which must be sessions of all assets.
    Shape: [K, D, N].
    """
    assets = prices.adjusted_close.shape[1]
    values = np.empty((len(rows), len(FACTORS), assets))
    first = max(0, rows.start - YEAR)
    with np.errstate(all="ignore"):
        market = price_window(prices, slice(first, rows.stop))

    pieces = []
    for asset in range(0, assets, _BLOCK_ASSETS):
        for day in range(0, len(rows), _BLOCK):
            days = range(day, min(day + _BLOCK, len(rows)))
            pieces.append(_Piece(slice(asset, asset + _BLOCK_ASSETS), days))

    on_all_cores(partial(_fill, values, market, rows.start - first), pieces)
    return values.transpose(1, 0, 2)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The part of a panel that is computed in one pass."""

    assets: slice
    days: range  #: counted from the panel's first day


def _fill(values: FloatArray, market: TrailingWindow, before: int, piece: _Piece) -> None:
    """Compute a piece of `values`, which is [D, K, N]. `before`: number of rows of `market` before
    the first day.
    """
    end = before + piece.days.stop
    begin = max(0, before + piece.days.start - YEAR)
    part = _part_of(market, slice(begin, end), piece.assets)
    block = _DayBlock(part, before + piece.days.start - begin, len(piece.days))

    with np.errstate(all="ignore"):  # the state of `errstate` is per thread
        for factor, kernel in enumerate(_BATCHED):
            values[piece.days.start : piece.days.stop, factor, piece.assets] = kernel(block)


def _part_of(market: TrailingWindow, rows: slice, assets: slice) -> TrailingWindow:
    """Return some rows and columns of a price history, with each array contiguous in memory."""
    parts = (getattr(market, part.name)[rows, assets] for part in fields(TrailingWindow))
    return TrailingWindow(*(np.ascontiguousarray(values) for values in parts))


def factor_history(view: MarketView, days: int) -> FloatArray:
    """Return raw values of `FACTORS` for the latest days up to the close of `view.day`, oldest
    first. NaN before the data begin. Days are sessions of each asset's own calendar. Shape:
    [days, N, K].
    """
    history = np.full((days, len(view.codes), len(FACTORS)), np.nan)
    for group in session_groups(view):
        own = price_history(view, group)
        first = max(0, own.day + 1 - days)
        if own.day >= 0:
            panel = _panel_of_sessions(own, range(first, own.day + 1))
            history[days - panel.shape[1] :, group.columns] = panel.transpose(1, 2, 0)

    return history


def check_rows(prices: MarketSnapshot | MarketView, rows: range, earliest: int) -> None:
    """Raise DataError unless the rows are consecutive rows of the snapshot, from `earliest` on."""
    if rows.step != 1 or len(rows) == 0 or rows.start < earliest or rows.stop > len(prices.days):
        name = f"snapshot {prices.meta.name}" if isinstance(prices, MarketSnapshot) else "a view"
        raise DataError(
            f"rows {rows.start}…{rows.stop - 1} of {name}: expected consecutive rows within"
            f" {earliest}…{len(prices.days) - 1}"
        )


@dataclass(frozen=True)
class _DayBlock:
    """Some consecutive days of a market, and intermediate results shared by several factors."""

    market: TrailingWindow  #: the requested rows and up to `YEAR` rows before them
    start: int  #: row of the first day in `market`
    days: int  #: number of days

    def trailing(self, values: FloatArray, width: int, lag: int = 0) -> FloatArray:
        """Return the rows that windows of `width` cover if they end `lag` days before each day; NaN
        before the data. Shape: [width - 1 + days, N].
        """
        end = self.start - lag + self.days
        first = end - self.days - width + 1
        if first >= 0:
            return values[first:end]

        absent = np.full((min(-first, end - first), values.shape[1]), np.nan)
        return np.concatenate([absent, values[: max(end, 0)]])

    @cached_property
    def returns(self) -> FloatArray:
        """Simple close-to-close returns; NaN on days without a bar. Shape: [QUARTER - 1 +
        days, N].
        """
        market = self.market
        return np.asarray(
            self.trailing(market.close, QUARTER) / self.trailing(market.last_close, QUARTER, 1)
            - 1.0
        )

    @cached_property
    def has_return(self) -> BoolArray:
        """True if there is a return. Shape: [QUARTER - 1 + days, N]."""
        return np.isfinite(self.returns)

    @cached_property
    def known_returns(self) -> FloatArray:
        """Returns, with 0 for missing ones. Shape: [QUARTER - 1 + days, N]."""
        return _set_to_zero(self.returns.copy(), ~self.has_return)

    @cached_property
    def quarter_count(self) -> FloatArray:
        """Number of returns in the last `QUARTER` days; NaN if below the minimum. Shape:
        [days, N].
        """
        return _at_least(trailing_count(self.has_return, QUARTER), QUARTER_MINIMUM)

    @cached_property
    def has_bar(self) -> BoolArray:
        """True if there is a bar. Shape: [YEAR - 1 + days, N]."""
        return np.isfinite(self.trailing(self.market.close, YEAR))

    def from_kernel(self, factor: int, entries: BoolArray, values: FloatArray) -> FloatArray:
        """Return `values`, [days, N], in which the flagged `entries` are replaced by results of the
        kernel for factor number `factor`.
        """
        # Almost always empty. For this case, numpy is ten times faster on a flat array than on a
        # two-dimensional one.
        days, assets = np.divmod(np.flatnonzero(entries), entries.shape[1])
        for start in range(0, len(days), _GATHERED):
            part_days = days[start : start + _GATHERED]
            part_assets = assets[start : start + _GATHERED]
            # numpy sums a single column in another order than several columns, so a lone window is
            # passed twice.
            size = max(2, len(part_days))
            at = (
                np.arange(YEAR)[:, None] + np.resize(part_days, size),
                np.resize(part_assets, size),
            )
            values[part_days, part_assets] = FACTORS[factor].kernel(self._windows(at))[
                : len(part_days)
            ]

        return values

    def _windows(self, at: tuple[IndexArray, IndexArray]) -> TrailingWindow:
        return TrailingWindow(
            *(
                self.trailing(getattr(self.market, part.name), YEAR)[at]
                for part in fields(TrailingWindow)
            )
        )


def _at_least(count: FloatArray, minimum: int) -> FloatArray:
    """Set counts below the minimum to NaN in place, and return `count` itself."""
    np.copyto(count, np.nan, where=count < minimum)
    return count


def _set_to_zero(values: FloatArray, unknown: BoolArray) -> FloatArray:
    """Set values to 0 in place where `unknown`, and return `values` itself. If little is missing,
    this is cheaper than a new array.
    """
    np.copyto(values, 0.0, where=unknown)
    return values


def _trailing_means(values: FloatArray, minimum: int, width: int) -> FloatArray:
    """Return trailing means of the finite values; NaN if there are fewer than `minimum`. `values`
    is overwritten. Shape: [days, N].
    """
    finite = np.isfinite(values)
    count = _at_least(trailing_count(finite, width), minimum)
    mean = trailing_sum(_set_to_zero(values, np.logical_not(finite, out=finite)), width)
    mean /= count
    return mean


@dataclass(frozen=True, slots=True)
class _WindowMoments:
    """Statistics of a series per window, each [days, N]; NaN if a window has too few values.
    `count` and `mean` are the number and mean of the values.
    """

    count: FloatArray
    mean: FloatArray
    raw_squares: FloatArray  #: sum of squared values
    squares: FloatArray  #: sum of squared deviations from the mean

    @classmethod
    def of(
        cls, values: FloatArray, count: FloatArray, width: int, squared: FloatArray | None = None
    ) -> _WindowMoments:
        """Return the moments of [width - 1 + days, N] values, which must be 0 where missing.
        `squared`: the squared values, if already known.
        """
        if squared is None:
            squared = values * values

        mean = trailing_sum(values, width)
        mean /= count
        raw = trailing_sum(squared, width)
        squares = count * mean
        squares *= mean
        np.subtract(raw, squares, out=squares)

        return cls(count, mean, raw, squares)

    def sample_deviation(self) -> FloatArray:
        """Return the sample standard deviation (ddof 1). Shape: [days, N]."""
        deviation = self.count - 1.0
        np.divide(self.squares, deviation, out=deviation)
        return np.sqrt(deviation, out=deviation)

    @property
    def cancels(self) -> BoolArray:
        """True if the sum of squared deviations has lost digits, or is NaN although there are
        enough values. Shape: [days, N].
        """
        keeps_digits = self.squares > _CANCELLATION * self.raw_squares
        cancels: BoolArray = np.logical_not(keeps_digits, out=keeps_digits)
        if cancels.any():
            cancels &= self.count > 0
        return cancels


def _momentum(block: _DayBlock) -> FloatArray:
    closes = block.market.last_close
    recent = block.trailing(closes, 1, MONTH_SKIPPED - 1)
    distant = block.trailing(closes, 1, YEAR - 1)

    return np.where(
        trailing_count(block.has_bar, YEAR) >= YEAR_MINIMUM, recent / distant - 1.0, np.nan
    )


def _realised_volatility(block: _DayBlock) -> FloatArray:
    moments = _WindowMoments.of(np.log1p(block.known_returns), block.quarter_count, QUARTER)
    values = moments.sample_deviation()
    values *= math.sqrt(TRADING_DAYS_PER_YEAR)
    return block.from_kernel(1, moments.cancels, values)


def _illiquidity(block: _DayBlock) -> FloatArray:
    amount = block.trailing(block.market.amount, MONTH)
    ratio = np.abs(block.returns[QUARTER - MONTH :])
    ratio /= amount
    np.copyto(ratio, np.nan, where=~(amount > 0))
    mean = _trailing_means(ratio, MONTH_MINIMUM, MONTH)
    np.copyto(mean, np.nan, where=~(mean > 0))

    return np.log(mean, out=mean)


def _overnight_return(block: _DayBlock) -> FloatArray:
    market = block.market
    returns = block.trailing(market.open, MONTH) / block.trailing(market.last_close, MONTH, 1)
    returns -= 1.0
    return _trailing_means(returns, MONTH_MINIMUM, MONTH)


def _intraday_return(block: _DayBlock) -> FloatArray:
    market = block.market
    returns = block.trailing(market.close, MONTH) / block.trailing(market.open, MONTH)
    returns -= 1.0
    return _trailing_means(returns, MONTH_MINIMUM, MONTH)


def _negative_skewness(block: _DayBlock) -> FloatArray:
    returns = block.known_returns
    count = block.quarter_count
    squared = returns * returns
    moments = _WindowMoments.of(returns, count, QUARTER, squared)
    squared *= returns
    cubes = trailing_sum(squared, QUARTER)
    # Expanded around zero, not around the mean: sum (x - m)^3 = sum x^3 - m (3 sum x^2 - 2 n m^2).
    mean = moments.mean
    expansion = 2.0 * count
    expansion *= mean
    expansion *= mean
    np.subtract(3.0 * moments.raw_squares, expansion, out=expansion)
    expansion *= mean
    cubes -= expansion
    cubes /= count
    variance = moments.squares / count
    variance *= np.sqrt(variance)
    cubes /= variance
    # 0 - x rather than -x, so that a symmetric sample has skewness 0.0, not -0.0.
    values = np.subtract(0.0, cubes, out=cubes)

    return block.from_kernel(5, moments.cancels, values)


def _price_volume_correlation(block: _DayBlock) -> FloatArray:
    # The logarithm of a zero volume is not finite, and neither is any change that involves it.
    volume = np.log(block.trailing(block.market.volume, MONTH + 1))
    y = volume[1:] - volume[:-1]
    both = np.isfinite(y)
    both &= block.has_return[QUARTER - MONTH :]
    count = _at_least(trailing_count(both, MONTH), MONTH_MINIMUM)
    neither = np.logical_not(both, out=both)
    x = _set_to_zero(block.known_returns[QUARTER - MONTH :].copy(), neither)
    y = _set_to_zero(y, neither)
    of_x = _WindowMoments.of(x, count, MONTH)
    of_y = _WindowMoments.of(y, count, MONTH)
    x *= y
    values = trailing_sum(x, MONTH)
    of_means = count * of_x.mean
    of_means *= of_y.mean
    values -= of_means
    scale = of_x.squares * of_y.squares
    values /= np.sqrt(scale, out=scale)

    return block.from_kernel(6, of_x.cancels | of_y.cancels, values)


def _year_high(block: _DayBlock) -> FloatArray:
    market = block.market
    high = block.trailing(market.high, YEAR).copy()
    finite = np.isfinite(high)
    too_few = trailing_count(finite, YEAR) < YEAR_MINIMUM
    np.copyto(high, -np.inf, where=~finite)
    values = block.trailing(market.last_close, 1) / trailing_maximum(high, YEAR)
    np.copyto(values, np.nan, where=too_few)

    return values


def _amount_variation(block: _DayBlock) -> FloatArray:
    amount = block.trailing(block.market.amount, MONTH)
    usable = block.has_bar[YEAR - MONTH :] & (amount > 0)
    count = _at_least(trailing_count(usable, MONTH), MONTH_MINIMUM)
    moments = _WindowMoments.of(_set_to_zero(amount.copy(), ~usable), count, MONTH)
    values = moments.sample_deviation()
    values /= moments.mean

    return block.from_kernel(8, moments.cancels, values)


_BATCHED: tuple[Callable[[_DayBlock], FloatArray], ...] = (
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
"""Batched kernels of `FACTORS`, in the same order."""
