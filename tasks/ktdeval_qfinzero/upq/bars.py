"""Bars of stocks and coins: pages of rows by ticker and time, adjusted and with indicators where asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ktdeval_qfinzero.data.rows import E4, AssetClass, Bars, FloatArray, Resolution
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.paging import read_cursor, write_cursor
from ktdeval_qfinzero.upq import columns
from ktdeval_qfinzero.upq.adjustments import Adjustment, adjustments, factors
from ktdeval_qfinzero.upq.answers import AdjustmentShown, CoinDayBars, CoinMinuteBars, Rows, StockDayBars, StockMinuteBars
from ktdeval_qfinzero.upq.arguments import (
    VALUES,
    CoinDays,
    CoinMinutes,
    Mode,
    StockDays,
    StockMinutes,
    read_days,
    read_moments,
    read_names,
    read_tickers,
    span_of,
)
from ktdeval_qfinzero.upq.indicators import indicator_columns, read_indicators
from ktdeval_qfinzero.view import View

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
    adjust: Mode = "none"  #: for what prices are adjusted
    limit: int = 10_000  #: most rows of a page
    after: tuple[str, int] | None = None  #: key (ticker, start) of the last row of the page before

    def span_of(self, ticker: str) -> Span:
        """Moments of a ticker that are still to be given."""
        if self.after is None or ticker > self.after[0]:
            return self.span
        first = self.span.end_ns if ticker < self.after[0] else max(self.span.start_ns, self.after[1] + 1)
        return Span(first, self.span.end_ns)


def stock_daily(view: View, given: StockDays) -> StockDayBars:
    """Daily bars of stocks in a range of days, with indicators where asked for; a day's bar is there from its session's close."""
    rows, adjusted, rest = _page(view, "stock", given, given.indicators, given.adjust)
    return StockDayBars(bars=rows, adjustments=adjusted, **rest)


def stock_minute(view: View, given: StockMinutes) -> StockMinuteBars:
    """Minute bars of stocks that start in a range of moments."""
    rows, adjusted, rest = _page(view, "stock", given, adjust=given.adjust)
    return StockMinuteBars(bars=rows, adjustments=adjusted, **rest)


def crypto_daily(view: View, given: CoinDays) -> CoinDayBars:
    """Daily bars of coins, midnight to midnight in UTC on every day of the week, with indicators where asked for."""
    rows, _, rest = _page(view, "crypto", given, given.indicators)
    return CoinDayBars(bars=rows, **rest)


def crypto_minute(view: View, given: CoinMinutes) -> CoinMinuteBars:
    """Minute bars of coins, which trade day and night, that start in a range of moments."""
    rows, _, rest = _page(view, "crypto", given)
    return CoinMinuteBars(bars=rows, **rest)


class _Common(TypedDict):
    """Parts of an answer that all pages of bars have."""

    as_of_ts: str
    unknown: list[str]
    next_cursor: str | None


def _page(
    view: View,
    asset_class: AssetClass,
    given: StockDays | StockMinutes | CoinDays | CoinMinutes,
    indicators: str | None = None,
    adjust: Mode = "none",
) -> tuple[Rows, list[AdjustmentShown], _Common]:
    """(rows, events that changed any of them, the rest of the answer)."""
    by_day = isinstance(given, StockDays | CoinDays)
    resolution: Resolution = "day" if by_day else "minute"
    asked, time_field = read_tickers(given.tickers), TIME_FIELD[resolution]
    listed = {row.symbol for row in view.symbols() if row.asset_class == asset_class}
    names = read_names(given.fields, "fields", ("ticker", time_field, *VALUES))
    query = BarQuery(
        asset_class,
        resolution,
        tuple(ticker for ticker in asked if ticker in listed),
        span_of(*read_days(given.start, given.end)) if by_day else read_moments(given.start, given.end),
        tuple(name for name in names if name in VALUES),
        read_indicators(indicators),
        adjust,
        given.limit,
        _read_key(given.cursor),
    )
    rows, applied, next_cursor = bar_rows(view, query)
    unknown = [ticker for ticker in asked if ticker not in listed]
    rest = _Common(as_of_ts=moment_text(view.as_of_ns), unknown=unknown, next_cursor=next_cursor)
    return rows, [_shown(event) for event in applied], rest


def bar_rows(view: View, query: BarQuery) -> tuple[Rows, list[Adjustment], str | None]:
    """Rows of a page, the events that changed any of them, and the cursor of the next page."""
    rows: Rows = []
    applied: list[Adjustment] = []
    last_key: tuple[str, int] | None = None
    for ticker in query.tickers:
        bars = view.bars(query.asset_class, ticker, query.resolution, query.span_of(ticker))
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


def _columns(view: View, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]) -> dict[str, columns.Column]:
    price, volume = factors(events, bars.start_ns, query.resolution) if events else (None, None)
    found: dict[str, columns.Column] = {"ticker": [ticker] * len(bars)}
    found[TIME_FIELD[query.resolution]] = (columns.days if query.resolution == "day" else columns.moments)(bars.start_ns)
    found |= {name: columns.bar_value(bars, name, price, volume) for name in query.fields}
    if query.indicators:
        found |= {name: columns.numbers(values) for name, values in _indicators(view, query, ticker, bars, events).items()}
    return found


def _indicators(view: View, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]) -> dict[str, FloatArray]:
    """Indicators of some bars, from the whole history before them."""
    history = view.bars(query.asset_class, ticker, query.resolution, Span(0, int(bars.start_ns[-1]) + 1))
    closes = history.close_e4 / E4 * factors(events, history.start_ns, query.resolution)[0]
    rows = np.searchsorted(history.start_ns, bars.start_ns)
    return {name: values[rows] for name, values in indicator_columns(query.indicators, closes).items()}


def _read_key(cursor: str | None) -> tuple[str, int] | None:
    if cursor is None:
        return None
    ticker, start_ns = read_cursor(cursor, (str, int))
    return str(ticker), int(start_ns)


def _shown(event: Adjustment) -> AdjustmentShown:
    return AdjustmentShown(
        ticker=event.ticker,
        kind=event.kind,
        ex_date=event.ex_day.isoformat(),
        price_factor=event.price_factor,
        volume_factor=event.volume_factor,
    )
