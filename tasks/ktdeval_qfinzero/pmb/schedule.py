"""Ticks of the exchange's schedule, counted without any data."""

from __future__ import annotations

from functools import cache

import numpy as np

from ktdeval_qfinzero.data.rows import IntArray
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.moments import MINUTE
from ktdeval_qfinzero.pmb.values import Frequency
from ktdeval_qfinzero.trading_hours import trading_hours

_DAYS_AHEAD = 40
"""Trading days that must follow on any moment: an unmet margin call may last 30 of them."""


@cache
def _ticks_before() -> IntArray:
    """[n + 1] minutes of all sessions before each."""
    hours = trading_hours()
    return np.concatenate(([0], np.cumsum((hours.close_ns - hours.open_ns) // MINUTE)))


def ticks_by(ns: int, frequency: Frequency) -> int:
    """How many ticks of the calendar lie at or before a moment."""
    hours = trading_hours()
    row = int(np.searchsorted(hours.close_ns, ns, side="right"))
    if frequency == "1d":
        return row
    inside = 0 if row == len(hours.open_ns) else max(0, (ns - int(hours.open_ns[row])) // MINUTE)
    return int(_ticks_before()[row]) + inside


def tick_at(number: int, frequency: Frequency) -> int:
    """Moment of a tick; the calendar's first one is number 1; raises ServiceError `invalid_argument`: the calendar ends before."""
    hours = trading_hours()
    counts = _ticks_before()
    last = len(hours.close_ns) if frequency == "1d" else int(counts[-1])
    if not 1 <= number <= last:
        raise invalid("step", "the trading calendar ends before; take fewer steps")
    if frequency == "1d":
        return int(hours.close_ns[number - 1])
    row = int(np.searchsorted(counts, number)) - 1
    return int(hours.open_ns[row]) + (number - int(counts[row])) * MINUTE


def day_order_end(now_ns: int, frequency: Frequency) -> int:
    """When a DAY order of a moment expires: at the close of the trading day of the first bar that it can fill on."""
    hours = trading_hours()
    last_starts = hours.open_ns if frequency == "1d" else hours.close_ns - MINUTE
    return int(hours.close_ns[int(np.searchsorted(last_starts, now_ns))])


def require_reach(ns: int, field: str) -> None:
    """Refuse moments so late that settlement days and days of margin calls would lie after the end of the calendar.
    Raises ServiceError `invalid_argument`.
    """
    hours = trading_hours()
    if ns >= int(hours.open_ns[-_DAYS_AHEAD]):
        raise invalid(field, f"the broker's calendar ends at the open of {hours.day(len(hours.days) - _DAYS_AHEAD)}")
