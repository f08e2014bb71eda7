"""Queries of stores. Every query takes `as_of_ns` and must give nothing that became known later.

Stores are immutable while they are read. Where a store can, it cuts in the query, so that limits count only what may be seen;
`ktdeval_qfinzero.view.View` is what services read through, and passes the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from ktdeval_qfinzero.data.rows import (
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    EventRow,
    EventType,
    Importance,
    Market,
    NewsRow,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.trading_hours import DEFAULT, TradingHours, trading_hours


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


class PriceStore(Protocol):
    """Prices and what belongs to them."""

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        """Stocks and coins listed by then, by symbol."""

    def bars(self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: Span) -> Bars:
        """Bars that start in the span; empty for an unknown symbol. NOT cut: only `View` and the broker's engine call this."""

    def chain_bars(self, underlying: str, resolution: Resolution, span: Span) -> Mapping[str, Bars]:
        """Bars of all options on an underlying that start in the span, by OPRA symbol in order. NOT cut, as `bars`."""

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        """Options on an underlying that were listed by then, by symbol; expired ones too."""

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        """Curves of the days [first, last] that were published by then, by day."""

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        """Dividends declared by then, by ex-day."""

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        """Splits announced by then, by ex-day."""

    def deals(self, symbol: str, as_of_ns: int) -> Sequence[DealRow]:
        """Return what was announced by then about the end of a stock's trading, by day."""

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        """Return what can be borrowed then; None where nothing is known."""


class CalendarStore(Protocol):
    """Calendar events. Rows come with `releases` cut to those available by `as_of_ns`."""

    def events(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[EventRow]:
        """Events due in the span that stood in the calendar by then, by (time_ns, event_id)."""

    def updates(self, tags: Tags, page: Page, as_of_ns: int) -> Sequence[tuple[int, EventRow]]:
        """Return what became known by then: the moment, and the event as it stood then; by (moment, event_id), the key of pages."""

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """Return one event; None where there is none by then."""


class NewsStore(Protocol):
    """Articles."""

    def news(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[NewsRow]:
        """Return articles published in the span and by then, by (published_ns, id)."""

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """Return one article; None where there is none by then."""


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
    prices: PriceStore
    calendars: CalendarStore
    news: NewsStore
