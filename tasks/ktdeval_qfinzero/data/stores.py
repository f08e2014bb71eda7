"""What stores are asked, and a dataset of them. Every query takes `as_of_ns` and must give nothing that became known later.

Stores are immutable while they are read. Where a store can, it cuts in the query, so that limits count only what may be seen;
`ktdeval_qfinzero.view.View` is what services read through, and passes the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from ktdeval_qfinzero.data.rows import EventType, Importance, Market
from ktdeval_qfinzero.trading_hours import DEFAULT, TradingHours, trading_hours

if TYPE_CHECKING:
    from ktdeval_qfinzero.data.parquet_prices import ParquetPrices
    from ktdeval_qfinzero.data.sqlite_stores import SqliteCalendars, SqliteNews


@dataclass(frozen=True, slots=True)
class Span:
    """Moments [start, end), both in nanoseconds."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Tags:
    """Filters of events and articles; an empty one lets everything pass."""

    types: tuple[EventType, ...] = ()  #: event types
    tickers: tuple[str, ...] = ()  #: any of them must be among the row's
    markets: tuple[Market, ...] = ()  #: markets
    least: Importance = "low"  #: least importance
    text: str = ""  #: words that must all be found (news: title, description and body; events: title), ignoring case
    publisher: str = ""  #: part of a publisher's name, ignoring case; news only


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a sorted result: rows after the key `(time, id)`, at most `limit`."""

    limit: int
    after: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Description of a dataset; its days are those with daily bars, and with minute bars."""

    name: str  #: `synthetic`, or what its maker called it
    synthetic: bool  #: whether its market is invented
    content_id: str  #: SHA-256 over its content; equal ids mean equal answers
    first_day: date
    last_day: date
    minute_first_day: date
    minute_last_day: date
    default_as_of_ns: int  #: where a clock starts that nobody sets
    calendar: str = DEFAULT  #: name that exchange_calendars has for the sessions of its stocks and options
    currency: str = "USD"  #: of all prices and accounts, by ISO 4217 or a coin's code

    @property
    def hours(self) -> TradingHours:
        """Sessions of its market."""
        return trading_hours(self.calendar)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Everything that the services read."""

    info: DatasetInfo
    prices: ParquetPrices
    calendars: SqliteCalendars
    news: SqliteNews
