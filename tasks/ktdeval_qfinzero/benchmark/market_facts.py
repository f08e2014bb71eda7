"""Market facts at a point in time, and the functions that draw them for item templates.

A template names a draw and its arguments in a line of its file, such as `close_times symbol 1.02`.
Each function gets a random generator, the market's facts, and these arguments: numbers, words, or
facts drawn before. Items depend on the order of random draws, so changing the order changes the
items of a seed.
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
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import (
    E4,
    ContractRow,
    EventRow,
    EventType,
    MomentSpan,
    NewsRow,
    PageBounds,
    SymbolRow,
    TagFilters,
)
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, MINUTE, day_start
from ktdeval_qfinzero.trading_hours import trading_hours

_RECENT_SESSIONS = 5
_MANY = PageBounds(100_000)
T = TypeVar("T")


def require_enough(values: Sequence[T], least: int = 1) -> Sequence[T]:
    """Return the values. Raises DataError if there are fewer than `least`."""
    if len(values) < least:
        raise DataError("the dataset has no such thing; items need stocks, coins, options and news")
    return values


@dataclass(frozen=True)
class MomentFacts:
    """Facts of a dataset as of a point in time; later data are hidden."""

    dataset: Dataset
    as_of_ns: int

    @cached_property
    def view(self) -> DatasetView:
        """Dataset without rows that became public later."""
        return DatasetView(self.dataset, self.as_of_ns)

    # -- days

    @cached_property
    def last_day(self) -> date:
        """Last trading day whose session has ended."""
        return self.view.last_day("stock")

    @cached_property
    def row(self) -> int:
        """Index of `last_day` among the calendar's sessions."""
        return int(np.searchsorted(trading_hours().days, np.datetime64(self.last_day)))

    def session(self, offset: int) -> date:
        """Return the trading day `offset` sessions after `last_day` (before it, if negative).
        Raises DataError if the calendar does not reach that far.
        """
        hours = trading_hours()
        row = self.row + offset
        if not 0 <= row < len(hours.days):
            raise DataError(
                f"the calendar of sessions reaches from {hours.reach}; items need some weeks around"
                " the data"
            )
        return hours.day(row)

    def local_moment(self, day: date, hour: int, minute: int) -> int:
        """Convert a New York time on a trading day to a timestamp."""
        row = trading_hours().row_of(day)
        if row is None:
            raise DataError(f"{day} is not a trading day")

        # Sessions open at 9:30 in New York in summer and winter, so no time zone is needed.
        minutes_after_open = (hour - 9) * 60 + minute - 30
        return int(trading_hours().open_ns[row]) + minutes_after_open * MINUTE

    # -- stocks and crypto assets

    @cached_property
    def stocks(self) -> tuple[SymbolRow, ...]:
        """Stocks that traded in each of the last five sessions, sorted by symbol."""
        first_day = self.session(1 - _RECENT_SESSIONS)
        span = MomentSpan(day_start(first_day), day_start(self.last_day) + DAY)
        traded: list[SymbolRow] = []
        for row in self.view.symbols():
            if row.asset_class != "stock":
                continue
            bars = self.view.bars("stock", row.symbol, "day", span)
            if len(bars) == _RECENT_SESSIONS:
                traded.append(row)

        return tuple(traded)

    @cached_property
    def optionable(self) -> tuple[SymbolRow, ...]:
        """Stocks with options that have at least a week to run, sorted by symbol."""
        return tuple(
            row for row in self.stocks if row.has_options and self.contracts_of(row.symbol)
        )

    @cached_property
    def coins(self) -> tuple[SymbolRow, ...]:
        """Crypto assets, sorted by symbol."""
        return tuple(row for row in self.view.symbols() if row.asset_class == "crypto")

    def find_unlisted(self, names: Sequence[str]) -> list[str]:
        """Return the names that are not symbols in the dataset."""
        listed = {row.symbol for row in self.view.symbols()}
        return [name for name in names if name not in listed]

    def close(self, symbol: str) -> float:
        """Return a stock's last close, in dollars."""
        bars = self.view.bars("stock", symbol, "day", self._last_day_span)
        return int(bars.close_e4[-1]) / E4

    @property
    def _last_day_span(self) -> MomentSpan:
        start_ns = day_start(self.last_day)
        return MomentSpan(start_ns, start_ns + DAY)

    # -- options

    def contracts_of(self, underlying: str) -> tuple[ContractRow, ...]:
        """Return the listed options that have at least a week to run, sorted by symbol."""
        least = self.last_day + timedelta(days=7)
        return tuple(row for row in self.view.contracts(underlying) if row.expiry >= least)

    def expiries(self, underlying: str) -> tuple[date, ...]:
        """Return the expiries in `contracts_of`, in ascending order."""
        return tuple(sorted({row.expiry for row in self.contracts_of(underlying)}))

    def monthly_expiries(self, underlying: str) -> tuple[date, ...]:
        """Return the expiries on the third Friday of a month, or on the Thursday before if the
        Friday is a holiday.
        """
        return tuple(
            day for day in self.expiries(underlying) if day in _third_friday(day.year, day.month)
        )

    def strikes(self, underlying: str, expiry: date) -> tuple[float, ...]:
        """Return the listed strikes of an expiry, in dollars, in ascending order."""
        strikes: set[float] = set()
        for row in self.contracts_of(underlying):
            if row.expiry == expiry:
                strikes.add(row.strike_e4 / E4)

        return tuple(sorted(strikes))

    def contracts(self, underlying: str, expiry: date, right: str) -> list[OptionContract]:
        """Return the contracts with an expiry and a right (`C` or `P`)."""
        return [
            row.contract
            for row in self.contracts_of(underlying)
            if row.expiry == expiry and row.right == right
        ]

    def most_traded(self, underlying: str) -> OptionContract:
        """Return the call with the largest volume in the last session, among in-the-money calls
        with one of the next three expiries.
        """
        traded = self.view.chain_bars(underlying, "day", self._last_day_span)
        near = self.expiries(underlying)[:3]
        spot_e4 = self.close(underlying) * E4
        rows = [
            row
            for row in self.contracts_of(underlying)
            if row.right == "C" and row.expiry in near and row.strike_e4 < spot_e4
        ]

        def volume_then_symbol(row: ContractRow) -> tuple[float, str]:
            bars = traded.get(row.symbol)
            volume = 0.0 if bars is None else float(bars.volume[-1])
            return volume, row.symbol

        return max(require_enough(rows), key=volume_then_symbol).contract

    # -- events

    def events(self, first: date, last: date, tags: TagFilters) -> Sequence[EventRow]:
        """Return the calendar events from `first` to `last`, both included (UTC)."""
        span = MomentSpan(day_start(first), day_start(last) + DAY)
        return self.view.events(span, tags, _MANY)

    def news(self, first: date, tags: TagFilters) -> Sequence[NewsRow]:
        """Return the articles from `first` (UTC) to the point in time, both included."""
        span = MomentSpan(day_start(first), self.as_of_ns + 1)
        return self.view.news(span, tags, _MANY)


def _third_friday(year: int, month: int) -> tuple[date, date]:
    """Return the third Friday of a month, and the Thursday before it."""
    first = date(year, month, 1)
    friday = first + timedelta(days=(4 - first.weekday()) % 7 + 14)
    return friday, friday - timedelta(days=1)


Random = np.random.Generator

_TWO_WEEKS = 9  #: In sessions; an expiry after this many is at least two weeks ahead
_QUARTER_MINUTES = 15
_IN_NEWS: tuple[EventType, ...] = ("breaking_news", "daily_news", "analyst_action")
_BORROWABLE = 1_000
_ALL = TagFilters()


@dataclass(frozen=True, slots=True)
class DayRange:
    """A date range, with both ends included."""

    first: date
    last: date


@dataclass(frozen=True, slots=True)
class StrikeRange:
    """A range of strikes in dollars, with both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpreadContracts:
    """The two contracts of a debit spread."""

    bought: OptionContract
    sold: OptionContract


def pick(chance: Random, values: Sequence[T]) -> T:
    """Draw one of the values. Raises DataError if there are no values."""
    return require_enough(values)[int(chance.integers(len(values)))]


def whole(chance: Random, _: MomentFacts, low: int, high: int, step: int = 1) -> int:
    """Draw an integer from `low` to `high`, both included, in steps of `step`."""
    steps = int(chance.integers((high - low) // step + 1))
    return low + step * steps


def stocks(chance: Random, facts: MomentFacts, low: int, high: int | None = None) -> list[str]:
    """Draw the symbols of `low` (or of `low` to `high`) different stocks, in random order."""
    count = _draw_count(chance, facts, low, high)
    rows = require_enough(facts.stocks, count)
    return [rows[index].symbol for index in chance.permutation(len(rows))[:count]]


def lendable(chance: Random, facts: MomentFacts) -> str:
    """Draw a stock with at least 1,000 shares to borrow."""
    rows: list[SymbolRow] = []
    for row in facts.stocks:
        lent = facts.view.borrow(row.symbol)
        if lent is not None and lent.shares >= _BORROWABLE:
            rows.append(row)

    return pick(chance, rows).symbol


def past_days(chance: Random, facts: MomentFacts) -> DayRange:
    """Draw two past trading days that are 3 to 20 sessions apart."""
    last = -whole(chance, facts, 0, 25)
    first = last - whole(chance, facts, 3, 20)
    return DayRange(facts.session(first), facts.session(last))


def month_of(_: Random, _facts: MomentFacts, day: date) -> DayRange:
    """Return the first and last day of a day's month."""
    first = day.replace(day=1)
    first_of_next = (first + timedelta(days=32)).replace(day=1)
    return DayRange(first, first_of_next - timedelta(days=1))


def week_of(_: Random, _facts: MomentFacts, day: date) -> DayRange:
    """Return the Monday and Friday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return DayRange(monday, monday + timedelta(days=4))


def next_expiry(_: Random, facts: MomentFacts, underlying: str, *, monthly: bool = False) -> date:
    """Return the first expiry (or monthly expiry) at least two weeks ahead."""
    days = facts.expiries(underlying)
    if monthly:
        days = facts.monthly_expiries(underlying)

    soonest = facts.session(_TWO_WEEKS)
    return require_enough([day for day in days if day > soonest])[0]


def near_strikes(_: Random, facts: MomentFacts, underlying: str, day: date) -> StrikeRange:
    """Return the third listed strike below the last close and the third above it, or the outermost
    strikes if there are fewer.
    """
    strikes = require_enough(facts.strikes(underlying, day))
    spot = facts.close(underlying)
    below = [strike for strike in strikes if strike <= spot] or list(strikes[:1])
    above = [strike for strike in strikes if strike > spot] or list(strikes[-1:])
    low = below[-min(3, len(below))]
    high = above[min(2, len(above) - 1)]

    return StrikeRange(low, high)


def near_contract(chance: Random, facts: MomentFacts, underlying: str) -> OptionContract:
    """Draw a contract with one of the next four expiries and a strike near the last close."""
    day = pick(chance, facts.expiries(underlying)[:4])
    near = near_strikes(chance, facts, underlying, day)
    listed = facts.strikes(underlying, day)
    strike = pick(chance, [strike for strike in listed if near.low <= strike <= near.high])

    return OptionContract(underlying, day, round(strike * E4), pick(chance, ("C", "P")))


def at_the_money(
    _: Random, facts: MomentFacts, underlying: str, right: str, away: int = 0
) -> OptionContract:
    """Return the contract of the next expiry with the strike nearest to the last close, or `away`
    strikes above it.
    """
    day = next_expiry(_, facts, underlying)
    spot = facts.close(underlying)
    rows = sorted(
        require_enough(facts.contracts(underlying, day, right)), key=lambda row: row.strike
    )
    nearest = min(range(len(rows)), key=lambda index: (abs(rows[index].strike - spot), index))
    index = nearest + away
    highest = len(rows) - 1

    return rows[min(max(index, 0), highest)]


def five_contracts(
    _: Random, facts: MomentFacts, underlying: str, day: date, right: str
) -> list[OptionContract]:
    """Return the five contracts of an expiry with the strikes nearest to the last close, sorted by
    strike.
    """
    spot_e4 = facts.close(underlying) * E4
    rows = sorted(
        require_enough(facts.contracts(underlying, day, right), 5),
        key=lambda row: (abs(row.strike_e4 - spot_e4), row.strike_e4),
    )
    return sorted(rows[:5], key=lambda row: row.strike_e4)


def publisher(chance: Random, facts: MomentFacts, days: int) -> str:
    """Draw the publisher of an article from the last `days` days."""
    articles = facts.news(facts.last_day - timedelta(days=days), TagFilters())
    names = {row.publisher["name"] for row in articles}
    return pick(chance, sorted(names))


def stock_in_news(chance: Random, facts: MomentFacts, first: date) -> str:
    """Draw a stock that an article since `first` mentions."""
    tradable = {row.symbol for row in facts.stocks}
    mentioned: set[str] = set()
    for row in facts.news(first, TagFilters(types=_IN_NEWS)):
        mentioned.update(row.tickers)

    return pick(chance, sorted(mentioned & tradable))


def event(
    chance: Random, facts: MomentFacts, low: int, high: int, tags: TagFilters = _ALL
) -> EventRow:
    """Draw a calendar event `low` to `high` days after the last day (before it, if negative)."""
    first = facts.last_day + timedelta(days=low)
    last = facts.last_day + timedelta(days=high)
    return pick(chance, facts.events(first, last, tags))


def _expired_contract(chance: Random, facts: MomentFacts, underlying: str) -> str:
    rows = facts.view.contracts(underlying)
    expired = [row for row in rows if row.expiry < facts.last_day]
    return pick(chance, expired).symbol


def _other_stock(chance: Random, facts: MomentFacts, symbol: str) -> str:
    others = [row.symbol for row in facts.stocks if row.symbol != symbol]
    return pick(chance, others)


def _draw_count(chance: Random, facts: MomentFacts, low: int, high: int | None = None) -> int:
    """Draw a number from `low` to `high`; without `high`, return `low` and draw nothing."""
    if high is None:
        return low
    return whole(chance, facts, low, high)


DRAWS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        # numbers
        "whole": whole,
        # dollars
        "amount": lambda chance, facts, low, high, step: float(
            whole(chance, facts, low, high, step)
        ),
        "share": lambda chance, facts, base, step, most: (
            base + step * whole(chance, facts, 0, most)
        ),
        "times": lambda _, _facts, number, factor: number * factor,
        "plus": lambda _, _facts, number, more: number + more,
        # stocks, crypto assets and prices; a price is to the cent
        "stock": lambda chance, facts: pick(chance, facts.stocks).symbol,
        "named_stock": lambda chance, facts: pick(chance, facts.stocks),
        "coin": lambda chance, facts: pick(chance, facts.coins).symbol,
        "named_coin": lambda chance, facts: pick(chance, facts.coins),
        "stocks": stocks,
        "in_order": lambda _, _facts, names: sorted(names),
        "optionable": lambda chance, facts: pick(chance, facts.optionable).symbol,
        "lendable": lendable,
        "other_stock": _other_stock,
        "unlisted": lambda chance, facts, *names: pick(chance, facts.find_unlisted(names)),
        "close_times": lambda _, facts, symbol, factor: round(facts.close(symbol) * factor, 2),
        "percents_of_close": lambda chance, facts, symbol, low, high: round(
            facts.close(symbol) * 0.01 * whole(chance, facts, low, high), 2
        ),
        # a limit below a stop by one percent of the last close, at least a cent
        "below_stop": lambda _, facts, symbol, stop: round(
            stop - max(0.01, facts.close(symbol) * 0.01), 2
        ),
        # days and times; sessions are counted from the last completed session
        "session": lambda _, facts, offset: facts.session(offset),
        "sessions_ago": lambda chance, facts, low, high: facts.session(
            -whole(chance, facts, low, high)
        ),
        "sessions_ahead": lambda chance, facts, low, high: facts.session(
            whole(chance, facts, low, high)
        ),
        "past_days": past_days,
        # `count` consecutive sessions, ending `back` sessions before the last completed session
        "sessions_up_to": lambda _, facts, count, back: DayRange(
            facts.session(1 - back - count), facts.session(-back)
        ),
        "days_after": lambda chance, facts, day, *reach: (
            day + timedelta(days=_draw_count(chance, facts, *reach))
        ),
        "days_before": lambda chance, facts, day, *reach: (
            day - timedelta(days=_draw_count(chance, facts, *reach))
        ),
        "days_between": lambda _, _facts, first, last: DayRange(first, last),
        "month_of": month_of,
        "week_of": week_of,
        "weeks_before": lambda chance, facts, day, low, high: (
            day - timedelta(weeks=whole(chance, facts, low, high))
        ),
        "local_time": lambda _, facts, day, hour, minute: facts.local_moment(day, hour, minute),
        "close_of": lambda _, _facts, day: trading_hours().close_of(day),
        "minutes_after": lambda _, _facts, moment_ns, minutes: moment_ns + minutes * MINUTE,
        "quarters_after": lambda chance, facts, moment_ns, low, high: (
            moment_ns + whole(chance, facts, low, high) * _QUARTER_MINUTES * MINUTE
        ),
        # options
        "expiry": lambda chance, facts, underlying: pick(chance, facts.expiries(underlying)),
        "monthly_expiry": lambda chance, facts, underlying: pick(
            chance, facts.monthly_expiries(underlying)
        ),
        "next_monthly": partial(next_expiry, monthly=True),
        "near_strikes": near_strikes,
        "near_contract": near_contract,
        "at_the_money": at_the_money,
        "five_contracts": five_contracts,
        "item": lambda _, _facts, values, index: require_enough(values, index + 1)[index],
        "most_traded": lambda _, facts, underlying: facts.most_traded(underlying),
        "expired_contract": _expired_contract,
        "listed_contract": lambda _, facts, underlying: (
            require_enough(facts.contracts_of(underlying))[0].symbol
        ),
        # legs of a vertical spread: bull call or bear put
        "debit_legs": lambda _, _facts, right, low, high: (
            SpreadContracts(low, high) if right == "C" else SpreadContracts(high, low)
        ),
        "half_between": lambda _, _facts, low, high: round(
            (high.strike_e4 - low.strike_e4) / (2 * E4), 2
        ),
        # a limit for an option near the money: two percent of the last close, at least five cents
        "premium": lambda _, facts, underlying: round(max(0.05, facts.close(underlying) * 0.02), 2),
        # news and events of the past or coming days
        "article": lambda chance, facts, days: pick(
            chance, facts.news(facts.last_day - timedelta(days=days), _ALL)
        ),
        "publisher": publisher,
        "stock_in_news": stock_in_news,
        "event": event,
        "macro_event": lambda chance, facts, low, high, least="low": event(
            chance, facts, low, high, TagFilters(types=("macro_calendar",), least=least)
        ),
    }
)
