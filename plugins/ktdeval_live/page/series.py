"""Series of one entry over days: returns since the start, and intervals of mean excess returns."""

from __future__ import annotations

import numpy as np

from ktdeval.market import BoolArray, FloatArray
from ktdeval_live.page.data import Equity, IntervalSeries, Series
from ktdeval_live.plan import LivePlan
from ktdeval_live.results.daily_results import EntryResult
from ktdeval_live.results.settled_cards import compared_days, sequences

_RETURN_DIGITS = 6
_PERCENT_DIGITS = 3


def equity_of(result: EntryResult) -> Equity:
    """Return the total returns after each counted day."""
    counted = result.counted
    first = 1
    if counted.any():
        first = 1 + int(np.argmax(counted))  # returns begin with the second session

    index = np.full(len(counted), np.nan) if result.index is None else result.index
    return Equity(
        first=first,
        held=_compounded(result.held[counted]),
        flat=_compounded(result.flat[counted]),
        low=_compounded(result.low[counted]),
        high=_compounded(result.high[counted]),
        index=_compounded(index[counted]),
        buy_and_hold=_compounded(result.buy_and_hold[counted]),
    )


def _compounded(returns: FloatArray) -> Series:
    """Return the total return after each day; null from a day without a return on."""
    totals = np.asarray(np.cumprod(1.0 + returns), dtype=np.float64) - 1.0
    return rounded(totals, _RETURN_DIGITS)


def intervals_of(plan: LivePlan, result: EntryResult, other: FloatArray | None) -> IntervalSeries:
    """Return the intervals of the mean excess over some returns; empty where there are none."""
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
        mean=rounded(means * scale, _PERCENT_DIGITS),
        low=rounded(symmetric.low * scale, _PERCENT_DIGITS),
        high=rounded(symmetric.high * scale, _PERCENT_DIGITS),
        asymptotic_low=rounded(asymptotic.low * scale, _PERCENT_DIGITS),
        asymptotic_high=rounded(asymptotic.high * scale, _PERCENT_DIGITS),
    )


def _sessions(days: BoolArray) -> tuple[int, ...]:
    """Return the numbers of the sessions of some days of fills, which begin with the second."""
    return tuple((np.flatnonzero(days) + 1).tolist())


_NOTHING = IntervalSeries(
    sessions=(), mean=(), low=(), high=(), asymptotic_low=(), asymptotic_high=()
)


def rounded(values: FloatArray, digits: int) -> Series:
    """Return values as a series of the page; null where they are not finite."""
    series: list[float | None] = []
    for value in values.tolist():
        if np.isfinite(value):
            series.append(round(value, digits))
        else:
            series.append(None)
    return tuple(series)
