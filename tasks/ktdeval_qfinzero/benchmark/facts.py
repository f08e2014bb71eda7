"""Facts of the market at a moment, for templates: days, tickers, prices, contracts, events; read through the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import TypeVar

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.rows import E4, ContractRow, EventRow, NewsRow, SymbolRow
from ktdeval_qfinzero.data.stores import Dataset, Page, Span, Tags
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import DAY, SECOND, day_start
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.view import View

_RECENT_SESSIONS = 5
_MANY = Page(100_000)
T = TypeVar("T")


def needed(values: Sequence[T], least: int = 1) -> Sequence[T]:
    """Return values of which at least so many are needed. Raises DataError: there are fewer."""
    if len(values) < least:
        raise DataError("the dataset has no such thing; items need stocks, coins, options and news")
    return values


@dataclass(frozen=True)
class Facts:
    """A dataset as of a moment."""

    dataset: Dataset
    as_of_ns: int

    @cached_property
    def view(self) -> View:
        """Data as known then."""
        return View(self.dataset, self.as_of_ns)

    # -- days

    @cached_property
    def last_day(self) -> date:
        """Last trading day whose session is over."""
        return self.view.last_day("stock")

    @cached_property
    def row(self) -> int:
        """Row of `last_day` among the sessions."""
        row = trading_hours().row_of(self.last_day)
        assert row is not None
        return row

    def session(self, offset: int) -> date:
        """Trading day so many sessions after (negative: before) the last one that is over; raises DataError: there is none."""
        hours, row = trading_hours(), self.row + offset
        if not 0 <= row < len(hours.days):
            raise DataError(f"the calendar of sessions reaches from {hours.reach}; items need some weeks around the data")
        return hours.day(row)

    def local_moment(self, day: date, hour: int, minute: int) -> int:
        """Moment at which the clocks of New York show a time on a trading day: 9:30 is the open of its session."""
        row = trading_hours().row_of(day)
        if row is None:
            raise DataError(f"{day} is not a trading day")
        return int(trading_hours().open_ns[row]) + ((hour - 9) * 60 + minute - 30) * 60 * SECOND

    # -- stocks and coins

    @cached_property
    def stocks(self) -> tuple[SymbolRow, ...]:
        """Stocks that traded in each of the last sessions, by symbol."""
        span = Span(day_start(self.session(1 - _RECENT_SESSIONS)), day_start(self.last_day) + DAY)
        stocks = (row for row in self.view.symbols() if row.asset_class == "stock")
        return tuple(row for row in stocks if len(self.view.bars("stock", row.symbol, "day", span)) == _RECENT_SESSIONS)

    @cached_property
    def optionable(self) -> tuple[SymbolRow, ...]:
        """Of these, those with options."""
        return tuple(row for row in self.stocks if row.has_options and len(self.contracts_of(row.symbol)) > 0)

    @cached_property
    def coins(self) -> tuple[SymbolRow, ...]:
        """Coins, by symbol."""
        return tuple(row for row in self.view.symbols() if row.asset_class == "crypto")

    def unlisted(self, names: Sequence[str]) -> list[str]:
        """Return the names that no instrument has."""
        listed = {row.symbol for row in self.view.symbols()}
        return [name for name in names if name not in listed]

    def close(self, symbol: str) -> float:
        """Last close of a stock, in dollars."""
        span = Span(day_start(self.last_day), day_start(self.last_day) + DAY)
        return int(self.view.bars("stock", symbol, "day", span).close_e4[-1]) / E4

    # -- options

    def contracts_of(self, underlying: str) -> tuple[ContractRow, ...]:
        """Listed options that have at least a week to run, by symbol."""
        least = self.last_day + timedelta(days=7)
        return tuple(row for row in self.view.contracts(underlying) if row.expiry >= least)

    def expiries(self, underlying: str) -> tuple[date, ...]:
        """Their expiries, ascending."""
        return tuple(sorted({row.expiry for row in self.contracts_of(underlying)}))

    def monthly_expiries(self, underlying: str) -> tuple[date, ...]:
        """Expiries on the third Friday of their month, or on the Thursday before where that is a holiday."""
        return tuple(day for day in self.expiries(underlying) if day in _third_friday(day.year, day.month))

    def strikes(self, underlying: str, expiry: date) -> tuple[float, ...]:
        """Listed strikes of an expiry, in dollars, ascending."""
        return tuple(sorted({row.strike_e4 / E4 for row in self.contracts_of(underlying) if row.expiry == expiry}))

    def contracts(self, underlying: str, expiry: date, right: str) -> list[OptionContract]:
        """Contracts of an expiry and a right."""
        return [row.contract for row in self.contracts_of(underlying) if (row.expiry, row.right) == (expiry, right)]

    def most_traded(self, underlying: str) -> OptionContract:
        """Call in the money, of one of the next expiries, that most contracts of were traded in the last session."""
        span = Span(day_start(self.last_day), day_start(self.last_day) + DAY)
        traded = self.view.chain_bars(underlying, "day", span)
        near, spot = self.expiries(underlying)[:3], self.close(underlying) * E4
        rows = [row for row in self.contracts_of(underlying) if row.right == "C" and row.expiry in near and row.strike_e4 < spot]
        most = max(
            needed(rows), key=lambda row: (float(traded[row.symbol].volume[-1]) if row.symbol in traded else 0.0, row.symbol)
        )
        return most.contract

    # -- events

    def events(self, first: date, last: date, tags: Tags) -> Sequence[EventRow]:
        """Calendar events of some days, both included (UTC)."""
        return self.view.events(Span(day_start(first), day_start(last) + DAY), tags, _MANY)

    def news(self, first: date, tags: Tags) -> Sequence[NewsRow]:
        """Articles from a day on up to the moment."""
        return self.view.news(Span(day_start(first), self.as_of_ns + 1), tags, _MANY)


def _third_friday(year: int, month: int) -> tuple[date, date]:
    first = date(year, month, 1)
    friday = first + timedelta(days=(4 - first.weekday()) % 7 + 14)
    return friday, friday - timedelta(days=1)
