"""Facts of the market at a moment, read through the view, and the closed set of functions by which item templates draw them.

Each draw takes chance, the market's facts, and the arguments written behind its name in the file: numbers, words, or facts that
were drawn before. The order of draws is part of an item: equal seeds give equal items only as long as it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.rows import E4, ContractRow, Dataset, EventRow, EventType, NewsRow, Page, Span, SymbolRow, Tags
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import DAY, MINUTE, SECOND, day_start
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
        return int(np.searchsorted(trading_hours().days, np.datetime64(self.last_day)))

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


Random = np.random.Generator

_TWO_WEEKS = 9
_QUARTER_MINUTES = 15
_IN_NEWS: tuple[EventType, ...] = ("breaking_news", "daily_news", "analyst_action")
_BORROWABLE = 1_000
_ALL = Tags()


@dataclass(frozen=True, slots=True)
class Days:
    """A range of days, both included."""

    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Strikes:
    """A range of strikes, in dollars, both included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Legs:
    """Contracts of a spread that costs a debit."""

    bought: OptionContract
    sold: OptionContract


def pick(chance: Random, values: Sequence[T]) -> T:
    """One of some values. Raises DataError: there are none."""
    return needed(values)[int(chance.integers(len(values)))]


def whole(chance: Random, _: Facts, low: int, high: int, step: int = 1) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + step * int(chance.integers((high - low) // step + 1))


def stocks(chance: Random, facts: Facts, low: int, high: int | None = None) -> list[str]:
    """Symbols of `low`, or of `low` to `high`, stocks, each once, in a random order."""
    count = _one_or(chance, facts, low, high)
    rows = needed(facts.stocks, count)
    return [rows[index].symbol for index in chance.permutation(len(rows))[:count]]


def lendable(chance: Random, facts: Facts) -> str:
    """A stock of which enough can be borrowed."""
    rows = [row for row in facts.stocks if (lent := facts.view.borrow(row.symbol)) is not None and lent.shares >= _BORROWABLE]
    return pick(chance, rows).symbol


def past_days(chance: Random, facts: Facts) -> Days:
    """Two trading days that are over, three to twenty sessions from one to the other."""
    last = -whole(chance, facts, 0, 25)
    return Days(facts.session(last - whole(chance, facts, 3, 20)), facts.session(last))


def month_of(_: Random, _facts: Facts, day: date) -> Days:
    """First and last day of a day's month."""
    first = day.replace(day=1)
    return Days(first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1))


def week_of(_: Random, _facts: Facts, day: date) -> Days:
    """Monday and Friday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return Days(monday, monday + timedelta(days=4))


def next_expiry(_: Random, facts: Facts, underlying: str, *, monthly: bool = False) -> date:
    """First (monthly) expiry at least two weeks ahead."""
    days = facts.monthly_expiries(underlying) if monthly else facts.expiries(underlying)
    return needed([day for day in days if day > facts.session(_TWO_WEEKS)])[0]


def near_strikes(_: Random, facts: Facts, underlying: str, day: date) -> Strikes:
    """Two listed strikes around the last close."""
    strikes, spot = needed(facts.strikes(underlying, day)), facts.close(underlying)
    below = [strike for strike in strikes if strike <= spot] or list(strikes[:1])
    above = [strike for strike in strikes if strike > spot] or list(strikes[-1:])
    return Strikes(below[-min(3, len(below))], above[min(2, len(above) - 1)])


def near_contract(chance: Random, facts: Facts, underlying: str) -> OptionContract:
    """A contract of one of the next four expiries whose strike is near the last close."""
    day = pick(chance, facts.expiries(underlying)[:4])
    near = near_strikes(chance, facts, underlying, day)
    strike = pick(chance, [strike for strike in facts.strikes(underlying, day) if near.low <= strike <= near.high])
    return OptionContract(underlying, day, round(strike * E4), pick(chance, ("C", "P")))


def at_the_money(_: Random, facts: Facts, underlying: str, right: str, away: int = 0) -> OptionContract:
    """Contract of the next expiry whose strike is nearest to the last close, or `away` strikes further up."""
    day, spot = next_expiry(_, facts, underlying), facts.close(underlying)
    rows = sorted(needed(facts.contracts(underlying, day, right)), key=lambda row: row.strike)
    nearest = min(range(len(rows)), key=lambda index: (abs(rows[index].strike - spot), index))
    return rows[min(max(nearest + away, 0), len(rows) - 1)]


def five_contracts(_: Random, facts: Facts, underlying: str, day: date, right: str) -> list[OptionContract]:
    """Five contracts of an expiry around the last close, by strike."""
    spot_e4 = facts.close(underlying) * E4
    rows = sorted(needed(facts.contracts(underlying, day, right), 5), key=lambda row: (abs(row.strike_e4 - spot_e4), row.strike_e4))
    return sorted(rows[:5], key=lambda row: row.strike_e4)


def publisher(chance: Random, facts: Facts, days: int) -> str:
    """Who published something in the last days."""
    articles = facts.news(facts.last_day - timedelta(days=days), Tags())
    return pick(chance, sorted({row.publisher["name"] for row in articles}))


def stock_in_news(chance: Random, facts: Facts, first: date) -> str:
    """A stock that articles since a day are about."""
    tradable = {row.symbol for row in facts.stocks}
    articles = facts.news(first, Tags(types=_IN_NEWS))
    return pick(chance, sorted({ticker for row in articles for ticker in row.tickers if ticker in tradable}))


def event(chance: Random, facts: Facts, low: int, high: int, tags: Tags = _ALL) -> EventRow:
    """A calendar event `low` to `high` days after the last day; before it where negative."""
    return pick(chance, facts.events(facts.last_day + timedelta(days=low), facts.last_day + timedelta(days=high), tags))


def _one_or(chance: Random, facts: Facts, low: int, high: int | None = None) -> int:
    return low if high is None else whole(chance, facts, low, high)


DRAWS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        # numbers
        "whole": whole,
        "amount": lambda chance, facts, low, high, step: float(whole(chance, facts, low, high, step)),  # dollars
        "share": lambda chance, facts, base, step, most: base + step * whole(chance, facts, 0, most),
        "times": lambda _, _facts, number, factor: number * factor,
        "plus": lambda _, _facts, number, more: number + more,
        # stocks, coins and prices; a price is to the cent
        "stock": lambda chance, facts: pick(chance, facts.stocks).symbol,
        "named_stock": lambda chance, facts: pick(chance, facts.stocks),
        "coin": lambda chance, facts: pick(chance, facts.coins).symbol,
        "named_coin": lambda chance, facts: pick(chance, facts.coins),
        "stocks": stocks,
        "in_order": lambda _, _facts, names: sorted(names),
        "optionable": lambda chance, facts: pick(chance, facts.optionable).symbol,
        "lendable": lendable,
        "other_stock": lambda chance, facts, symbol: pick(chance, [row.symbol for row in facts.stocks if row.symbol != symbol]),
        "unlisted": lambda chance, facts, *names: pick(chance, facts.unlisted(names)),
        "close_times": lambda _, facts, symbol, factor: round(facts.close(symbol) * factor, 2),
        "percents_of_close": lambda chance, facts, symbol, low, high: round(
            facts.close(symbol) * 0.01 * whole(chance, facts, low, high), 2
        ),
        # a limit below a stop by a percent of the last close, at least a cent
        "below_stop": lambda _, facts, symbol, stop: round(stop - max(0.01, facts.close(symbol) * 0.01), 2),
        # days and moments; sessions are counted from the last one that is over
        "session": lambda _, facts, offset: facts.session(offset),
        "sessions_ago": lambda chance, facts, low, high: facts.session(-whole(chance, facts, low, high)),
        "sessions_ahead": lambda chance, facts, low, high: facts.session(whole(chance, facts, low, high)),
        "past_days": past_days,
        # so many sessions, the last of them `back` before the last one that is over
        "sessions_up_to": lambda _, facts, count, back: Days(facts.session(1 - back - count), facts.session(-back)),
        "days_after": lambda chance, facts, day, *reach: day + timedelta(days=_one_or(chance, facts, *reach)),
        "days_before": lambda chance, facts, day, *reach: day - timedelta(days=_one_or(chance, facts, *reach)),
        "days_between": lambda _, _facts, first, last: Days(first, last),
        "month_of": month_of,
        "week_of": week_of,
        "weeks_before": lambda chance, facts, day, low, high: day - timedelta(weeks=whole(chance, facts, low, high)),
        "local_time": lambda _, facts, day, hour, minute: facts.local_moment(day, hour, minute),
        "close_of": lambda _, _facts, day: trading_hours().close_of(day),
        "minutes_after": lambda _, _facts, moment_ns, minutes: moment_ns + minutes * MINUTE,
        "quarters_after": lambda chance, facts, moment_ns, low, high: (
            moment_ns + whole(chance, facts, low, high) * _QUARTER_MINUTES * MINUTE
        ),
        # options
        "expiry": lambda chance, facts, underlying: pick(chance, facts.expiries(underlying)),
        "monthly_expiry": lambda chance, facts, underlying: pick(chance, facts.monthly_expiries(underlying)),
        "next_monthly": partial(next_expiry, monthly=True),
        "near_strikes": near_strikes,
        "near_contract": near_contract,
        "at_the_money": at_the_money,
        "five_contracts": five_contracts,
        "item": lambda _, _facts, values, index: needed(values, index + 1)[index],
        "most_traded": lambda _, facts, underlying: facts.most_traded(underlying),
        "expired_contract": lambda chance, facts, underlying: (
            pick(chance, [row for row in facts.view.contracts(underlying) if row.expiry < facts.last_day]).symbol
        ),
        "listed_contract": lambda _, facts, underlying: needed(facts.contracts_of(underlying))[0].symbol,
        # legs of a vertical spread: bull of calls, bear of puts
        "debit_legs": lambda _, _facts, right, low, high: Legs(low, high) if right == "C" else Legs(high, low),
        "half_between": lambda _, _facts, low, high: round((high.strike_e4 - low.strike_e4) / (2 * E4), 2),
        # a limit for an option near the money: two percents of the last close, at least five cents
        "premium": lambda _, facts, underlying: round(max(0.05, facts.close(underlying) * 0.02), 2),
        # news and events of the last or next days
        "article": lambda chance, facts, days: pick(chance, facts.news(facts.last_day - timedelta(days=days), _ALL)),
        "publisher": publisher,
        "stock_in_news": stock_in_news,
        "event": event,
        "macro_event": lambda chance, facts, low, high, least="low": event(
            chance, facts, low, high, Tags(types=("macro_calendar",), least=least)
        ),
    }
)
