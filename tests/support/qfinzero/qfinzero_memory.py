"""Stores in memory: what the stores in files are compared with, and what small markets of tests are
made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeVar

import numpy as np

from ktdeval_qfinzero.data.rows import (
    IMPORTANCE,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DayArray,
    DealRow,
    DividendRow,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    PriceRows,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
    TagFilters,
    as_known,
    empty_bars,
    known_moments,
    row_key,
    words,
)
from ktdeval_qfinzero.instruments import read_contract

Row = TypeVar("Row", EventRow, NewsRow)


def has_words(text: str, wanted: str) -> bool:
    """Whether a text has all wanted words, whole ones."""
    return set(words(wanted)) <= set(words(text))


def joined_bars(*parts: Bars) -> Bars:
    """The bars of all parts by their starts; of equal ones, in the order of the parts."""
    columns = zip(*(part.columns() for part in parts), strict=True)
    joined = Bars(*map(np.concatenate, columns))
    return joined.take(np.argsort(joined.start_ns, kind="stable"))


@dataclass(frozen=True)
class MemoryPrices(PriceRows):
    """Prices as `StoredPrices` gives them, of plain rows."""

    def symbols(self, as_of_ns: int) -> Sequence[SymbolRow]:
        return sorted(
            (row for row in self.symbol_rows if row.listed_ns <= as_of_ns),
            key=lambda row: row.symbol,
        )

    def bars(
        self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: MomentSpan
    ) -> Bars:
        result = self.bar_table.get((asset_class, symbol, resolution))
        return empty_bars() if result is None else _cut(result, span)

    def days_by_symbol(self, asset_class: AssetClass, before_ns: int) -> Mapping[str, DayArray]:
        days = {}
        for (own_class, symbol, kind), bars in sorted(self.bar_table.items()):
            starts = bars.start_ns[bars.start_ns < before_ns]
            if (own_class, kind) == (asset_class, "day") and len(starts):
                days[symbol] = starts.astype("datetime64[ns]").astype("datetime64[D]")

        return days

    def chain_bars(
        self, underlying: str, resolution: Resolution, span: MomentSpan
    ) -> Mapping[str, Bars]:
        result = {}
        for asset_class, symbol, kind in sorted(self.bar_table):
            contract = (
                read_contract(symbol) if asset_class == "option" and kind == resolution else None
            )
            if contract is not None and contract.underlying == underlying:
                bars = _cut(self.bar_table[asset_class, symbol, kind], span)
                if len(bars):
                    result[symbol] = bars

        return result

    def contracts(self, underlying: str, as_of_ns: int) -> Sequence[ContractRow]:
        rows = (
            row
            for row in self.contract_rows
            if row.underlying == underlying and row.listed_ns <= as_of_ns
        )
        return sorted(rows, key=lambda row: row.symbol)

    def rates(self, first: date, last: date, as_of_ns: int) -> Sequence[RateRow]:
        rows = (
            row
            for row in self.rate_rows
            if first <= row.day <= last and row.available_ns <= as_of_ns
        )
        return sorted(rows, key=lambda row: row.day)

    def dividends(self, symbol: str, as_of_ns: int) -> Sequence[DividendRow]:
        rows = (
            row
            for row in self.dividend_rows
            if row.symbol == symbol and row.declared_ns <= as_of_ns
        )
        return sorted(rows, key=lambda row: row.ex_day)

    def splits(self, symbol: str, as_of_ns: int) -> Sequence[SplitRow]:
        rows = (
            row for row in self.split_rows if row.symbol == symbol and row.announced_ns <= as_of_ns
        )
        return sorted(rows, key=lambda row: row.ex_day)

    def deals(self, symbol: str, as_of_ns: int) -> Sequence[DealRow]:
        rows = (
            row for row in self.deal_rows if row.symbol == symbol and row.announced_ns <= as_of_ns
        )
        return sorted(rows, key=lambda row: row.day)

    def borrow(self, symbol: str, as_of_ns: int) -> BorrowRow | None:
        rows = [
            row for row in self.borrow_rows if row.symbol == symbol and row.available_ns <= as_of_ns
        ]
        return max(rows, key=lambda row: row.available_ns, default=None)


@dataclass(frozen=True)
class MemoryCalendars:
    """Events as `StoredCalendars` gives them, of plain rows."""

    rows: Sequence[EventRow] = ()

    def events(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[EventRow]:
        known = (
            row
            for row in self.rows
            if row.announced_ns <= as_of_ns and span.start_ns <= row.time_ns < span.end_ns
        )
        chosen = [row for row in known if passes(row, tags) and has_words(row.title, tags.text)]
        return [as_known(row, as_of_ns) for row in _page(chosen, page)]

    def updates(
        self, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[tuple[int, EventRow]]:
        chosen = [row for row in self.rows if passes(row, tags) and has_words(row.title, tags.text)]
        keys = []
        for row in chosen:
            known = [known_ns for known_ns in known_moments(row) if known_ns <= as_of_ns]
            keys += [(known_ns, row.event_id, row) for known_ns in known]

        later = sorted(
            (key for key in keys if page.after is None or key[:2] > page.after),
            key=lambda key: key[:2],
        )

        return [(known_ns, as_known(row, known_ns)) for known_ns, _, row in later[: page.limit]]

    def event(self, event_id: str, as_of_ns: int) -> EventRow | None:
        result = (
            row for row in self.rows if row.event_id == event_id and row.announced_ns <= as_of_ns
        )
        return next((as_known(row, as_of_ns) for row in result), None)


@dataclass(frozen=True)
class MemoryNews:
    """Articles as `StoredNews` gives them, of plain rows."""

    rows: Sequence[NewsRow] = ()

    def news(
        self, span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
    ) -> Sequence[NewsRow]:
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
        return next(
            (row for row in self.rows if row.id == news_id and row.published_ns <= as_of_ns), None
        )


def passes(row: EventRow | NewsRow, tags: TagFilters) -> bool:
    """Whether type, tickers, market and importance of a row are those asked for."""
    return (
        (not tags.types or row.event_type in tags.types)
        and (not tags.tickers or not set(tags.tickers).isdisjoint(row.tickers))
        and (not tags.markets or row.market in tags.markets)
        and IMPORTANCE.index(row.importance) >= IMPORTANCE.index(tags.least)
    )


def _page(rows: Iterable[Row], page: PageBounds) -> list[Row]:
    ordered = sorted(rows, key=row_key)
    return [row for row in ordered if page.after is None or row_key(row) > page.after][: page.limit]


def _cut(bars: Bars, span: MomentSpan) -> Bars:
    first, stop = np.searchsorted(bars.start_ns, (span.start_ns, span.end_ns))
    return bars.take(slice(int(first), int(stop)))
