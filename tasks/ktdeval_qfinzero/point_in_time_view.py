"""View of a dataset at a point in time, which hides everything that became known later. Services
read data only through such a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DayArray,
    DividendRow,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
    TagFilters,
)
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of
from ktdeval_qfinzero.trading_hours import TradingHours


@dataclass(frozen=True, slots=True)
class DatasetView:
    """A dataset as it was known at a point in time.

    A minute bar is known at its end, the daily bar of a stock or option at the close of its
    session, and the daily bar of a crypto asset at the following midnight. All other rows carry the
    time from which they are known.
    """

    dataset: Dataset  #: stores of the dataset
    as_of_ns: int  #: point in time

    @property
    def hours(self) -> TradingHours:
        """Sessions of the dataset's market."""
        return self.dataset.info.hours

    def symbols(self) -> Sequence[SymbolRow]:
        """Return the stocks and crypto assets listed so far."""
        return self.dataset.prices.symbols(self.as_of_ns)

    def bars(
        self, asset_class: AssetClass, symbol: str, resolution: Resolution, span: MomentSpan
    ) -> Bars:
        """Return the complete bars that start in the span, unadjusted."""
        bars = self.dataset.prices.bars(
            asset_class, symbol, resolution, self._complete(asset_class, resolution, span)
        )
        return self._keep_known(asset_class, resolution, bars)

    def days_by_symbol(self, asset_class: AssetClass) -> Mapping[str, DayArray]:
        """Return the days with complete daily bars, keyed by symbol, for the stocks or crypto
        assets listed so far.
        """
        span = self._complete(asset_class, "day", MomentSpan(0, self.as_of_ns))
        days = self.dataset.prices.days_by_symbol(asset_class, span.end_ns)
        listed = {row.symbol for row in self.symbols() if row.asset_class == asset_class}
        return {symbol: own for symbol, own in days.items() if symbol in listed}

    def chain_bars(
        self, underlying: str, resolution: Resolution, span: MomentSpan
    ) -> Mapping[str, Bars]:
        """Return the complete bars of an underlying's options that start in the span, keyed by OPRA
        symbol.
        """
        chain = self.dataset.prices.chain_bars(
            underlying, resolution, self._complete("option", resolution, span)
        )
        known = {
            symbol: self._keep_known("option", resolution, bars) for symbol, bars in chain.items()
        }
        return {symbol: bars for symbol, bars in known.items() if len(bars)}

    def contracts(self, underlying: str) -> Sequence[ContractRow]:
        """Return the options listed so far."""
        return self.dataset.prices.contracts(underlying, self.as_of_ns)

    def rates(self, first: date, last: date) -> Sequence[RateRow]:
        """Return the curves published so far."""
        return self.dataset.prices.rates(first, last, self.as_of_ns)

    def dividends(self, symbol: str) -> Sequence[DividendRow]:
        """Return the dividends declared so far, including future ones."""
        return self.dataset.prices.dividends(symbol, self.as_of_ns)

    def splits(self, symbol: str) -> Sequence[SplitRow]:
        """Return the splits announced so far, including future ones."""
        return self.dataset.prices.splits(symbol, self.as_of_ns)

    def borrow(self, symbol: str) -> BorrowRow | None:
        """Return the current supply of shares to borrow; None if nothing is published."""
        return self.dataset.prices.borrow(symbol, self.as_of_ns)

    def events(self, span: MomentSpan, tags: TagFilters, page: PageBounds) -> Sequence[EventRow]:
        """Return the calendar events due in the span, each with its releases known so far."""
        return self.dataset.calendars.events(span, tags, page, self.as_of_ns)

    def updates(self, tags: TagFilters, page: PageBounds) -> Sequence[tuple[int, EventRow]]:
        """Return all updates to calendar events so far. Each is the time at which something became
        known, and the event as known at that time.
        """
        return self.dataset.calendars.updates(tags, page, self.as_of_ns)

    def event(self, event_id: str) -> EventRow | None:
        """Return one calendar event as known so far, or None."""
        return self.dataset.calendars.event(event_id, self.as_of_ns)

    def news(self, span: MomentSpan, tags: TagFilters, page: PageBounds) -> Sequence[NewsRow]:
        """Return the articles in the span published so far."""
        return self.dataset.news.news(span, tags, page, self.as_of_ns)

    def article(self, news_id: str) -> NewsRow | None:
        """Return one article; None if it does not exist or is not yet published."""
        return self.dataset.news.article(news_id, self.as_of_ns)

    def last_day(self, asset_class: AssetClass) -> date:
        """Return the last day whose bar is complete."""
        if asset_class == "crypto":
            return day_of(self.as_of_ns) - timedelta(days=1)
        return self.hours.last_closed(self.as_of_ns)

    def _complete(
        self, asset_class: AssetClass, resolution: Resolution, span: MomentSpan
    ) -> MomentSpan:
        """Truncate a span to bars that can be complete, so that later bars are not requested."""
        if resolution == "minute":
            return MomentSpan(span.start_ns, min(span.end_ns, self.as_of_ns - MINUTE + 1))
        after = (
            np.datetime64(self.last_day(asset_class) + timedelta(days=1))
            .astype("datetime64[ns]")
            .astype(np.int64)
        )
        return MomentSpan(span.start_ns, min(span.end_ns, int(after)))

    def _keep_known(self, asset_class: AssetClass, resolution: Resolution, bars: Bars) -> Bars:
        """Drop bars that are not known yet, in case a store returns too many."""
        limit = self._complete(asset_class, resolution, MomentSpan(0, self.as_of_ns + DAY)).end_ns
        return bars.take(slice(0, int(np.searchsorted(bars.start_ns, limit))))
