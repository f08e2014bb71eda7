"""Stores in memory: what the file stores are compared with, and what small markets of tests are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

import numpy as np

from ktdeval_qfinzero.data.known import as_known, known_moments
from ktdeval_qfinzero.data.rows import (
    IMPORTANCE,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
    empty_bars,
)
from ktdeval_qfinzero.data.stores import Page, Span, Tags
from ktdeval_qfinzero.data.words import has_words
from ktdeval_qfinzero.instruments import read_contract

BarKey = tuple[AssetClass, str, Resolution]
Row = TypeVar("Row", EventRow, NewsRow)


@dataclass(frozen=True)
class MemoryPrices:
    """A `PriceStore` of plain rows.

    Attributes:
        bar_table: (asset class, symbol, resolution) -> bars.
        symbol_rows, contract_rows, rate_rows, dividend_rows, split_rows, borrow_rows: in any order.
    """

    bar_table: Mapping[BarKey, Bars] = field(default_factory=dict)
    symbol_rows: Sequence[SymbolRow] = ()
    contract_rows: Sequence[ContractRow] = ()
    rate_rows: Sequence[RateRow] = ()
    dividend_rows: Sequence[DividendRow] = ()
    split_rows: Sequence[SplitRow] = ()
    borrow_rows: Sequence[BorrowRow] = ()

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        """Stocks and coins listed by then, by symbol."""
        return sorted((row for row in self.symbol_rows if row.listed_ns <= as_of_ns), key=lambda row: row.symbol)

    def bars(self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: Span) -> Bars:
        """Bars that start in the span."""
        found = self.bar_table.get((asset_class, symbol, resolution))
        return empty_bars() if found is None else _cut(found, span)

    def chain_bars(self, underlying: str, resolution: Resolution, span: Span) -> Mapping[str, Bars]:
        """Bars of all options on an underlying that start in the span, by OPRA symbol in order."""
        found = {}
        for asset_class, symbol, kind in sorted(self.bar_table):
            contract = read_contract(symbol) if asset_class == "option" and kind == resolution else None
            if contract is not None and contract.underlying == underlying:
                bars = _cut(self.bar_table[asset_class, symbol, kind], span)
                if len(bars):
                    found[symbol] = bars
        return found

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        """Options on an underlying that were listed by then, by symbol."""
        rows = (row for row in self.contract_rows if row.underlying == underlying and row.listed_ns <= as_of_ns)
        return sorted(rows, key=lambda row: row.symbol)

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        """Curves of the days [first, last] that were published by then, by day."""
        rows = (row for row in self.rate_rows if first <= row.day <= last and row.available_ns <= as_of_ns)
        return sorted(rows, key=lambda row: row.day)

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        """Dividends declared by then, by ex-day."""
        rows = (row for row in self.dividend_rows if row.symbol == symbol and row.declared_ns <= as_of_ns)
        return sorted(rows, key=lambda row: row.ex_day)

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        """Splits announced by then, by ex-day."""
        rows = (row for row in self.split_rows if row.symbol == symbol and row.announced_ns <= as_of_ns)
        return sorted(rows, key=lambda row: row.ex_day)

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        """What can be borrowed then."""
        rows = [row for row in self.borrow_rows if row.symbol == symbol and row.available_ns <= as_of_ns]
        return max(rows, key=lambda row: row.available_ns, default=None)


@dataclass(frozen=True)
class MemoryCalendars:
    """A `CalendarStore` of plain rows."""

    rows: Sequence[EventRow] = ()

    def events(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[EventRow]:
        """Events due in the span that stood in the calendar by then."""
        known = (row for row in self.rows if row.announced_ns <= as_of_ns and span.start_ns <= row.time_ns < span.end_ns)
        chosen = [row for row in known if passes(row, tags) and has_words(row.title, tags.text)]
        return [as_known(row, as_of_ns) for row in _page(chosen, page)]

    def updates(self, tags: Tags, page: Page, as_of_ns: int) -> Sequence[tuple[int, EventRow]]:
        """What became known by then, and each event as it stood then."""
        chosen = [row for row in self.rows if passes(row, tags) and has_words(row.title, tags.text)]
        keys = ((known_ns, row.event_id, row) for row in chosen for known_ns in known_moments(row) if known_ns <= as_of_ns)
        later = sorted((key for key in keys if page.after is None or key[:2] > page.after), key=lambda key: key[:2])
        return [(known_ns, as_known(row, known_ns)) for known_ns, _, row in later[: page.limit]]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        """One event."""
        found = (row for row in self.rows if row.event_id == event_id and row.announced_ns <= as_of_ns)
        return next((as_known(row, as_of_ns) for row in found), None)


@dataclass(frozen=True)
class MemoryNews:
    """A `NewsStore` of plain rows."""

    rows: Sequence[NewsRow] = ()

    def news(self, span: Span, tags: Tags, page: Page, as_of_ns: int) -> Sequence[NewsRow]:
        """Articles published in the span and by then."""
        end_ns = min(span.end_ns, as_of_ns + 1)
        chosen = [
            row
            for row in self.rows
            if span.start_ns <= row.published_ns < end_ns
            and passes(row, tags)
            and has_words(f"{row.title} {row.description} {row.body}", tags.text)
            and tags.publisher.casefold() in row.publisher.get("name", "").casefold()
        ]
        return _page(chosen, page)

    def article(self, news_id: str, as_of_ns: int) -> NewsRow | None:
        """One article."""
        return next((row for row in self.rows if row.id == news_id and row.published_ns <= as_of_ns), None)


def passes(row: EventRow | NewsRow, tags: Tags) -> bool:
    """Whether type, tickers, market and importance of a row are those asked for."""
    return (
        (not tags.types or row.event_type in tags.types)
        and (not tags.tickers or not set(tags.tickers).isdisjoint(row.tickers))
        and (not tags.markets or row.market in tags.markets)
        and IMPORTANCE.index(row.importance) >= IMPORTANCE.index(tags.least)
    )


def row_key(row: EventRow | NewsRow) -> tuple[int, str]:
    """What results are sorted by, and pages are continued after."""
    return (row.time_ns, row.event_id) if isinstance(row, EventRow) else (row.published_ns, row.id)


def _page(rows: Iterable[Row], page: Page) -> list[Row]:
    ordered = sorted(rows, key=row_key)
    return [row for row in ordered if page.after is None or row_key(row) > page.after][: page.limit]


def _cut(bars: Bars, span: Span) -> Bars:
    first, stop = np.searchsorted(bars.start_ns, (span.start_ns, span.end_ns))
    return bars.take(slice(int(first), int(stop)))
