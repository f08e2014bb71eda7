"""Grid on which a market is drawn: days × minutes, for exchange sessions or for 24-hour days."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import numpy as np

from ktdeval.errors import DataError
from ktdeval.values import derive_seed
from ktdeval_qfinzero.data.rows import FloatArray, IntArray
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start
from ktdeval_qfinzero.trading_hours import trading_hours

SESSION_MINUTES = 390
DAY_MINUTES = 1440
_OPENS_AT = 9 * 60 + 30  #: Minutes from midnight to the session's open, in New York


@dataclass(frozen=True, eq=False)
class MinuteGrid:
    """Days and their minutes. `open_ns`, `close_ns`: [D] start of the first minute and end of the
    last minute.
    """

    days: tuple[date, ...]  #: [D] calendar days
    open_ns: IntArray
    close_ns: IntArray
    width: int  #: W, the number of minutes in a full day
    night_share: float  #: fraction of a day's variance that falls before the first minute

    def __len__(self) -> int:
        return len(self.days)

    @cached_property
    def lengths(self) -> IntArray:
        """[D] number of minutes in each day, which is smaller if the exchange closes early."""
        return (self.close_ns - self.open_ns) // MINUTE

    @cached_property
    def is_open(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """[D, W] whether each minute belongs to the day."""
        return np.arange(self.width)[None, :] < self.lengths[:, None]

    @cached_property
    def midnight_ns(self) -> IntArray:
        """[D] midnight in UTC of each day, which is the start of the daily bar."""
        return np.array([day_start(day) for day in self.days], dtype=np.int64)

    def minute_ns(self, row: int, minute: int) -> int:
        """Return the start of a minute on a day."""
        return int(self.open_ns[row]) + minute * MINUTE

    def row_on_or_after(self, day: date) -> int | None:
        """Return the row of the first day that is not before `day`; None beyond the end."""
        row = bisect_left(self.days, day)
        return row if row < len(self.days) else None

    def row_at(self, fraction: float) -> int:
        """Return the row at a fraction of all days."""
        return min(len(self.days) - 1, int(fraction * len(self.days)))


def session_grid(first: date, last: date) -> MinuteGrid:
    """Return a grid of the exchange's sessions in [first, last]. Raises DataError if there are
    fewer than two.
    """
    hours = trading_hours()
    rows = np.flatnonzero(
        (hours.days >= np.datetime64(first)) & (hours.days <= np.datetime64(last))
    )
    if len(rows) < 2:
        raise DataError(
            f"synthetic market: fewer than two trading days in {first} … {last}; choose a longer"
            " range"
        )

    days = tuple(hours.day(int(row)) for row in rows)
    return MinuteGrid(days, hours.open_ns[rows], hours.close_ns[rows], SESSION_MINUTES, 0.25)


def calendar_grid(first: date, last: date) -> MinuteGrid:
    """Return a grid of all days in [first, last], each with 24 hours."""
    days = tuple(first + timedelta(days=number) for number in range((last - first).days + 1))
    opens = np.array([day_start(day) for day in days], dtype=np.int64)
    return MinuteGrid(days, opens, opens + DAY, DAY_MINUTES, 0.0)


def shift_sessions(day: date, count: int = 0) -> date:
    """Return the session `count` sessions after the first one on or after `day` (before it, if
    `count` is negative).
    """
    hours = trading_hours()
    return hours.day(int(np.searchsorted(hours.days, np.datetime64(day))) + count)


def session_before(day: date) -> date:
    """Return the last session on or before a day."""
    return trading_hours().last_expiry_session(day)


def new_york(day: date, hour: int, minute: int = 0) -> int:
    """Convert a local time in New York on a session day to a timestamp. The UTC offset follows from
    the session's open.
    """
    hours = trading_hours()
    row = hours.row_of(day)
    if row is None:
        raise DataError(f"synthetic market: {day} is not a trading day")
    return int(hours.open_ns[row]) + (hour * 60 + minute - _OPENS_AT) * MINUTE


def stream(seed: int, *words: str) -> np.random.Generator:
    """Return a random stream for one part, so that parts do not affect each other."""
    return np.random.default_rng(derive_seed(seed, "qfinzero", *words))


def variance_shape(grid: MinuteGrid) -> FloatArray:
    """Return the [D, W] fraction of a day's intraday variance in each minute: U-shaped for
    sessions, flat for 24-hour days.
    """
    return _shape(grid, 2.4, 22.0, 0.9, 25.0)


def volume_shape(grid: MinuteGrid) -> FloatArray:
    """Return the [D, W] fraction of a day's trades in each minute: U-shaped, with a rush into the
    close.
    """
    return _shape(grid, 2.2, 30.0, 2.6, 14.0)


def _shape(
    grid: MinuteGrid, opening: float, opening_minutes: float, closing: float, closing_minutes: float
) -> FloatArray:
    minute = np.arange(grid.width, dtype=np.float64)
    rows: dict[int, FloatArray] = {}
    for length in np.unique(grid.lengths):
        weight = 1.0 + 0.25 * np.cos(2 * np.pi * (minute - 900) / DAY_MINUTES)
        if grid.width == SESSION_MINUTES:
            weight = (
                1.0
                + opening * np.exp(-minute / opening_minutes)
                + closing * np.exp(-(length - 1 - minute) / closing_minutes)
            )

        weight = np.where(minute < length, weight, 0.0)
        rows[int(length)] = weight / weight.sum()

    return np.stack([rows[int(length)] for length in grid.lengths])
