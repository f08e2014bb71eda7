"""Data that the broker needs in addition to bars: listings, corporate actions, locates, and the
last prices of instruments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal, get_args

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    AssetClass,
    Bars,
    BorrowRow,
    DealRow,
    DividendRow,
    MomentSpan,
    Resolution,
    SplitRow,
)
from ktdeval_qfinzero.data.stored_market import StoredPrices
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.pmb.broker_types import Instrument
from ktdeval_qfinzero.pmb.lifecycle_rules import adjusted_contract
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_of, day_start
from ktdeval_qfinzero.trading_hours import TradingHours

_EVER = 2**62
_RECENT = 15 * DAY
_RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)


@dataclass(frozen=True, slots=True)
class BrokerReference:
    """Reader of a dataset for the broker. Rows of corporate actions are read once and filtered by
    when they became known.
    """

    dataset: Dataset
    _actions: dict[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    _listed: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)

    @property
    def hours(self) -> TradingHours:
        """Sessions of the dataset's market."""
        return self.dataset.info.hours

    @property
    def prices(self) -> StoredPrices:
        """Price store."""
        return self.dataset.prices

    def splits_on(self, symbol: str, day: date) -> Sequence[SplitRow]:
        """Return the splits that take effect at a trading day's open and were announced by then."""
        rows = self._all("splits", symbol)
        return [
            row
            for row in rows
            if self._effective(row.ex_day) == day and row.announced_ns <= self._open_of(day)
        ]

    def deal_on(self, symbol: str, day: date, known_ns: int) -> DealRow | None:
        """Return the delisting deal for a stock that takes effect at or before a trading day's
        open, as known at `known_ns`; None without such a deal.
        """
        rows: Sequence[DealRow] = self._all("deals", symbol)
        for row in rows:
            if self._effective(row.day) <= day and row.announced_ns <= known_ns:
                return row

        return None

    def dividends_on(self, symbol: str, day: date, known_ns: int) -> Sequence[DividendRow]:
        """Return the dividends that take effect at a trading day's open, as known at `known_ns`."""
        rows = self._all("dividends", symbol)
        return [
            row
            for row in rows
            if self._effective(row.ex_day) == day and row.declared_ns <= known_ns
        ]

    def is_listed(self, instrument: Instrument, as_of_ns: int) -> bool:
        """Return whether a stock or contract has been listed by `as_of_ns`."""
        key = instrument.underlying if instrument.kind == "OPTION" else ""
        entry = self._listed.get(key)
        if entry is None or entry[0] != as_of_ns:
            view = DatasetView(self.dataset, as_of_ns)
            if instrument.kind == "OPTION":
                symbols = frozenset(row.symbol for row in view.contracts(key))
            else:
                symbols = frozenset(
                    row.symbol for row in view.symbols() if row.asset_class == "stock"
                )

            entry = self._listed[key] = (as_of_ns, symbols)

        return instrument.symbol in entry[1]

    def lent(self, symbols: Iterable[str], as_of_ns: int) -> Mapping[str, BorrowRow]:
        """Return the shares that can be borrowed at `as_of_ns` and their fee, keyed by ticker,
        without tickers whose supply is unknown.
        """
        rows = ((symbol, self.prices.borrow(symbol, as_of_ns)) for symbol in symbols)
        return {symbol: row for symbol, row in rows if row is not None}

    def visible_mark(self, instrument: Instrument, as_of_ns: int) -> int | None:
        """Return the last close known at `as_of_ns`, adjusted for corporate actions since then;
        None before the first close.

        The close is from a minute bar or a daily bar, whichever ends later. If both end at the same
        time, the daily bar is used, since it has the official close.
        """
        bar: Bars | None = None
        resolution: Resolution = "day"
        end_ns = 0
        for kind in _RESOLUTIONS:
            last = self.last_bar(instrument, kind, as_of_ns)
            # a later candidate replaces the earlier one only if it ends later
            if last is not None and (bar is None or self._end(last, kind) > end_ns):
                bar = last
                resolution = kind
                end_ns = self._end(last, kind)

        contract = instrument.contract
        if contract is not None:
            return self._option_mark(contract, bar, as_of_ns)

        return (
            None
            if bar is None
            else self._adjust_close(instrument.symbol, bar, resolution, as_of_ns)
        )

    def last_bar(
        self, instrument: Instrument, resolution: Resolution, as_of_ns: int
    ) -> Bars | None:
        """Return the last bar that is complete at `as_of_ns`, as a one-row table; None if it is
        missing.
        """
        asset_class: AssetClass = "stock" if instrument.kind == "STOCK" else "option"
        view = DatasetView(self.dataset, as_of_ns)
        bars = view.bars(
            asset_class, instrument.symbol, resolution, MomentSpan(as_of_ns - _RECENT, as_of_ns)
        )

        if not len(bars):
            bars = view.bars(asset_class, instrument.symbol, resolution, MomentSpan(0, as_of_ns))

        return bars.take(slice(len(bars) - 1, len(bars))) if len(bars) else None

    def ex_price(self, symbol: str, price_e4: int, day: date) -> int:
        """Return the last price of a stock, adjusted for the corporate actions at the open of a
        day. The result is rounded down, to at least one step.
        """
        for split in self.splits_on(symbol, day):
            price_e4 = price_e4 * split.old // split.new
        for dividend in self.dividends_on(symbol, day, self._open_of(day)):
            price_e4 -= dividend.amount_e4
        return max(1, price_e4)

    def _all(self, kind: Literal["splits", "dividends", "deals"], symbol: str) -> tuple[Any, ...]:
        """Return all rows of one kind of corporate action, whenever they became known."""
        if (kind, symbol) not in self._actions:
            self._actions[kind, symbol] = tuple(getattr(self.prices, kind)(symbol, _EVER))
        return self._actions[kind, symbol]

    def _option_mark(self, contract: OptionContract, bar: Bars | None, as_of_ns: int) -> int | None:
        """Return the close of an option's last bar or, after a later split, the mark inherited from
        the series before the split.
        """
        rows = self._all("splits", contract.underlying)
        splits = [row for row in rows if row.announced_ns <= self._open_of(row.ex_day) <= as_of_ns]
        if splits and (bar is None or bar.start_ns[0] < day_start(splits[-1].ex_day)):
            return self._inherited_mark(contract, splits[-1])
        return None if bar is None else int(bar.close_e4[0])

    def _inherited_mark(self, contract: OptionContract, split: SplitRow) -> int | None:
        """Return an option's price at the ex-day's open, derived from the last price of its series
        before the split; None without such a price.
        """
        open_ns = self._open_of(split.ex_day)
        exact = replace(contract, strike_e4=contract.strike_e4 * split.new // split.old)
        listed = (
            read_contract(row.symbol) for row in self.prices.contracts(contract.underlying, open_ns)
        )

        for series in (exact, *(each for each in listed if each is not None)):
            if adjusted_contract(series, split) == contract:
                mark = self.visible_mark(Instrument("OPTION", series.symbol), open_ns - 1)
                if mark is not None:
                    return max(1, mark * split.old // split.new)

        return None

    def _adjust_close(self, symbol: str, bar: Bars, resolution: str, as_of_ns: int) -> int:
        """Return the close of a bar, adjusted for the corporate actions up to `as_of_ns`. If the
        bar already excludes the actions of the coming open, these are undone.
        """
        hours = self.hours
        start_ns = int(bar.start_ns[0])
        price_e4 = int(bar.close_e4[0])

        if resolution == "day":
            first = int(np.searchsorted(hours.days, np.datetime64(day_of(start_ns)), side="right"))
        else:
            first = int(np.searchsorted(hours.close_ns, start_ns, side="right"))
            first += first < len(hours.days) and start_ns >= hours.ex_ns(first)

        stop = int(np.searchsorted(hours.open_ns, as_of_ns, side="right"))
        for row in range(first, stop):
            price_e4 = self.ex_price(symbol, price_e4, hours.day(row))

        for day in map(hours.day, range(stop, first)):
            price_e4 += sum(
                dividend.amount_e4 for dividend in self.dividends_on(symbol, day, as_of_ns)
            )
            for split in self.splits_on(symbol, day):
                if split.announced_ns <= as_of_ns:
                    price_e4 = price_e4 * split.new // split.old

        return price_e4

    def _effective_row(self, ex_day: date) -> int:
        """Return the row of the trading day at whose open an action takes effect: the ex-day, or
        the first trading day after it.
        """
        days = self.hours.days
        return min(int(np.searchsorted(days, np.datetime64(ex_day))), len(days) - 1)

    def _effective(self, ex_day: date) -> date:
        return self.hours.day(self._effective_row(ex_day))

    def _open_of(self, ex_day: date) -> int:
        return int(self.hours.open_ns[self._effective_row(ex_day)])

    def _end(self, bar: Bars, resolution: str) -> int:
        start_ns = int(bar.start_ns[0])
        if resolution == "minute":
            return start_ns + MINUTE
        return self.hours.close_of(day_of(start_ns))
