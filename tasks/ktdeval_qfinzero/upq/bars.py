"""Bars of stocks and crypto assets: pages of rows by ticker and time, with adjustments and
indicators on request.

Bars of several minutes are aligned to the session's open and to the end of a lunch break, or to
midnight UTC for crypto assets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from ktdeval_qfinzero.cursors import read_cursor, write_cursor
from ktdeval_qfinzero.data.rows import (
    E4,
    AssetClass,
    Bars,
    FloatArray,
    IntArray,
    MomentSpan,
    Resolution,
    group_bars,
)
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import MINUTE
from ktdeval_qfinzero.upq import answers, arguments, rows_and_indicators
from ktdeval_qfinzero.upq.adjustments import Adjustment, adjustments, factors
from ktdeval_qfinzero.upq.argument_parsing import (
    read_days,
    read_moments,
    read_names,
    read_tickers,
    span_of,
)
from ktdeval_qfinzero.upq.arguments import VALUES
from ktdeval_qfinzero.upq.rows_and_indicators import Rows, indicator_columns, read_indicators

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class BarQuery:
    """Query for bars of one `asset_class` and `resolution`."""

    asset_class: AssetClass
    resolution: Resolution
    tickers: tuple[str, ...]  #: in alphabetical order
    span: MomentSpan  #: span in which the bars start
    fields: tuple[str, ...]  #: some of `VALUES`
    indicators: tuple[str, ...] = ()  #: as returned by `read_indicators`
    adjust: arguments.Mode = "none"  #: adjustment of prices
    limit: int = 10_000  #: maximum number of rows per page
    step_ns: int = MINUTE  #: length of minute bars
    after: Key | None = None  #: key (ticker, start) of the previous page's last row

    def span_of(self, ticker: str) -> MomentSpan:
        """Return the span that remains to be read for a ticker."""
        if self.after is None or ticker > self.after[0]:
            return self.span
        if ticker < self.after[0]:
            return MomentSpan(self.span.end_ns, self.span.end_ns)

        return MomentSpan(max(self.span.start_ns, self.after[1] + 1), self.span.end_ns)


@dataclass(frozen=True, slots=True)
class BarPage:
    """A page of bars."""

    rows: Rows
    applied: list[Adjustment]  #: events that changed any of the rows
    next_cursor: str | None


def stock_daily(view: DatasetView, given: arguments.StockDays) -> answers.StockDayPage:
    """Daily bars of stocks in a range of days, with indicators where asked for; a day's bar is
    there from its session's close.
    """
    asked = read_tickers(given.tickers)
    listed = _listed_tickers(view, "stock", asked)
    page = bar_rows(view, _query_of_days("stock", listed, given, given.adjust))

    return answers.StockDayPage(
        bars=cast("list[answers.DayBar]", page.rows),
        unknown=_unlisted_tickers(asked, listed),
        adjustments=[_adjustment_shown(event) for event in page.applied],
        next_cursor=page.next_cursor,
    )


def stock_minute(view: DatasetView, given: arguments.StockMinutes) -> answers.StockMinutePage:
    """Bars of stocks that start in a range of moments, of one minute or of 5 to 60."""
    asked = read_tickers(given.tickers)
    listed = _listed_tickers(view, "stock", asked)
    page = bar_rows(view, _query_of_minutes("stock", listed, given, given.adjust))

    return answers.StockMinutePage(
        bars=cast("list[answers.MinuteBar]", page.rows),
        unknown=_unlisted_tickers(asked, listed),
        adjustments=[_adjustment_shown(event) for event in page.applied],
        next_cursor=page.next_cursor,
    )


def crypto_daily(view: DatasetView, given: arguments.Days) -> answers.DayPage:
    """Daily bars of coins, midnight to midnight in UTC on every day of the week, with indicators
    where asked for.
    """
    asked = read_tickers(given.tickers)
    listed = _listed_tickers(view, "crypto", asked)
    page = bar_rows(view, _query_of_days("crypto", listed, given))

    return answers.DayPage(
        bars=cast("list[answers.DayBar]", page.rows),
        unknown=_unlisted_tickers(asked, listed),
        next_cursor=page.next_cursor,
    )


def crypto_minute(view: DatasetView, given: arguments.Minutes) -> answers.MinutePage:
    """Bars of coins, which trade day and night, that start in a range of moments, of one minute or
    of 5 to 60.
    """
    asked = read_tickers(given.tickers)
    listed = _listed_tickers(view, "crypto", asked)
    page = bar_rows(view, _query_of_minutes("crypto", listed, given))

    return answers.MinutePage(
        bars=cast("list[answers.MinuteBar]", page.rows),
        unknown=_unlisted_tickers(asked, listed),
        next_cursor=page.next_cursor,
    )


def _listed_tickers(
    view: DatasetView, asset_class: AssetClass, asked: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the requested tickers that are listed as of the clock."""
    known = {row.symbol for row in view.symbols() if row.asset_class == asset_class}
    return tuple(ticker for ticker in asked if ticker in known)


def _unlisted_tickers(asked: tuple[str, ...], listed: tuple[str, ...]) -> list[str]:
    return [ticker for ticker in asked if ticker not in listed]


def _query_of_days(
    asset_class: AssetClass,
    tickers: tuple[str, ...],
    given: arguments.Days,
    adjust: arguments.Mode = "none",
) -> BarQuery:
    """Return the query for daily bars. Raises ServiceError `invalid_argument` if an argument is
    malformed.
    """
    fields = read_names(given.fields, "fields", ("ticker", "date", *VALUES))
    first, last = read_days(given.start, given.end)
    after = _read_after(given.cursor)
    return BarQuery(
        asset_class=asset_class,
        resolution="day",
        tickers=tickers,
        span=span_of(first, last),
        fields=tuple(name for name in fields if name in VALUES),
        indicators=read_indicators(given.indicators),
        adjust=adjust,
        limit=given.limit,
        after=after,
    )


def _query_of_minutes(
    asset_class: AssetClass,
    tickers: tuple[str, ...],
    given: arguments.Minutes,
    adjust: arguments.Mode = "none",
) -> BarQuery:
    """Return the query for minute bars. Raises ServiceError `invalid_argument` if an argument is
    malformed.
    """
    fields = read_names(given.fields, "fields", ("ticker", "window_start", *VALUES))
    minutes = int(given.interval.removesuffix("m"))
    return BarQuery(
        asset_class=asset_class,
        resolution="minute",
        tickers=tickers,
        span=read_moments(given.start, given.end),
        fields=tuple(name for name in fields if name in VALUES),
        adjust=adjust,
        limit=given.limit,
        step_ns=minutes * MINUTE,
        after=_read_after(given.cursor),
    )


def _read_after(cursor: str | None) -> Key | None:
    """Return the key of the row after which a page begins; None for the first page."""
    if cursor is None:
        return None
    ticker, start_ns = read_cursor(cursor, (str, int))
    return str(ticker), int(start_ns)


def _adjustment_shown(event: Adjustment) -> answers.AdjustmentShown:
    return answers.AdjustmentShown(
        ticker=event.ticker,
        kind=event.kind,
        ex_date=str(event.ex_day),
        price_factor=event.price_factor,
        volume_factor=event.volume_factor,
    )


def bar_rows(view: DatasetView, query: BarQuery) -> BarPage:
    """Return the rows of a page, the events that changed any of them, and the cursor of the next
    page.
    """
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
            first_ns = page.start_ns[0]
            applied += [each for each in events if each.before_ns(query.resolution) > first_ns]
            rows += rows_and_indicators.to_rows(_bar_columns(view, query, ticker, page, events))

        if len(bars) > room and last_key is not None:
            return BarPage(rows, applied, write_cursor(*last_key))

    return BarPage(rows, applied, None)


def _bars(view: DatasetView, query: BarQuery, ticker: str) -> Bars:
    """Return a ticker's remaining bars, as known at the view's time. If bars span several minutes,
    the last one may be incomplete.
    """
    span = query.span_of(ticker)
    step_ns = query.step_ns
    if step_ns == MINUTE:
        return view.bars(query.asset_class, ticker, query.resolution, span)

    minutes = view.bars(
        query.asset_class,
        ticker,
        "minute",
        MomentSpan(span.start_ns, span.end_ns + step_ns - MINUTE),
    )
    start_ns, _ = _interval_of(view, query.asset_class, minutes.start_ns, step_ns)
    inside = (start_ns >= span.start_ns) & (start_ns < span.end_ns)
    minutes = minutes.take(inside)
    start_ns = start_ns[inside]
    if not len(minutes):
        return minutes

    first = np.flatnonzero(np.diff(start_ns, prepend=start_ns[0] - 1))
    return group_bars(minutes, first, start_ns[first])


def _bar_columns(
    view: DatasetView, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]
) -> dict[str, rows_and_indicators.Column]:
    values: dict[str, rows_and_indicators.Column] = {"ticker": [ticker] * len(bars)}
    if query.resolution == "day":
        values["date"] = rows_and_indicators.days(bars.start_ns)
    else:
        values["window_start"] = rows_and_indicators.moments(bars.start_ns)

    if query.step_ns > MINUTE:
        ends, whole = _interval_ends(view, query.asset_class, bars.start_ns, query.step_ns)
        values["window_end"] = rows_and_indicators.moments(ends)
        values["is_whole"] = whole.tolist()

    price = volume = None
    if events:
        price, volume = factors(events, bars.start_ns, query.resolution)
    for name in query.fields:
        values[name] = rows_and_indicators.bar_value(bars, name, price, volume)

    if query.indicators:
        for name, series in _indicators(view, query, ticker, bars, events).items():
            values[name] = rows_and_indicators.numbers(series)

    return values


def _indicators(
    view: DatasetView, query: BarQuery, ticker: str, bars: Bars, events: tuple[Adjustment, ...]
) -> dict[str, FloatArray]:
    """Return the [n] indicators of the bars, keyed by column name and computed from the ticker's
    whole history.
    """
    history = view.bars(
        query.asset_class, ticker, query.resolution, MomentSpan(0, int(bars.start_ns[-1]) + 1)
    )
    price, _ = factors(events, history.start_ns, query.resolution)
    closes = history.close_e4 / E4 * price
    rows = np.searchsorted(history.start_ns, bars.start_ns)
    series = indicator_columns(query.indicators, closes)

    return {name: values[rows] for name, values in series.items()}


def _interval_ends(
    view: DatasetView, asset_class: AssetClass, start_ns: IntArray, step_ns: int
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return the [n] end of each bar, limited by breaks, closes and the view's time, and [n]
    whether each bar spans a whole `step_ns`.
    """
    ends = np.minimum(
        _interval_of(view, asset_class, start_ns, step_ns)[1], view.as_of_ns // MINUTE * MINUTE
    )
    return ends, ends == start_ns + step_ns


def _interval_of(
    view: DatasetView, asset_class: AssetClass, ns: IntArray, step_ns: int
) -> tuple[IntArray, IntArray]:
    """Return the [n] start and [n] end of the bars that contain the times `ns`.

    Bars are counted from the start of the current or next trading period. No bar extends beyond the
    end of a period, so later trades belong to bars of the next period.
    """
    if asset_class == "crypto":
        return ns - ns % step_ns, ns - ns % step_ns + step_ns

    hours = view.hours
    row = np.searchsorted(hours.end_ns, ns, side="right")
    start_ns = ns - (ns - hours.begin_ns[row]) % step_ns
    closed_ns = np.where(row > 0, hours.end_ns[row - 1], 0)

    return np.maximum(start_ns, closed_ns), np.minimum(start_ns + step_ns, hours.end_ns[row])
