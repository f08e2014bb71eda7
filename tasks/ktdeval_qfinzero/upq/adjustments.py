"""Prices and volumes of stocks, adjusted for splits and dividends.

An event is applied once the session of its ex-day has opened; announced future events have no
effect. The newest bars stay unadjusted, and older bars are scaled for all events with an ex-day
after the bar:

    price × old / new and volume × new / old      for each split of `new` shares for `old`,
    price × (1 − cash / previous close)           for each ex-day of dividends, if these are adjusted for too.

The previous close is the unadjusted close of the last daily bar before the ex-day; if a split has
the same ex-day, it is expressed in shares after the split. For an ex-day without a session, the
next session is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

import numpy as np

from ktdeval_qfinzero.data.rows import FloatArray, IntArray, MomentSpan, Resolution
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import day_start
from ktdeval_qfinzero.upq.arguments import Mode


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Effect of one event on the bars before it."""

    ticker: str  #: ticker of the stock
    kind: Literal["split", "dividend"]  #: type of event
    ex_day: date  #: first ex trading day
    ex_ns: int  #: time from which minute bars are ex
    #: factor for earlier prices; None, without effect, for a dividend that is not below a known
    #: previous close
    price_factor: float | None
    volume_factor: float  #: factor for earlier volumes

    def before_ns(self, resolution: Resolution) -> int:
        """Return the start of the first bar that is no longer adjusted."""
        return day_start(self.ex_day) if resolution == "day" else self.ex_ns


def adjustments(view: DatasetView, ticker: str, mode: Mode) -> tuple[Adjustment, ...]:
    """Return the events in effect at the view's time, sorted by ex-day."""
    if mode == "none":
        return ()

    events = _splits(view, ticker)
    if mode == "total":
        events += _dividends(view, ticker, events)

    return tuple(sorted(events, key=_event_order))


def _event_order(event: Adjustment) -> tuple[date, str, float]:
    return event.ex_day, event.kind, event.volume_factor


def factors(
    events: Sequence[Adjustment], start_ns: IntArray, resolution: Resolution
) -> tuple[FloatArray, FloatArray]:
    """Return the [n] factors for the prices and for the volumes of bars with these starts."""
    price = np.ones(len(start_ns))
    volume = np.ones(len(start_ns))
    for event in events:
        earlier = int(np.searchsorted(start_ns, event.before_ns(resolution)))
        volume[:earlier] *= event.volume_factor
        if event.price_factor is not None:
            price[:earlier] *= event.price_factor

    return price, volume


def _ex_session(view: DatasetView, ex_day: date) -> tuple[date, int] | None:
    """Return the first session that excludes the event, and the time from which minute bars do;
    None if the session has not opened yet.
    """
    hours = view.hours
    row = int(np.searchsorted(hours.days, np.datetime64(ex_day)))
    if row == len(hours.days) or hours.open_ns[row] > view.as_of_ns:
        return None
    return hours.day(row), hours.ex_ns(row)


def _splits(view: DatasetView, ticker: str) -> list[Adjustment]:
    events: list[Adjustment] = []
    for row in view.splits(ticker):
        ex_session = _ex_session(view, row.ex_day)
        if ex_session is not None:
            ex_day, ex_ns = ex_session
            events.append(
                Adjustment(ticker, "split", ex_day, ex_ns, row.old / row.new, row.new / row.old)
            )

    return events


def _dividends(view: DatasetView, ticker: str, splits: Sequence[Adjustment]) -> list[Adjustment]:
    """Return one event per ex-day, with the day's total cash."""
    cash: dict[tuple[date, int], int] = {}
    for row in view.dividends(ticker):
        ex_session = _ex_session(view, row.ex_day)
        if ex_session is not None:
            cash[ex_session] = cash.get(ex_session, 0) + row.amount_e4

    if not cash:
        return []

    last_day, _ = max(cash)
    bars = view.bars("stock", ticker, "day", MomentSpan(0, day_start(last_day)))
    events: list[Adjustment] = []
    for (ex_day, ex_ns), amount_e4 in cash.items():
        before = int(np.searchsorted(bars.start_ns, day_start(ex_day))) - 1
        close_e4 = float(bars.close_e4[before]) if before >= 0 else 0.0
        for split in splits:
            if split.ex_day == ex_day:
                close_e4 /= split.volume_factor

        factor = 1 - amount_e4 / close_e4 if close_e4 > amount_e4 else None
        events.append(Adjustment(ticker, "dividend", ex_day, ex_ns, factor, 1.0))

    return events
