"""Prices and volumes adjusted for splits and dividends, as of the clock.

An event counts once the session of its ex-day has opened; what is announced for later changes nothing. The newest bars stay as they
were traded, older ones are scaled:

    price × old / new and volume × new / old      for each split of `new` shares for `old`,
    price × (1 − cash / previous close)           for each ex-day of dividends, where these are adjusted for too,

for all events with an ex-day after the bar. Previous close: of the last daily bar before the ex-day, unadjusted; in shares after
the split where a split has the same ex-day. An ex-day without a session stands for the next one that has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

import numpy as np

from ktdeval_qfinzero.data.rows import FloatArray, IntArray, Resolution
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.moments import MINUTE, as_datetime64, day_start
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.upq.arguments import Mode
from ktdeval_qfinzero.view import View

_EARLY_TRADING = 330 * MINUTE  #: Trading before the session's open, which is ex already: from 04:00 in New York


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Effect of one event on the bars before it."""

    ticker: str  #: of the stock
    kind: Literal["split", "dividend"]  #: `split` or `dividend`
    ex_day: date  #: the first trading day whose prices are without it
    open_ns: int  #: the open of its session
    #: what earlier prices are multiplied with; None of a dividend without a previous close above it, which changes nothing
    price_factor: float | None
    volume_factor: float  #: what earlier volumes are multiplied with

    def before_ns(self, resolution: Resolution) -> int:
        """Start of the first bar that is not changed any more."""
        return day_start(self.ex_day) if resolution == "day" else self.open_ns - _EARLY_TRADING


def adjustments(view: View, ticker: str, mode: Mode) -> tuple[Adjustment, ...]:
    """Events that count at the view's moment, by ex-day."""
    if mode == "none":
        return ()
    splits = [
        Adjustment(ticker, "split", *ex, row.old / row.new, row.new / row.old)
        for row in view.splits(ticker)
        if (ex := _ex_session(row.ex_day, view.as_of_ns)) is not None
    ]
    dividends = _dividends(view, ticker, splits) if mode == "total" else []
    return tuple(sorted(splits + dividends, key=lambda event: (event.ex_day, event.kind, event.volume_factor)))


def factors(events: Sequence[Adjustment], start_ns: IntArray, resolution: Resolution) -> tuple[FloatArray, FloatArray]:
    """[n] what the prices and the volumes of bars that start then are multiplied with."""
    price, volume = np.ones(len(start_ns)), np.ones(len(start_ns))
    for event in events:
        earlier = int(np.searchsorted(start_ns, event.before_ns(resolution)))
        price[:earlier] *= 1.0 if event.price_factor is None else event.price_factor
        volume[:earlier] *= event.volume_factor
    return price, volume


def _ex_session(ex_day: date, as_of_ns: int) -> tuple[date, int] | None:
    """First session without the event, and its open; None where it has not opened yet."""
    hours = trading_hours()
    row = int(np.searchsorted(hours.days, as_datetime64(ex_day)))
    if row == len(hours.days) or hours.open_ns[row] > as_of_ns:
        return None
    return hours.day(row), int(hours.open_ns[row])


def _dividends(view: View, ticker: str, splits: Sequence[Adjustment]) -> list[Adjustment]:
    """One event for each ex-day, of all the cash of that day."""
    cash: dict[tuple[date, int], int] = {}
    for row in view.dividends(ticker):
        if (ex := _ex_session(row.ex_day, view.as_of_ns)) is not None:
            cash[ex] = cash.get(ex, 0) + row.amount_e4
    if not cash:
        return []
    bars = view.bars("stock", ticker, "day", Span(0, day_start(max(cash)[0])))
    found = []
    for (ex_day, open_ns), amount_e4 in cash.items():
        before = int(np.searchsorted(bars.start_ns, day_start(ex_day))) - 1
        close_e4 = float(bars.close_e4[before]) if before >= 0 else 0.0
        for split in splits:
            close_e4 /= split.volume_factor if split.ex_day == ex_day else 1.0
        factor = 1 - amount_e4 / close_e4 if close_e4 > amount_e4 else None
        found.append(Adjustment(ticker, "dividend", ex_day, open_ns, factor, 1.0))
    return found
