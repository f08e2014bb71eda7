"""Daily series of an entry: returns since the start, and intervals for mean excess returns."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ktdeval.market import BoolArray, FloatArray
from ktdeval.stats import shape_of
from ktdeval_live.page.data import Equity, IntervalSeries, Series
from ktdeval_live.plan import LivePlan
from ktdeval_live.results.daily_results import EntryResult
from ktdeval_live.results.settled_cards import LEVEL, compared_days, sequences

_RETURN_DIGITS = 6
_PERCENT_DIGITS = 3
_RATIO_DIGITS = 4


def equity_of(result: EntryResult) -> Equity:
    """Return the total return after each counted day."""
    counted = result.counted
    first = 1
    if counted.any():
        first = 1 + int(np.argmax(counted))  # returns begin with the second session

    index = np.full(len(counted), np.nan) if result.index is None else result.index
    return Equity(
        first=first,
        held=_compound_returns(result.held[counted]),
        flat=_compound_returns(result.flat[counted]),
        low=_compound_returns(result.low[counted]),
        high=_compound_returns(result.high[counted]),
        index=_compound_returns(index[counted]),
        buy_and_hold=_compound_returns(result.buy_and_hold[counted]),
    )


def _compound_returns(returns: FloatArray) -> Series:
    """Return the total return after each day; null from the first missing return on."""
    totals = np.asarray(np.cumprod(1.0 + returns), dtype=np.float64) - 1.0
    return round_series(totals, _RETURN_DIGITS)


def intervals_of(plan: LivePlan, result: EntryResult, other: FloatArray | None) -> IntervalSeries:
    """Return the intervals for the mean excess over the `other` returns; empty if no days can be
    compared.
    """
    if other is None:
        return _NOTHING

    days = compared_days(result, other)
    if not days.any():
        return _NOTHING

    values = result.held[days] - other[days]
    symmetric, asymptotic = sequences(plan, values, result.days_a_year)
    scale = 100.0 * result.days_a_year
    means = np.cumsum(values) / np.arange(1, len(values) + 1)
    return IntervalSeries(
        sessions=_sessions(days),
        mean=round_series(means * scale, _PERCENT_DIGITS),
        low=round_series(symmetric.low * scale, _PERCENT_DIGITS),
        high=round_series(symmetric.high * scale, _PERCENT_DIGITS),
        asymptotic_low=round_series(asymptotic.low * scale, _PERCENT_DIGITS),
        asymptotic_high=round_series(asymptotic.high * scale, _PERCENT_DIGITS),
    )


def sharpe_ends(result: EntryResult, ratio: float | None) -> tuple[float, float] | None:
    """Return the ends of the 95 % interval for an annualised Sharpe ratio at a single look; None if
    the ratio is undefined.

    The interval uses the moments of the returns on counted days.
    """
    if ratio is None:
        return None

    shape = shape_of(result.held[result.counted])
    error = math.sqrt(max(shape.error_variance, 0.0) / (shape.days - 1) * result.days_a_year)
    half = NormalDist().inv_cdf(0.5 + LEVEL / 2) * error
    return round(ratio - half, _RATIO_DIGITS), round(ratio + half, _RATIO_DIGITS)


def _sessions(days: BoolArray) -> tuple[int, ...]:
    """Return the session numbers of fill days; the first fill day is session 1."""
    return tuple((np.flatnonzero(days) + 1).tolist())


_NOTHING = IntervalSeries(
    sessions=(), mean=(), low=(), high=(), asymptotic_low=(), asymptotic_high=()
)


def round_series(values: FloatArray, digits: int) -> Series:
    """Return values as a series for the page; null where they are not finite."""
    series: list[float | None] = []
    for value in values.tolist():
        if np.isfinite(value):
            series.append(round(value, digits))
        else:
            series.append(None)
    return tuple(series)
