"""Reader of prices, calendar events and articles in a market file, as of a point in time.

Values from users are query parameters, never part of a statement. The file is opened at the first
use, read-only, in a database that can reach no other file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from cachetools import LRUCache, cachedmethod

from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    IMPORTANCE,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DayArray,
    DealRow,
    DividendRow,
    EventRow,
    IntArray,
    MomentSpan,
    NewsRow,
    PageBounds,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
    TagFilters,
    as_known,
    cut,
    immutable,
    join,
    within_int64,
    words,
)
from ktdeval_qfinzero.data.schema import TABLES, TableName
from ktdeval_qfinzero.errors import ServiceError

CACHE_BYTES = 256 << 20
_BYTES_OF_BAR = 56  #: Seven columns of eight bytes
_BYTES_OF_ROW = 400  #: About
_COLUMNS = ", ".join(BAR_COLUMNS)
#: Bars are read and cached in windows: 2^54 ns (208 days) for one minute series, 2^58 ns (nine
#: years) for one daily series, and 2^51 ns (26 days) for all options with the same root
_WINDOW_BITS: Mapping[Resolution, int] = {"minute": 54, "day": 58}
_CHAIN_BITS = 51
_LOCK = attrgetter("_lock")
#: Errors from a damaged file, or from columns with other types
_UNREADABLE = (duckdb.Error, ValueError, OverflowError, TypeError, AttributeError)


class StoredMarket:
    """Connection to a market file, safe for threads and forks. Each query runs on one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor for one call. Raises ServiceError `unavailable` if the file is missing or
        damaged.
        """
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = open_market(self.path)
                cursor = self._connection.cursor()

            with closing(cursor):
                yield cursor
        except _UNREADABLE as error:
            message = (
                f"{self.path.name} can't be read: the dataset was updated or damaged; open it"
                " again, or check it"
            )
            raise ServiceError("unavailable", message) from error

    def rows(self, name: TableName, clauses: str = "", parameters: object = ()) -> list[Any]:
        """Return the rows of a table, sorted by its key unless `clauses` say otherwise."""
        table = TABLES[name]
        with self.cursor() as cursor:
            cells = cursor.execute(table.select("market", clauses), parameters).fetchall()
            return table.rows_of(cells)


def open_market(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a market file read-only. Raises duckdb.Error if it can't be opened."""
    connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"})
    connection.execute("SET enable_progress_bar = false")
    quoted = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS market (READ_ONLY)")
    # A file from a stranger may have views instead of tables, and views could read other files.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


@dataclass(frozen=True, slots=True)
class _Series:
    """Series of one instrument's bars in the file."""

    number: int
    first_ns: int
    last_ns: int


def _bytes_of_window(window: _Window) -> int:
    return _BYTES_OF_BAR * len(window.bars) + _BYTES_OF_ROW


@dataclass(frozen=True, slots=True)
class _Window:
    """Bars of some series that start in a window, sorted by series and start."""

    series: IntArray  #: [n]
    bars: Bars  #: [n]


class StoredPrices:
    """Prices and small tables in a market file. All arrays are read-only; at most `cache_bytes` of
    bars stay decoded.
    """

    def __init__(self, market: StoredMarket, cache_bytes: int = CACHE_BYTES) -> None:
        self._market = market
        # The lock protects only the caches, not the reading. Threads that miss at the same time all
        # read, and the cache keeps one of the equal values.
        self._lock = threading.Lock()
        self._windows: LRUCache[Any, _Window] = LRUCache(cache_bytes, _bytes_of_window)
        self._rows: LRUCache[Any, Sequence[Any]] = LRUCache(
            cache_bytes // 4, lambda rows: _BYTES_OF_ROW * (len(rows) + 1)
        )
        self._numbers: LRUCache[Any, _Series | None] = LRUCache(100_000)
        self._listings: LRUCache[Any, int] = LRUCache(100_000)
        self._chains: LRUCache[Any, Any] = LRUCache(
            cache_bytes // 8, lambda chain: _BYTES_OF_ROW * (len(chain[0]) + 1)
        )

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        """Return the stocks and crypto assets listed by `as_of_ns`, sorted by symbol."""
        return [row for row in self._all("symbols") if row.listed_ns <= as_of_ns]

    def bars(
        self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: MomentSpan
    ) -> Bars:
        """Return the bars that start in the span; none for an unknown symbol.

        The bars may lie after the caller's point in time, so only `DatasetView` and the broker's
        engine may call this. Raises ServiceError `unavailable` if the file can't be read.
        """
        series = self._series(asset_class, resolution, symbol)
        if series is None:
            return join([])

        first_ns = max(span.start_ns, series.first_ns)
        last_ns = min(span.end_ns - 1, series.last_ns)
        bits = _WINDOW_BITS[resolution]
        windows = range(first_ns >> bits, (last_ns >> bits) + 1)
        if first_ns > last_ns:
            return join([])

        read = self._read_windows((series.number, series.number), bits, windows)
        pieces = [cut(window.bars, span) for window in read]
        return join([piece for piece in pieces if len(piece)])

    def _read_windows(
        self, series: tuple[int, int], bits: int, windows: Sequence[int]
    ) -> list[_Window]:
        """Return the bars of some series, from the first to the last number, by window. Windows
        that are not cached are read in one query.
        """
        with self._lock:
            kept = {window: self._windows.get((series, window)) for window in windows}

        missing = [window for window, found in kept.items() if found is None]
        if missing:
            for window, found in self._query_windows(series, bits, missing[0], missing[-1]):
                kept[window] = found
                with self._lock, suppress(ValueError):  # too large to be cached
                    self._windows[series, window] = found

        return [found for found in kept.values() if found is not None]

    def _query_windows(
        self, series: tuple[int, int], bits: int, first: int, last: int
    ) -> Iterator[tuple[int, _Window]]:
        """Yield the bars of some series from the file by window, from the first window to
        the last.
        """
        statement = (
            f"SELECT series, {_COLUMNS} FROM market.bars WHERE series BETWEEN ? AND ?"  # noqa: S608 - constants
            " AND start_ns >= ? AND start_ns < ?"
        )
        with self._market.cursor() as cursor:
            bounds = (*series, first << bits, (last + 1) << bits)
            found = cursor.execute(statement, bounds).fetchnumpy()

        numbers = np.asarray(found["series"], np.int64)
        bars = immutable(Bars(*(np.asarray(found[name]) for name in BAR_COLUMNS)))
        if first == last:
            yield first, _Window(numbers, bars)
            return

        owners = bars.start_ns >> bits
        for window in range(first, last + 1):
            rows = np.flatnonzero(owners == window)
            yield window, _Window(numbers[rows], immutable(bars.take(rows)))

    def days_by_symbol(self, asset_class: AssetClass, before_ns: int) -> Mapping[str, DayArray]:
        """Return the days of the daily bars that start before `before_ns`, keyed by symbol in
        order. As with `bars`, they may lie after the caller's point in time.
        """
        statement = (
            "SELECT symbol, list(make_timestamp_ns(start_ns)::DATE ORDER BY start_ns) AS days"
            " FROM market.bars JOIN market.series USING (series)"
            " WHERE asset_class = ? AND resolution = 'day' AND start_ns < ?"
            " GROUP BY symbol ORDER BY symbol"
        )
        with self._market.cursor() as cursor:
            found = cursor.execute(statement, (asset_class, within_int64(before_ns))).fetchnumpy()

        days = [np.asarray(own, "datetime64[D]") for own in found["days"]]
        return dict(zip(found["symbol"].tolist(), days, strict=True))

    @cachedmethod(attrgetter("_numbers"), lock=_LOCK)
    def _series(
        self, asset_class: AssetClass, resolution: Resolution, symbol: str
    ) -> _Series | None:
        with self._market.cursor() as cursor:
            row = cursor.execute(
                "SELECT series, first_ns, last_ns FROM market.series"
                " WHERE asset_class = ? AND resolution = ? AND symbol = ?",
                (asset_class, resolution, symbol),
            ).fetchone()

        return None if row is None else _Series(*row)

    def chain_bars(
        self, underlying: str, resolution: Resolution, span: MomentSpan
    ) -> Mapping[str, Bars]:
        """Return the bars of all options on an underlying that start in the span, keyed by OPRA
        symbol in order. As with `bars`, they may lie after the caller's point in time.
        """
        symbols, series, (first_ns, last_ns) = self._chain(underlying, resolution)
        first_ns = max(span.start_ns, first_ns)
        last_ns = min(span.end_ns - 1, last_ns)
        windows = range(first_ns >> _CHAIN_BITS, (last_ns >> _CHAIN_BITS) + 1)
        if first_ns > last_ns:
            return {}

        pieces: dict[str, list[Bars]] = {}
        for window in self._read_windows(series, _CHAIN_BITS, windows):
            starts = window.bars.start_ns
            rows = np.flatnonzero((starts >= first_ns) & (starts <= last_ns))
            # All series are read at once, since a chain has thousands of series with few bars each.
            taken = immutable(window.bars.take(rows))
            numbers = window.series[rows]
            changes = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
            for begin, stop in pairwise([0, *changes, len(rows)]):
                symbol = symbols.get(int(numbers[begin])) if stop > begin else None
                if symbol is not None:
                    pieces.setdefault(symbol, []).append(taken.take(slice(begin, stop)))

        return {symbol: join(pieces[symbol]) for symbol in sorted(pieces)}

    @cachedmethod(attrgetter("_chains"), lock=_LOCK)
    def _chain(
        self, underlying: str, resolution: Resolution
    ) -> tuple[Mapping[int, str], tuple[int, int], tuple[int, int]]:
        """Return the options on an underlying that have bars: their symbols by series, the first
        and last series, and the first and last start. An option without a contract counts by its
        root.
        """
        roots = {row.root for row in self._contracts(underlying)} or {underlying}
        with self._market.cursor() as cursor:
            found = cursor.execute(
                "SELECT series, symbol, first_ns, last_ns FROM market.series"
                " WHERE asset_class = 'option' AND resolution = ? AND list_contains(?, owner)",
                (resolution, sorted(roots)),
            ).fetchall()

        if not found:
            return {}, (0, -1), (0, -1)

        numbers, symbols, firsts, lasts = zip(*found, strict=True)
        reach = min(firsts), max(lasts)
        return dict(zip(numbers, symbols, strict=True)), (min(numbers), max(numbers)), reach

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        """Return the options on an underlying listed by `as_of_ns`, including expired ones, sorted
        by symbol.
        """
        rows = self._contracts(underlying)
        if self._last_listing(underlying) <= as_of_ns:
            return rows
        return [row for row in rows if row.listed_ns <= as_of_ns]

    @cachedmethod(attrgetter("_listings"), lock=_LOCK)
    def _last_listing(self, underlying: str) -> int:
        return max((row.listed_ns for row in self._contracts(underlying)), default=0)

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        """Return the yield curves for the days [first, last] that were published by `as_of_ns`,
        sorted by day.
        """
        rows: Sequence[RateRow] = self._all("rates")
        return [row for row in rows if first <= row.day <= last and row.available_ns <= as_of_ns]

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        """Return the dividends declared by `as_of_ns`, sorted by ex-day."""
        return [row for row in self._of("dividends", symbol) if row.declared_ns <= as_of_ns]

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        """Return the splits announced by `as_of_ns`, sorted by ex-day."""
        return [row for row in self._of("splits", symbol) if row.announced_ns <= as_of_ns]

    def deals(self, symbol: str, as_of_ns: int) -> Sequence[DealRow]:
        """Return the deals announced by `as_of_ns` that end a stock's trading, sorted by day."""
        return [row for row in self._of("deals", symbol) if row.announced_ns <= as_of_ns]

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        """Return the supply of shares to borrow that was last published by `as_of_ns`; None
        if there was no publication.
        """
        known = [row for row in self._of("borrow", symbol) if row.available_ns <= as_of_ns]
        return known[-1] if known else None

    @cachedmethod(attrgetter("_rows"), lock=_LOCK)
    def _all(self, name: TableName) -> Sequence[Any]:
        return self._market.rows(name)

    @cachedmethod(attrgetter("_rows"), lock=_LOCK)
    def _of(self, name: TableName, symbol: str) -> Sequence[Any]:
        order = TABLES[name].order
        return self._market.rows(name, f"WHERE symbol = ? ORDER BY {order}", (symbol,))

    @cachedmethod(attrgetter("_rows"), lock=_LOCK)
    def _contracts(self, underlying: str) -> Sequence[ContractRow]:
        return self._market.rows("contracts", "WHERE underlying = ? ORDER BY symbol", (underlying,))


#: Filter conditions, keyed by the parameter that each needs
_FILTERS = {
    "types": "list_contains($types, event_type)",
    "markets": "list_contains($markets, market)",
    "tickers": "list_has_any(tickers, $tickers)",
    "publisher": "contains(publisher_name, $publisher)",
}


def _query(
    tags: TagFilters, page: PageBounds, order: tuple[str, str], **parameters: int
) -> tuple[str, dict[str, Any]]:
    """Return the end of a query (filters, order by a key of two columns, page limit) and its
    parameters, including the given ones.
    """
    given: dict[str, Any] = {
        "types": list(tags.types),
        "markets": list(tags.markets),
        "tickers": list(tags.tickers),
        "publisher": tags.publisher.casefold() if "published_ns" in order else "",
    }
    asked = {name: value for name, value in given.items() if value}
    asked |= {name: within_int64(value) for name, value in parameters.items()}
    asked["limit"] = within_int64(page.limit)
    conditions = [_FILTERS[name] for name in asked if name in _FILTERS]
    for number, word in enumerate(dict.fromkeys(words(tags.text))):
        asked[f"word_{number}"] = f" {word} "
        conditions.append(f"contains(words, $word_{number})")

    if tags.least != "low":
        asked["least"] = IMPORTANCE[IMPORTANCE.index(tags.least) :]
        conditions.append("list_contains($least, importance)")

    if page.after:
        asked["after_ns"] = within_int64(page.after[0])
        asked["after_id"] = page.after[1]
        conditions.append(f"({', '.join(order)}) > ($after_ns, $after_id)")

    clauses = "".join(f" AND {condition}" for condition in conditions)
    return f"{clauses} ORDER BY {', '.join(order)} LIMIT $limit", asked


@dataclass(frozen=True, slots=True)
class StoredCalendars:
    """Calendar events, each with its releases known by the queried point in time."""

    market: StoredMarket

    def events(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[EventRow]:
        """Return the events due in the span and announced by `as_of_ns`, sorted by (time_ns,
        event_id).
        """
        clauses, parameters = _query(
            tags,
            page,
            ("time_ns", "event_id"),
            as_of=as_of_ns,
            start=span.start_ns,
            end=span.end_ns,
        )
        known = "WHERE announced_ns <= $as_of AND time_ns >= $start AND time_ns < $end"
        rows = self.market.rows("events", known + clauses, parameters)
        return [as_known(row, as_of_ns) for row in rows]

    def updates(
        self, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[tuple[int, EventRow]]:
        """Return the updates that became known by `as_of_ns`: the time of each, and the event as
        known at this time. They are sorted by (time, event_id), the key of pages.
        """
        table = TABLES["events"]
        clauses, parameters = _query(tags, page, ("update_ns", "event_id"), as_of=as_of_ns)
        updates = "SELECT unnest(known_ns) AS update_ns, * FROM market.events"
        statement = (
            f"SELECT update_ns, {', '.join(table.columns)} FROM ({updates})"  # noqa: S608 - constants
            f" WHERE update_ns <= $as_of {clauses}"
        )
        with self.market.cursor() as cursor:
            cells = cursor.execute(statement, parameters).fetchall()
            events = table.rows_of([row[1:] for row in cells])

        moments = [row[0] for row in cells]
        return [
            (known_ns, as_known(event, known_ns))
            for known_ns, event in zip(moments, events, strict=True)
        ]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """Return one event; None if it does not exist or is not announced by `as_of_ns`."""
        clauses = "WHERE event_id = ? AND announced_ns <= ?"
        rows = self.market.rows("events", clauses, (event_id, within_int64(as_of_ns)))
        return as_known(rows[0], as_of_ns) if rows else None


@dataclass(frozen=True, slots=True)
class StoredNews:
    """Articles."""

    market: StoredMarket

    def news(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[NewsRow]:
        """Return the articles published in the span and by `as_of_ns`, sorted by (published_ns,
        id).
        """
        clauses, parameters = _query(
            tags,
            page,
            ("published_ns", "id"),
            as_of=as_of_ns,
            start=span.start_ns,
            end=span.end_ns,
        )
        known = "WHERE published_ns <= $as_of AND published_ns >= $start AND published_ns < $end"
        return self.market.rows("news", known + clauses, parameters)

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """Return one article; None if it does not exist or is not published by `as_of_ns`."""
        clauses = "WHERE id = ? AND published_ns <= ?"
        rows = self.market.rows("news", clauses, (news_id, within_int64(as_of_ns)))
        return rows[0] if rows else None
