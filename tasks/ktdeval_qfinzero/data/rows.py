"""Contents of the stores: columns of bars, rows of everything else, and query parameters.

Each row has the time from which it may be seen. Every query takes `as_of_ns` and must return
nothing that became known later. If possible, a store filters in the query, so that limits count
only visible rows. Services read through `ktdeval_qfinzero.point_in_time_view.DatasetView`.

Prices and amounts are integers in ten-thousandths of a dollar (`_e4`), so that sums are exact.
Times are nanoseconds in UTC. Stores are immutable while they are read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

import numpy as np
import numpy.typing as npt

from ktdeval.values import JsonValue
from ktdeval_qfinzero.instruments import OptionContract, Right, read_contract
from ktdeval_qfinzero.trading_hours import DEFAULT, TradingHours, trading_hours

AssetClass = Literal["stock", "option", "crypto"]
Resolution = Literal["day", "minute"]
Importance = Literal["low", "medium", "high"]
EventType = Literal[
    "macro_calendar", "earnings", "breaking_news", "daily_news", "analyst_action", "option_signal"
]
Market = Literal["us", "global", "crypto"]

IMPORTANCE: tuple[Importance, ...] = ("low", "medium", "high")
CALENDAR_TYPES: tuple[EventType, ...] = ("macro_calendar", "earnings")
NEWS_TYPES: tuple[EventType, ...] = (
    "breaking_news",
    "daily_news",
    "analyst_action",
    "option_signal",
)
E4 = 10_000

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> tuple[str, ...]:
    """Return the words in a text in order, normalised for comparison.

    A word is a run of letters and digits; all other characters only separate words. Compatible
    forms of a letter become one (Unicode NFKC), and case is folded: `AT&T's Q4-Results` has the
    words `at`, `t`, `s`, `q4`, `results`.
    """
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
DayArray = npt.NDArray[np.datetime64]
"""[n] distinct days in ascending order, datetime64[D]."""


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of one instrument, in ascending order. `open_e4`, `high_e4`, `low_e4`, `close_e4`: [n]
    unadjusted prices.
    """

    start_ns: IntArray  #: [n] start of the bar; for a daily bar, midnight UTC of its date
    open_e4: IntArray
    high_e4: IntArray
    low_e4: IntArray
    close_e4: IntArray
    #: [n] shares, contracts or units of a crypto asset; whole numbers except for crypto assets
    volume: FloatArray
    transactions: IntArray  #: [n]

    def __len__(self) -> int:
        return len(self.start_ns)

    def columns(self) -> tuple[IntArray | FloatArray, ...]:
        """Columns, in the order of `BAR_COLUMNS`."""
        prices = (self.open_e4, self.high_e4, self.low_e4, self.close_e4)
        return (self.start_ns, *prices, self.volume, self.transactions)

    def price_e4(self, name: str) -> IntArray:
        """Return the [n] prices with this name: open, high, low or close."""
        prices: IntArray = getattr(self, f"{name}_e4")
        return prices

    def take(self, rows: slice | npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Bars:
        """Return a selection of the bars."""
        prices = (self.open_e4[rows], self.high_e4[rows], self.low_e4[rows], self.close_e4[rows])
        return Bars(self.start_ns[rows], *prices, self.volume[rows], self.transactions[rows])


#: Columns of `Bars`, in order
BAR_COLUMNS = ("start_ns", "open_e4", "high_e4", "low_e4", "close_e4", "volume", "transactions")


def group_bars(bars: Bars, first: IntArray, start_ns: IntArray) -> Bars:
    """Combine bars into longer ones, with the first open, the highest high, …, and sums.

    `first`: [m] first row of each longer bar; `start_ns`: [m] starts of the longer bars.
    """
    return Bars(
        start_ns,
        bars.open_e4[first],
        np.maximum.reduceat(bars.high_e4, first),
        np.minimum.reduceat(bars.low_e4, first),
        bars.close_e4[np.append(first[1:], len(bars)) - 1],
        np.add.reduceat(bars.volume, first),
        np.add.reduceat(bars.transactions, first),
    )


def empty_bars() -> Bars:
    """Return a table without bars."""
    none = np.empty(0, np.int64)
    no_volume = np.empty(0, np.float64)
    return Bars(none, none, none, none, none, no_volume, none)


def join(pieces: Sequence[Bars]) -> Bars:
    """Concatenate bars. The arrays of the result are immutable."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return empty_bars()

    columns = zip(*(piece.columns() for piece in pieces), strict=True)
    return immutable(Bars(*map(np.concatenate, columns)))


def immutable(bars: Bars) -> Bars:
    """Make the arrays of bars read-only, and return the bars."""
    for column in bars.columns():
        column.flags.writeable = False
    return bars


def within_int64(number: int) -> int:
    """Clip a number to the range of 64-bit integers."""
    return max(-(2**63 - 1), min(number, 2**63 - 1))


def cut(bars: Bars, span: MomentSpan) -> Bars:
    """Return the bars that start in the span."""
    ends = np.array([within_int64(span.start_ns), within_int64(span.end_ns)], np.int64)
    first, stop = np.searchsorted(bars.start_ns, ends)
    return bars.take(slice(int(first), int(stop)))


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A stock or crypto asset. `listed_ns`: time from which it may be seen; if it is delisted, it
    keeps its history.
    """

    symbol: str
    asset_class: Literal["stock", "crypto"]
    name: str
    sector: str
    listed_ns: int
    has_options: bool = False


@dataclass(frozen=True, slots=True)
class ContractRow:
    """A listed option."""

    symbol: str
    underlying: str
    expiry: date
    strike_e4: int
    right: Right
    listed_ns: int

    @property
    def contract(self) -> OptionContract:
        """Terms of the option."""
        root = "" if self.root == self.underlying else self.root
        return OptionContract(self.underlying, self.expiry, self.strike_e4, self.right, root)

    @property
    def root(self) -> str:
        """Root of the OPRA symbol; empty if the symbol is malformed."""
        read = read_contract(self.symbol)
        return "" if read is None else read.underlying


@dataclass(frozen=True, slots=True)
class RateRow:
    """Treasury curve for a day: yields in percent by tenor (`1M` … `30Y`), published at
    `available_ns`.
    """

    day: date
    yields_pct: Mapping[str, float]
    available_ns: int


TENOR_YEARS: Mapping[str, float] = {
    "1M": 1 / 12,
    "3M": 0.25,
    "1Y": 1.0,
    "2Y": 2.0,
    "5Y": 5.0,
    "10Y": 10.0,
    "30Y": 30.0,
}


@dataclass(frozen=True, slots=True)
class DividendRow:
    """A cash dividend per share, known from `declared_ns` and taken off the price at the open of
    `ex_day`.
    """

    symbol: str
    ex_day: date
    pay_day: date
    amount_e4: int
    declared_ns: int


@dataclass(frozen=True, slots=True)
class SplitRow:
    """A split with `new` shares for each `old` shares (1 for 10 is a reverse split) from the open
    of `ex_day`, known from `announced_ns`.
    """

    symbol: str
    ex_day: date
    new: int
    old: int
    announced_ns: int


@dataclass(frozen=True, slots=True)
class DealRow:
    """Delisting of a stock, which stops trading at the open of `day`.

    A share becomes `cash_e4` and `new / old` shares of `into` (no shares if `into` is empty). If
    there is neither cash nor `into`, the terms are unknown and a share is worth its last price.
    Known from `announced_ns`.
    """

    symbol: str
    day: date
    cash_e4: int
    into: str
    new: int
    old: int
    announced_ns: int

    @property
    def has_terms(self) -> bool:
        """True if the terms for a share are known."""
        return bool(self.cash_e4 or self.into)


@dataclass(frozen=True, slots=True)
class BorrowRow:
    """Shares of a stock that can be borrowed to sell it short, from `available_ns` until the next
    row.
    """

    symbol: str
    available_ns: int
    shares: int
    fee_bps_per_year: int


@dataclass(frozen=True, slots=True)
class EventRelease:
    """Values of a calendar event that become known at one time (the outcome, or later a
    revision).
    """

    available_ns: int
    values: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class EventRow:
    """A calendar event: earnings or a macroeconomic release."""

    event_id: str
    event_type: EventType  #: one of `CALENDAR_TYPES`
    title: str
    time_ns: int  #: when the event is due
    announced_ns: int  #: when the calendar first shows the event
    importance: Importance
    tickers: tuple[str, ...] = ()
    country: str = "US"
    market: Market = "us"
    #: facts known in advance: estimates, consensus, previous value, fiscal period, description
    expected: Mapping[str, JsonValue] = field(default_factory=dict)
    releases: tuple[EventRelease, ...] = ()  #: facts that become known later, oldest first
    source: str = "synthetic"


def known_moments(row: EventRow) -> tuple[int, ...]:
    """Return the times at which something about an event became known, in ascending order. Releases
    before the announcement count at the time of the announcement.
    """
    return tuple(
        sorted(
            {
                row.announced_ns,
                *(max(row.announced_ns, release.available_ns) for release in row.releases),
            }
        )
    )


def as_known(row: EventRow, known_ns: int) -> EventRow:
    """Return the event with only the releases known at `known_ns`."""
    return replace(
        row, releases=tuple(release for release in row.releases if release.available_ns <= known_ns)
    )


@dataclass(frozen=True, slots=True)
class NewsRow:
    """An article (table 3 of the QFinZero paper), with the tags by which it can be found."""

    id: str  #: `news_…`; also the event id
    event_type: EventType  #: one of `NEWS_TYPES`
    title: str
    published_ns: int  #: time from which the article may be seen
    importance: Importance
    tickers: tuple[str, ...]
    description: str
    body: str  #: full text
    article_url: str
    author: str
    publisher: Mapping[str, str]  #: name, homepage_url, logo_url
    market: Market = "us"
    keywords: tuple[str, ...] = ()
    image_url: str = ""
    insights: tuple[Mapping[str, str], ...] = ()  #: each with ticker, sentiment and reasoning
    source: str = "synthetic"


def row_key(row: EventRow | NewsRow) -> tuple[int, str]:
    """Return the key by which events and articles are sorted and pages continue."""
    return (row.time_ns, row.event_id) if isinstance(row, EventRow) else (row.published_ns, row.id)


BarKey = tuple[AssetClass, str, Resolution]


@dataclass(frozen=True)
class PriceRows:
    """Bars and the small tables related to prices, as plain rows in any order."""

    #: (asset class, symbol, resolution) -> bars; may be computed on access
    bar_table: Mapping[BarKey, Bars] = field(default_factory=dict)
    symbol_rows: Sequence[SymbolRow] = ()
    contract_rows: Sequence[ContractRow] = ()
    rate_rows: Sequence[RateRow] = ()
    dividend_rows: Sequence[DividendRow] = ()
    split_rows: Sequence[SplitRow] = ()
    borrow_rows: Sequence[BorrowRow] = ()
    deal_rows: Sequence[DealRow] = ()


@dataclass(frozen=True, slots=True)
class MomentSpan:
    """Time span [start, end), in nanoseconds."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TagFilters:
    """Filters for events and articles; an empty filter lets everything pass."""

    types: tuple[EventType, ...] = ()  #: event types
    tickers: tuple[str, ...] = ()  #: tickers, at least one of which a row must have
    markets: tuple[Market, ...] = ()  #: markets
    least: Importance = "low"  #: minimum importance
    #: words that must all be found (news: title, description and body; events: title), ignoring
    #: case
    text: str = ""
    publisher: str = ""  #: part of a publisher's name, ignoring case; news only


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Part of a sorted result: rows after the key `(time, id)`, at most `limit`."""

    limit: int
    after: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Description of a dataset. Its days are those with daily bars and those with minute bars."""

    name: str  #: `synthetic`, or the name given by the dataset's author
    synthetic: bool  #: whether the market is synthetic
    content_id: str  #: SHA-256 of the contents; equal ids mean equal answers
    first_day: date
    last_day: date
    minute_first_day: date
    minute_last_day: date
    default_as_of_ns: int  #: default start of a clock
    #: name in exchange_calendars for the sessions of stocks and options
    calendar: str = DEFAULT
    #: currency of all prices and accounts: an ISO 4217 code or the code of a crypto asset
    currency: str = "USD"

    @property
    def hours(self) -> TradingHours:
        """Sessions of the dataset's market."""
        return trading_hours(self.calendar)
