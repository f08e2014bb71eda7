"""Bars of stocks and coins: pages of rows by ticker and time, adjusted and with indicators where asked for; bars of several
minutes, counted from the session's open and a lunch break's end, of coins from midnight in UTC.

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
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.data.rows import E4, AssetClass, Bars, FloatArray, IntArray, Resolution, Span, grouped
from ktdeval_qfinzero.moments import MINUTE, day_start, moment_text
from ktdeval_qfinzero.schemas import read_cursor, write_cursor
from ktdeval_qfinzero.upq import columns, types
from ktdeval_qfinzero.upq.columns import Rows, indicator_columns, read_indicators
from ktdeval_qfinzero.upq.types import VALUES, read_days, read_moments, read_names, read_tickers, span_of
from ktdeval_qfinzero.view import View


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Effect of one event on the bars before it."""

    ticker: str  #: of the stock
    kind: Literal["split", "dividend"]  #: type of event
    ex_day: date  #: the first trading day whose prices are without it
    ex_ns: int  #: when minutes begin to be without it
    #: what earlier prices are multiplied with; None of a dividend without a previous close above it, which changes nothing
    price_factor: float | None
    volume_factor: float  #: what earlier volumes are multiplied with

    def before_ns(self, resolution: Resolution) -> int:
        """Start of the first bar that is not changed any more."""
        return day_start(self.ex_day) if resolution == "day" else self.ex_ns


def adjustments(view: View, ticker: str, mode: types.Mode) -> tuple[Adjustment, ...]:
    """Events that count at the view's moment, by ex-day."""
    if mode == "none":
        return ()
    splits = [
        Adjustment(ticker, "split", *ex, row.old / row.new, row.new / row.old)
        for row in view.splits(ticker)
        if (ex := _ex_session(view, row.ex_day)) is not None
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


def _ex_session(view: View, ex_day: date) -> tuple[date, int] | None:
    """First session without the event, and from when on minutes are without it; None where it has not opened yet."""
    hours = view.hours
    row = int(np.searchsorted(hours.days, np.datetime64(ex_day)))
    if row == len(hours.days) or hours.open_ns[row] > view.as_of_ns:
        return None
    return hours.day(row), hours.ex_ns(row)


def _dividends(view: View, ticker: str, splits: Sequence[Adjustment]) -> list[Adjustment]:
    """One event for each ex-day, of all the cash of that day."""
    cash: dict[tuple[date, int], int] = {}
    for row in view.dividends(ticker):
        if (ex := _ex_session(view, row.ex_day)) is not None:
            cash[ex] = cash.get(ex, 0) + row.amount_e4
    if not cash:
        return []
    bars = view.bars("stock", ticker, "day", Span(0, day_start(max(cash)[0])))
    events = []
    for (ex_day, ex_ns), amount_e4 in cash.items():
        before = int(np.searchsorted(bars.start_ns, day_start(ex_day))) - 1
        close_e4 = float(bars.close_e4[before]) if before >= 0 else 0.0
        for split in splits:
            close_e4 /= split.volume_factor if split.ex_day == ex_day else 1.0
        factor = 1 - amount_e4 / close_e4 if close_e4 > amount_e4 else None
        events.append(Adjustment(ticker, "dividend", ex_day, ex_ns, factor, 1.0))
    return events


Key = tuple[str, int]
TIME_FIELD: dict[Resolution, str] = {"day": "date", "minute": "window_start"}


@dataclass(frozen=True, slots=True)
class BarQuery:
    """Bars asked for. `asset_class, resolution`: of the bars."""

    asset_class: AssetClass
    resolution: Resolution
    tickers: tuple[str, ...]  #: in alphabetical order
    span: Span  #: in which the bars start
    fields: tuple[str, ...]  #: some of `VALUES`
    indicators: tuple[str, ...] = ()  #: as `read_indicators` gives them
    adjust: types.Mode = "none"  #: for what prices are adjusted
    limit: int = 10_000  #: most rows of a page
    step_ns: int = MINUTE  #: length of bars of minutes
    after: Key | None = None  #: key (ticker, start) of the last row of the page before

    def span_of(self, ticker: str) -> Span:
        """Moments of a ticker that are still to be given."""
        if self.after is None or ticker > self.after[0]:
            return self.span
        return Span(self.span.end_ns if ticker < self.after[0] else max(self.span.start_ns, self.after[1] + 1), self.span.end_ns)


def stock_daily(view: View, given: types.StockDays) -> types.StockDayBars:
    """Daily bars of stocks in a range of days, with indicators where asked for; a day's bar is there from its session's close."""
    adjusted, answer = _page(view, "stock", given)
    return types.StockDayBars(adjustments=adjusted, **answer)


def stock_minute(view: View, given: types.StockMinutes) -> types.StockMinuteBars:
    """Bars of stocks that start in a range of moments, of one minute or of 5 to 60."""
    adjusted, answer = _page(view, "stock", given)
    return types.StockMinuteBars(adjustments=adjusted, **answer)


def crypto_daily(view: View, given: types.CoinDays) -> types.CoinDayBars:
    """Daily bars of coins, midnight to midnight in UTC on every day of the week, with indicators where asked for."""
    return types.CoinDayBars(**_page(view, "crypto", given)[1])


def crypto_minute(view: View, given: types.CoinMinutes) -> types.CoinMinuteBars:
    """Bars of coins, which trade day and night, that start in a range of moments, of one minute or of 5 to 60."""
    return types.CoinMinuteBars(**_page(view, "crypto", given)[1])


def _page(view: View, asset_class: AssetClass, given: Any) -> tuple[list[types.AdjustmentShown], dict[str, Any]]:
    """(events that changed any of the rows, the rest of the answer) of one of the four calls above."""
    minutes = getattr(given, "interval", None)
    resolution: Resolution = "minute" if minutes else "day"
    asked = read_tickers(given.tickers)
    listed = {row.symbol for row in view.symbols() if row.asset_class == asset_class}
    names = read_names(given.fields, "fields", ("ticker", TIME_FIELD[resolution], *VALUES))
    span = read_moments(given.start, given.end) if minutes else span_of(*read_days(given.start, given.end))
    after = None if given.cursor is None else cast("Key", read_cursor(given.cursor, (str, int)))
    query = BarQuery(
        asset_class,
        resolution,
        tuple(ticker for ticker in asked if ticker in listed),
        span,
        tuple(name for name in names if name in VALUES),
        read_indicators(getattr(given, "indicators", None)),
        getattr(given, "adjust", "none"),
        given.limit,
        int(minutes.removesuffix("m")) * MINUTE if minutes else MINUTE,
        after,
    )
    rows, applied, next_cursor = bar_rows(view, query)
    unknown = [ticker for ticker in asked if ticker not in listed]
    adjusted = [
        types.AdjustmentShown(each.ticker, each.kind, str(each.ex_day), each.price_factor, each.volume_factor) for each in applied
    ]
    return adjusted, {"as_of_ts": moment_text(view.as_of_ns), "bars": rows, "unknown": unknown, "next_cursor": next_cursor}


def bar_rows(view: View, query: BarQuery) -> tuple[Rows, list[Adjustment], str | None]:
    """Rows of a page, the events that changed any of them, and the cursor of the next page."""
    rows: Rows = []
    applied: list[Adjustment] = []
    last_key: Key | None = None
    for ticker in query.tickers:
        bars = _bars(view, query, ticker)
        room = query.limit - len(rows)
        if room and len(bars):
            page = bars.take(slice(0, room))
            last_key = (ticker, int(page.start_ns[-1]))
            events = adjustments(view, ticker, query.adjust)
            applied += [event for event in events if event.before_ns(query.resolution) > page.start_ns[0]]
            rows += columns.to_rows(_columns(view, query, ticker, page, events))
        if len(bars) > room and last_key is not None:
            return rows, applied, write_cursor(*last_key)
    return rows, applied, None


def _bars(view: View, query: BarQuery, ticker: str) -> Bars:
    """Bars of a ticker that are still to be given, as known at the view's moment; of several minutes, the last may still grow."""
    span, step_ns = query.span_of(ticker), query.step_ns
    if step_ns == MINUTE:
        return view.bars(query.asset_class, ticker, query.resolution, span)
    minutes = view.bars(query.asset_class, ticker, "minute", Span(span.start_ns, span.end_ns + step_ns - MINUTE))
    start_ns, _ = _interval_of(view, query.asset_class, minutes.start_ns, step_ns)
    inside = (start_ns >= span.start_ns) & (start_ns < span.end_ns)
    minutes, start_ns = minutes.take(inside), start_ns[inside]
    if not len(minutes):
        return minutes
    first = np.flatnonzero(np.diff(start_ns, prepend=start_ns[0] - 1))
    return grouped(minutes, first, start_ns[first])


def _columns(view: View, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]) -> dict[str, columns.Column]:
    price, volume = factors(events, bars.start_ns, query.resolution) if events else (None, None)
    values: dict[str, columns.Column] = {"ticker": [ticker] * len(bars)}
    values[TIME_FIELD[query.resolution]] = (columns.days if query.resolution == "day" else columns.moments)(bars.start_ns)
    if query.step_ns > MINUTE:
        ends, whole = _interval_ends(view, query.asset_class, bars.start_ns, query.step_ns)
        values |= {"window_end": columns.moments(ends), "is_whole": whole.tolist()}
    values |= {name: columns.bar_value(bars, name, price, volume) for name in query.fields}
    if query.indicators:
        values |= {name: columns.numbers(series) for name, series in _indicators(view, query, ticker, bars, events).items()}
    return values


def _indicators(view: View, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]) -> dict[str, FloatArray]:
    history = view.bars(query.asset_class, ticker, query.resolution, Span(0, int(bars.start_ns[-1]) + 1))
    closes = history.close_e4 / E4 * factors(events, history.start_ns, query.resolution)[0]
    rows = np.searchsorted(history.start_ns, bars.start_ns)
    return {name: values[rows] for name, values in indicator_columns(query.indicators, closes).items()}


def _interval_ends(view: View, asset_class: AssetClass, start_ns: IntArray, step_ns: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """[n] until when bars reach, at most to a break, a close and the view's moment; and which reach over a whole `step_ns`."""
    ends = np.minimum(_interval_of(view, asset_class, start_ns, step_ns)[1], view.as_of_ns // MINUTE * MINUTE)
    return ends, ends == start_ns + step_ns


def _interval_of(view: View, asset_class: AssetClass, ns: IntArray, step_ns: int) -> tuple[IntArray, IntArray]:
    """([n] start, [n] end) of the bar that a moment lies in, counted from the beginning of trading that runs or comes next. None
    reaches over the end of trading: what is traded after it has bars of its own.
    """
    if asset_class == "crypto":
        return ns - ns % step_ns, ns - ns % step_ns + step_ns
    hours = view.hours
    row = np.searchsorted(hours.end_ns, ns, side="right")
    start_ns = ns - (ns - hours.begin_ns[row]) % step_ns
    closed_ns = np.where(row > 0, hours.end_ns[row - 1], 0)
    return np.maximum(start_ns, closed_ns), np.minimum(start_ns + step_ns, hours.end_ns[row])
