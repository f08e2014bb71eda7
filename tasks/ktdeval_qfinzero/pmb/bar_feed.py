"""Ticks of the exchange's schedule, the bars of one trading day as matrices, and forward-filled
marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache

import numpy as np

from ktdeval_qfinzero.data.rows import AssetClass, Bars, IntArray, MomentSpan, Resolution
from ktdeval_qfinzero.data.stored_market import StoredPrices
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.pmb.broker_types import Bar, Frequency, Instrument
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start, parse_moment
from ktdeval_qfinzero.trading_hours import TradingHours

_DAYS_AHEAD = 40
"""Number of trading days that must follow any time: an unmet margin call may last 30 of them."""


@cache
def _ticks_before(hours: TradingHours) -> IntArray:
    """Return the [n + 1] cumulative minutes of all sessions before each session."""
    return np.concatenate(([0], np.cumsum((hours.close_ns - hours.open_ns) // MINUTE)))


def ticks_by(hours: TradingHours, ns: int, frequency: Frequency) -> int:
    """Return the number of calendar ticks at or before a point in time."""
    row = int(np.searchsorted(hours.close_ns, ns, side="right"))
    if frequency == "1d":
        return row
    inside = 0 if row == len(hours.open_ns) else max(0, (ns - int(hours.open_ns[row])) // MINUTE)
    return int(_ticks_before(hours)[row]) + inside


def tick_at(hours: TradingHours, number: int, frequency: Frequency) -> int:
    """Return the time of a tick; the calendar's first tick has number 1. Raises ServiceError
    `invalid_argument` if the calendar ends before the tick.
    """
    counts = _ticks_before(hours)
    last = len(hours.close_ns) if frequency == "1d" else int(counts[-1])
    if not 1 <= number <= last:
        raise invalid("step", "the trading calendar ends before; take fewer steps")
    if frequency == "1d":
        return int(hours.close_ns[number - 1])

    row = int(np.searchsorted(counts, number)) - 1
    return int(hours.open_ns[row]) + (number - int(counts[row])) * MINUTE


def day_order_end(hours: TradingHours, now_ns: int, frequency: Frequency) -> int:
    """Return when a DAY order placed at `now_ns` expires: at the close of the trading day of the
    first bar on which it can fill.
    """
    last_starts = hours.open_ns if frequency == "1d" else hours.close_ns - MINUTE
    return int(hours.close_ns[int(np.searchsorted(last_starts, now_ns))])


def read_end(hours: TradingHours, text: str, field: str) -> int:
    """Parse a time, or a day, which means its end including the last tick. In a market that
    never closes, the last tick is at the following midnight. Raises ServiceError `invalid_argument`
    if the string is neither.
    """
    end_ns = parse_moment(text, field, end_of_day=True)
    return end_ns + int(end_ns + 1 in hours.close_ns)


def require_reach(hours: TradingHours, ns: int, field: str) -> None:
    """Refuse times so late that settlement and margin-call days would lie beyond the end of the
    calendar. Raises ServiceError `invalid_argument`.
    """
    if ns >= int(hours.open_ns[-_DAYS_AHEAD]):
        raise invalid(
            field,
            f"the broker's calendar ends at the open of {hours.day(len(hours.days) - _DAYS_AHEAD)}",
        )


NEVER = 1 << 30
"""A number later than any tick of a day."""
_MAX_BARS = 1_000_000
_MAX_DAYS: Mapping[Frequency, int] = {"1m": 21, "1d": 252}
_RESOLUTION: Mapping[Frequency, Resolution] = {"1m": "minute", "1d": "day"}
_BAR_FIELDS = ("open_e4", "high_e4", "low_e4", "close_e4", "volume")


@dataclass(frozen=True, eq=False)
class DayFrame:
    """One trading day of a session with n instruments and t ticks. A tick is the end of a bar.
    Values are 0 if an instrument has no bar.
    """

    day: date
    start_ns: IntArray  # [t]
    tick_ns: IntArray  # [t]
    instruments: tuple[Instrument, ...]
    column: Mapping[str, int]  # by instrument id
    open_e4: IntArray  # [t, n], as are the next four
    high_e4: IntArray
    low_e4: IntArray
    close_e4: IntArray
    volume: IntArray
    # [t + 1, n] marks: row 0 at the open, row k + 1 after tick k; 0 if there has never been a price
    marks: IntArray

    def bar(self, tick: int, column: int) -> Bar:
        """Return an instrument's bar at a tick."""
        return Bar(*(int(getattr(self, name)[tick, column]) for name in _BAR_FIELDS))

    def marks_at(self, row: int) -> dict[str, int]:
        """Return the marks in a row, keyed by instrument id, without instruments that have never
        had a price.
        """
        return {
            name: mark
            for name, mark in zip(self.column, self.marks[row].tolist(), strict=True)
            if mark
        }


@dataclass(frozen=True, slots=True)
class BarFeed:
    """Reader of bars that reads some days ahead, to query the stores less often. Bars are used only
    through frames, which are read tick by tick.
    """

    prices: StoredPrices
    hours: TradingHours  # calendar of the dataset
    frequency: Frequency  # frequency of the session
    last_row: int  # last trading day needed, as a calendar row
    _chunks: dict[Instrument, tuple[range, Bars]] = field(default_factory=dict)

    def frame(
        self, row: int, instruments: Sequence[Instrument], carried: Mapping[str, int]
    ) -> DayFrame:
        """Return one day's bars for some instruments.

        `row`: calendar row of the day; `instruments`: columns; `carried`: instrument id -> mark at
        the open.
        """
        hours = self.hours
        start_ns, tick_ns = bar_times(hours, row, self.frequency)
        shape = (len(_BAR_FIELDS), len(instruments), len(tick_ns))
        table = np.zeros(shape, np.int64)

        for column, instrument in enumerate(instruments):
            self._fill(table[:, column], row, start_ns, instrument, len(instruments))

        opened = np.array([carried.get(instrument.id, 0) for instrument in instruments], np.int64)
        columns = {instrument.id: column for column, instrument in enumerate(instruments)}
        open_e4, high_e4, low_e4, close_e4, volume = (values.T for values in table)
        marks = _carry_forward(opened, table[3]).T

        return DayFrame(
            hours.day(row),
            start_ns,
            tick_ns,
            tuple(instruments),
            columns,
            open_e4,
            high_e4,
            low_e4,
            close_e4,
            volume,
            marks,
        )

    def _fill(
        self, target: IntArray, row: int, start_ns: IntArray, instrument: Instrument, count: int
    ) -> None:
        bars = self._bars(row, instrument, count)
        if self.frequency == "1m":
            ticks, off = np.divmod(bars.start_ns - start_ns[0], MINUTE)
            inside = (off == 0) & (ticks >= 0) & (ticks < len(start_ns))
            if not inside.all():
                bars = bars.take(inside)
                ticks = ticks[inside]
        else:
            ticks = np.zeros(len(bars), np.int64)

        for index, name in enumerate(_BAR_FIELDS):
            target[index, ticks] = getattr(bars, name)

    def _bars(self, row: int, instrument: Instrument, count: int) -> Bars:
        """Return the bars of a day, from a chunk of several days."""
        hours = self.hours
        chunk = self._chunks.get(instrument)
        if chunk is None or row not in chunk[0]:
            per_day = (
                1
                if self.frequency == "1d"
                else max(1, int(hours.close_ns[row] - hours.open_ns[row]) // MINUTE)
            )
            length = max(1, min(_MAX_DAYS[self.frequency], _MAX_BARS // (per_day * count)))
            rows = range(row, max(row, min(row + length - 1, self.last_row)) + 1)
            span = MomentSpan(self._span(hours, row).start_ns, self._span(hours, rows[-1]).end_ns)
            asset_class: AssetClass = "stock" if instrument.kind == "STOCK" else "option"
            chunk = (
                rows,
                self.prices.bars(asset_class, instrument.symbol, _RESOLUTION[self.frequency], span),
            )
            self._chunks[instrument] = chunk

        span = self._span(hours, row)
        first, stop = np.searchsorted(chunk[1].start_ns, (span.start_ns, span.end_ns))
        return chunk[1].take(slice(int(first), int(stop)))

    def _span(self, hours: TradingHours, row: int) -> MomentSpan:
        if self.frequency == "1m":
            return MomentSpan(int(hours.open_ns[row]), int(hours.close_ns[row]))
        midnight = day_start(hours.day(row))
        return MomentSpan(midnight, midnight + DAY)


def bar_times(hours: TradingHours, row: int, frequency: Frequency) -> tuple[IntArray, IntArray]:
    """Return the (starts, ends) of a day's bars. A daily bar spans the session from its open to its
    close.
    """
    if frequency == "1d":
        return hours.open_ns[row : row + 1], hours.close_ns[row : row + 1]
    starts = hours.minutes(row)
    return starts, starts + MINUTE


def _carry_forward(opened: IntArray, close_e4: IntArray) -> IntArray:
    """Return the [n, t + 1] marks: the mark at the open, then the last close so far."""
    prices = np.concatenate((opened[:, None], close_e4), axis=1)
    last = np.maximum.accumulate(np.where(prices > 0, np.arange(prices.shape[1]), 0), axis=1)
    return np.take_along_axis(prices, last, axis=1)
