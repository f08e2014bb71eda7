"""Facts that item templates draw: the closed set of functions that a template file may name.

Each takes chance, the market's facts, and the arguments written behind its name in the file: numbers, words, or facts that were
drawn before. The order of draws is part of an item: equal seeds give equal items only as long as it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from ktdeval_qfinzero.benchmark.facts import Contract, Facts
from ktdeval_qfinzero.data.rows import E4, EventRow, EventType, Importance, NewsRow, SymbolRow
from ktdeval_qfinzero.data.stores import Tags
from ktdeval_qfinzero.moments import MINUTE
from ktdeval_qfinzero.trading_hours import trading_hours

Random = np.random.Generator
T = TypeVar("T")

_TWO_WEEKS = 9
_QUARTER_MINUTES = 15
_IN_NEWS: tuple[EventType, ...] = ("breaking_news", "daily_news", "analyst_action")
_BORROWABLE = 1_000


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

    bought: Contract
    sold: Contract


# ---- numbers


def pick(chance: Random, values: Sequence[T]) -> T:
    """One of some values."""
    return values[int(chance.integers(len(values)))]


def whole(chance: Random, _: Facts, low: int, high: int, step: int = 1) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + step * int(chance.integers((high - low) // step + 1))


def amount(chance: Random, facts: Facts, low: int, high: int, step: int) -> float:
    """Whole dollars from `low` to `high`."""
    return float(whole(chance, facts, low, high, step))


def share(chance: Random, facts: Facts, base: float, step: float, most: int) -> float:
    """`base` and up to `most` steps."""
    return base + step * whole(chance, facts, 0, most)


def times(_: Random, _facts: Facts, number: int, factor: int) -> int:
    """A product."""
    return number * factor


def plus(_: Random, _facts: Facts, number: int, more: int) -> int:
    """A sum."""
    return number + more


# ---- stocks, coins and prices


def stock(chance: Random, facts: Facts) -> str:
    """A stock's symbol."""
    return pick(chance, facts.stocks).symbol


def named_stock(chance: Random, facts: Facts) -> SymbolRow:
    """A stock with its name."""
    return pick(chance, facts.stocks)


def named_coin(chance: Random, facts: Facts) -> SymbolRow:
    """A coin with its name."""
    return pick(chance, facts.coins)


def coin(chance: Random, facts: Facts) -> str:
    """A coin's symbol."""
    return pick(chance, facts.coins).symbol


def stocks(chance: Random, facts: Facts, low: int, high: int | None = None) -> list[str]:
    """Symbols of `low`, or of `low` to `high`, stocks, each once, in a random order."""
    count = low if high is None else whole(chance, facts, low, high)
    return [facts.stocks[index].symbol for index in chance.permutation(len(facts.stocks))[:count]]


def in_order(_: Random, _facts: Facts, names: Sequence[str]) -> list[str]:
    """Names from A to Z."""
    return sorted(names)


def optionable(chance: Random, facts: Facts) -> str:
    """A stock that has options."""
    return pick(chance, facts.optionable).symbol


def lendable(chance: Random, facts: Facts) -> str:
    """A stock of which enough can be borrowed."""
    rows = [row for row in facts.stocks if (lent := facts.view.borrow(row.symbol)) is not None and lent.shares >= _BORROWABLE]
    return pick(chance, rows).symbol


def other_stock(chance: Random, facts: Facts, symbol: str) -> str:
    """A stock that is not this one."""
    return pick(chance, [row.symbol for row in facts.stocks if row.symbol != symbol])


def unlisted(chance: Random, facts: Facts, *names: str) -> str:
    """One of some names that no instrument has."""
    known = {row.symbol for row in facts.view.symbols()}
    return pick(chance, [name for name in names if name not in known])


def close_times(_: Random, facts: Facts, symbol: str, factor: float) -> float:
    """Last close times a factor, to the cent."""
    return round(facts.close(symbol) * factor, 2)


def percents_of_close(chance: Random, facts: Facts, symbol: str, low: int, high: int) -> float:
    """So many percents of the last close, to the cent."""
    return round(facts.close(symbol) * 0.01 * whole(chance, facts, low, high), 2)


def below_stop(_: Random, facts: Facts, symbol: str, stop: float) -> float:
    """A limit below a stop by a percent of the last close, at least a cent."""
    return round(stop - max(0.01, facts.close(symbol) * 0.01), 2)


# ---- days and moments


def session(_: Random, facts: Facts, offset: int) -> date:
    """Trading day so many sessions after the last one that is over; before it where negative."""
    return facts.session(offset)


def sessions_ago(chance: Random, facts: Facts, low: int, high: int) -> date:
    """Trading day `low` to `high` sessions before the last one that is over."""
    return facts.session(-whole(chance, facts, low, high))


def sessions_ahead(chance: Random, facts: Facts, low: int, high: int) -> date:
    """Trading day `low` to `high` sessions after the last one that is over."""
    return facts.session(whole(chance, facts, low, high))


def past_days(chance: Random, facts: Facts) -> Days:
    """Two trading days that are over, three to twenty sessions from one to the other."""
    last = -whole(chance, facts, 0, 25)
    return Days(facts.session(last - whole(chance, facts, 3, 20)), facts.session(last))


def sessions_up_to(_: Random, facts: Facts, count: int, back: int) -> Days:
    """So many sessions, the last of them `back` before the last one that is over."""
    return Days(facts.session(1 - back - count), facts.session(-back))


def days_after(chance: Random, facts: Facts, day: date, low: int, high: int | None = None) -> date:
    """Day `low`, or `low` to `high`, days after another."""
    return day + timedelta(days=low if high is None else whole(chance, facts, low, high))


def days_before(chance: Random, facts: Facts, day: date, low: int, high: int | None = None) -> date:
    """Day `low`, or `low` to `high`, days before another."""
    return day - timedelta(days=low if high is None else whole(chance, facts, low, high))


def days_between(_: Random, _facts: Facts, first: date, last: date) -> Days:
    """A range of two days."""
    return Days(first, last)


def month_of(_: Random, _facts: Facts, day: date) -> Days:
    """First and last day of a day's month."""
    first = day.replace(day=1)
    return Days(first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1))


def week_of(_: Random, _facts: Facts, day: date) -> Days:
    """Monday and Friday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return Days(monday, monday + timedelta(days=4))


def weeks_before(chance: Random, facts: Facts, day: date, low: int, high: int) -> date:
    """Day `low` to `high` weeks before another."""
    return day - timedelta(weeks=whole(chance, facts, low, high))


def local_time(_: Random, facts: Facts, day: date, hour: int, minute: int) -> int:
    """Moment at which the clocks of New York show a time on a trading day, in nanoseconds."""
    return facts.local_moment(day, hour, minute)


def close_of(_: Random, _facts: Facts, day: date) -> int:
    """Moment of a trading day's regular close, in nanoseconds."""
    return trading_hours().close_of(day)


def minutes_after(_: Random, _facts: Facts, moment_ns: int, minutes: int) -> int:
    """A moment so many minutes later."""
    return moment_ns + minutes * MINUTE


def quarters_after(chance: Random, facts: Facts, moment_ns: int, low: int, high: int) -> int:
    """A moment `low` to `high` quarters of an hour later."""
    return moment_ns + whole(chance, facts, low, high) * _QUARTER_MINUTES * MINUTE


# ---- options


def expiry(chance: Random, facts: Facts, underlying: str) -> date:
    """An expiry."""
    return pick(chance, facts.expiries(underlying))


def monthly_expiry(chance: Random, facts: Facts, underlying: str) -> date:
    """A monthly expiry."""
    return pick(chance, facts.monthly_expiries(underlying))


def next_expiry(_: Random, facts: Facts, underlying: str) -> date:
    """First expiry at least two weeks ahead."""
    return next(day for day in facts.expiries(underlying) if day > facts.session(_TWO_WEEKS))


def next_monthly(_: Random, facts: Facts, underlying: str) -> date:
    """First monthly expiry at least two weeks ahead."""
    return next(day for day in facts.monthly_expiries(underlying) if day > facts.session(_TWO_WEEKS))


def near_strikes(_: Random, facts: Facts, underlying: str, day: date) -> Strikes:
    """Two listed strikes around the last close."""
    strikes, spot = facts.strikes(underlying, day), facts.close(underlying)
    below = [strike for strike in strikes if strike <= spot] or list(strikes[:1])
    above = [strike for strike in strikes if strike > spot] or list(strikes[-1:])
    return Strikes(below[-min(3, len(below))], above[min(2, len(above) - 1)])


def near_contract(chance: Random, facts: Facts, underlying: str) -> Contract:
    """A contract of one of the next four expiries whose strike is near the last close."""
    day = pick(chance, facts.expiries(underlying)[:4])
    near = near_strikes(chance, facts, underlying, day)
    strike = pick(chance, [strike for strike in facts.strikes(underlying, day) if near.low <= strike <= near.high])
    return Contract.of_terms(underlying, day, strike, pick(chance, ("C", "P")))


def at_the_money(_: Random, facts: Facts, underlying: str, right: str, away: int = 0) -> Contract:
    """Contract of the next expiry whose strike is nearest to the last close, or `away` strikes further up."""
    day, spot = next_expiry(_, facts, underlying), facts.close(underlying)
    rows = sorted(facts.contracts(underlying, day, right), key=lambda row: row.strike)
    nearest = min(range(len(rows)), key=lambda index: (abs(rows[index].strike - spot), index))
    return rows[min(max(nearest + away, 0), len(rows) - 1)]


def five_contracts(_: Random, facts: Facts, underlying: str, day: date, right: str) -> list[Contract]:
    """Five contracts of an expiry around the last close, by strike."""
    spot_e4 = facts.close(underlying) * E4
    rows = sorted(facts.contracts(underlying, day, right), key=lambda row: (abs(row.strike_e4 - spot_e4), row.strike_e4))
    return sorted(rows[:5], key=lambda row: row.strike_e4)


def item(_: Random, _facts: Facts, values: Sequence[T], index: int) -> T:
    """One of some values by its place; from the end where negative."""
    return values[index]


def most_traded(_: Random, facts: Facts, underlying: str) -> Contract:
    """Call in the money, of the next three expiries, that most contracts of were traded in the last session."""
    return facts.most_traded(underlying)


def expired_contract(chance: Random, facts: Facts, underlying: str) -> str:
    """Symbol of a contract that is no more."""
    return pick(chance, [row for row in facts.view.contracts(underlying) if row.expiry < facts.last_day]).symbol


def listed_contract(_: Random, facts: Facts, underlying: str) -> str:
    """Symbol of a contract that is listed."""
    return facts.contracts_of(underlying)[0].symbol


def debit_legs(_: Random, _facts: Facts, right: str, low: Contract, high: Contract) -> Legs:
    """Legs of a vertical spread: bull of calls, bear of puts."""
    return Legs(low, high) if right == "C" else Legs(high, low)


def half_between(_: Random, _facts: Facts, low: Contract, high: Contract) -> float:
    """Half of what two strikes are apart, in dollars."""
    return round((high.strike_e4 - low.strike_e4) / (2 * E4), 2)


def premium(_: Random, facts: Facts, underlying: str) -> float:
    """A limit for an option near the money: two percents of the last close, at least five cents."""
    return round(max(0.05, facts.close(underlying) * 0.02), 2)


# ---- news and events


def article(chance: Random, facts: Facts, days: int) -> NewsRow:
    """An article of the last days."""
    return pick(chance, facts.news(facts.last_day - timedelta(days=days), Tags()))


def publisher(chance: Random, facts: Facts, days: int) -> str:
    """Who published something in the last days."""
    articles = facts.news(facts.last_day - timedelta(days=days), Tags())
    return pick(chance, sorted({row.publisher["name"] for row in articles}))


def stock_in_news(chance: Random, facts: Facts, first: date) -> str:
    """A stock that articles since a day are about."""
    tradable = {row.symbol for row in facts.stocks}
    articles = facts.news(first, Tags(types=_IN_NEWS))
    return pick(chance, sorted({ticker for row in articles for ticker in row.tickers if ticker in tradable}))


def event(chance: Random, facts: Facts, low: int, high: int) -> EventRow:
    """A calendar event `low` to `high` days after the last day; before it where negative."""
    return pick(chance, facts.events(facts.last_day + timedelta(days=low), facts.last_day + timedelta(days=high), Tags()))


def macro_event(chance: Random, facts: Facts, low: int, high: int, least: Importance = "low") -> EventRow:
    """An economic release `low` to `high` days after the last day; before it where negative."""
    tags = Tags(types=("macro_calendar",), least=least)
    return pick(chance, facts.events(facts.last_day + timedelta(days=low), facts.last_day + timedelta(days=high), tags))


DRAWS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            whole, amount, share, times, plus,
            stock, named_stock, coin, named_coin, stocks, in_order, optionable, lendable, other_stock, unlisted,
            close_times, percents_of_close, below_stop,
            session, sessions_ago, sessions_ahead, past_days, sessions_up_to, days_after, days_before, days_between,
            month_of, week_of, weeks_before, local_time, close_of, minutes_after, quarters_after,
            expiry, monthly_expiry, next_expiry, next_monthly, near_strikes, near_contract, at_the_money, five_contracts,
            item, most_traded, expired_contract, listed_contract, debit_legs, half_between, premium,
            article, publisher, stock_in_news, event, macro_event
        )
    }
)  # fmt: skip
