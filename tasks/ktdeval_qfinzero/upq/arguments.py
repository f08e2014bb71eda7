"""Arguments of the price queries, and how their texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final, Literal

from msgspec import Meta

from ktdeval.fields import near_matches
from ktdeval_qfinzero.data.rows import TENOR_YEARS, Resolution
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import MOST_TICKER, parse_tickers
from ktdeval_qfinzero.moments import DAY, day_start, parse_day, parse_moment
from ktdeval_qfinzero.schemas import Arguments, Cursor, limit, said, text
from ktdeval_qfinzero.upq.columns import MOST_BARS, MOST_INDICATORS

MOST_TICKERS: Final = 200
MOST_VALUED: Final = 10_000  #: Rows of a page with Greeks: each takes a search for its volatility
VALUES: Final = ("open", "high", "low", "close", "volume", "transactions")
"""Fields of a bar that a caller may choose from, besides the row's key."""
TERMS: Final = ("contract", "ticker", "underlying", "expiry", "strike", "type")  #: Fields of an option row that are not of its bar

Mode = Literal["none", "split", "total"]
PriceField = Literal["close", "open"]
Right = Literal["C", "P"]
ListedClass = Literal["stock", "crypto"]
DayStatus = Literal["complete", "incomplete", "no_session"]


def _fields(known: tuple[str, ...], always: tuple[str, ...]) -> Meta:
    return text(f"Fields of a row, comma-separated, out of: {', '.join(known)}. {' and '.join(always)} are always there.", 400)


_OPTION_FIELDS: Final = (*TERMS, "date", "window_start", *VALUES)
_TICKERS: Final = text(
    f"Tickers in capitals, comma-separated, such as AVLN,BRKT; at most {MOST_TICKERS}. Rows come by ticker, then by time.", 2_400
)
StartDay = Annotated[str, text("First day, such as 2025-01-06; included.")]
EndDay = Annotated[str, text("Last day, such as 2025-01-17; included.")]
StartMoment = Annotated[
    str, text("First moment a bar may start at, such as 2025-01-06T14:30:00Z (UTC where no offset is given), or a day.")
]
EndMoment = Annotated[str, text("Last moment a bar may start at, included; a day includes all of it.")]
_DAY_FIELDS: Final = _fields(("ticker", "date", *VALUES), ("ticker", "date"))
_MINUTE_FIELDS: Final = _fields(("ticker", "window_start", *VALUES), ("ticker", "window_start"))
Indicators = Annotated[
    str,
    text(
        f"Indicators of the closes (adjusted as asked), comma-separated: ma_N, ema_N (N to {MOST_BARS}), macd (12, 26, 9: gives "
        f"macd, macd_signal, macd_histogram); at most {MOST_INDICATORS}. Days before start count as warm-up.",
        200,
    ),
]
Adjust = Annotated[
    Mode,
    said(
        "none: as traded; split: for splits; total: for splits and cash dividends. Only events that are ex as of the clock count."
    ),
]
_LIMIT: Final = limit(100_000)
Interval = Literal["1m", "5m", "15m", "30m", "60m"]
_Interval = Annotated[
    Interval,
    said(
        "Length of a bar. Longer ones are made of minutes, counted from the session's open (coins: midnight in UTC); window_end "
        "and is_whole say how far they reach: the last of a session, or as of the clock, may be shorter."
    ),
]


class StockMinutes(Arguments):
    """Minute bars of stocks."""

    tickers: Annotated[str, _TICKERS]
    start: StartMoment
    end: EndMoment
    fields: Annotated[str, _MINUTE_FIELDS] | None = None
    interval: _Interval = "1m"
    adjust: Adjust = "none"
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


class StockDays(Arguments):
    """Daily bars of stocks."""

    tickers: Annotated[str, _TICKERS]
    start: StartDay
    end: EndDay
    fields: Annotated[str, _DAY_FIELDS] | None = None
    indicators: Indicators | None = None
    adjust: Adjust = "none"
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


class CoinMinutes(Arguments):
    """Minute bars of coins."""

    tickers: Annotated[str, _TICKERS]
    start: StartMoment
    end: EndMoment
    fields: Annotated[str, _MINUTE_FIELDS] | None = None
    interval: _Interval = "1m"
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


class CoinDays(Arguments):
    """Daily bars of coins."""

    tickers: Annotated[str, _TICKERS]
    start: StartDay
    end: EndDay
    fields: Annotated[str, _DAY_FIELDS] | None = None
    indicators: Indicators | None = None
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


IncludeGreeks = Annotated[
    bool, said(f"Add implied volatility and Greeks (European Black-Scholes-Merton). Pages have at most {MOST_VALUED} rows.")
]
GreekModel = Annotated[Literal["bsm"], said("Model of the Greeks.")]
GreekPrice = Annotated[
    PriceField, said("Price that the volatility is implied from; high and low have no moment, so there is no spot for them.")
]
Strike = Annotated[float, Meta(ge=0, le=99_999.999)]


class ChainQuery(Arguments):
    """Options on a stock that traded on a day."""

    underlying: Annotated[str, text("Ticker of the stock or index.", MOST_TICKER)]
    date: Annotated[str, text("Trading day of the bars, such as 2025-01-06.")]
    expiry_min: Annotated[str, text("First expiry wanted.")] | None = None
    expiry_max: Annotated[str, text("Last expiry wanted.")] | None = None
    strike_min: Annotated[Strike, said("Lowest strike wanted, in dollars.")] | None = None
    strike_max: Annotated[Strike, said("Highest strike wanted, in dollars.")] | None = None
    type: Annotated[Right | None, said("Calls or puts only.")] = None
    fields: Annotated[str, _fields(_OPTION_FIELDS, ("contract", "date"))] | None = None
    include_greeks: IncludeGreeks = False
    greek_model: GreekModel = "bsm"
    greek_price_field: GreekPrice = "close"
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


class ContractQuery(Arguments):
    """Bars of one option."""

    contract: Annotated[str, text("OPRA symbol such as O:AVLN250221P00225000.")]
    start: StartMoment
    end: EndMoment
    resolution: Annotated[Resolution, said("Bars of days or of minutes; for days only the days of start and end count.")] = "day"
    fields: Annotated[str, _fields(_OPTION_FIELDS, ("contract", "date (of days) or window_start (of minutes)"))] | None = None
    include_greeks: IncludeGreeks = False
    greek_model: GreekModel = "bsm"
    greek_price_field: GreekPrice = "close"
    limit: Annotated[int, _LIMIT] = 10_000
    cursor: Cursor | None = None


class DaysOfRates(Arguments):
    """Yields of some days."""

    start: StartDay
    end: EndDay
    tenors: Annotated[str, text(f"Tenors, comma-separated, out of {', '.join(TENOR_YEARS)}; all where absent.")] | None = None


class ExDays(Arguments):
    """Corporate actions of some days."""

    tickers: Annotated[str, _TICKERS]
    start: Annotated[str, text("First ex-day, such as 2025-01-06; included.")]
    end: Annotated[str, text("Last ex-day; included. It may lie ahead of the clock: what is announced is known.")]


class SymbolsQuery(Arguments):
    """Stocks and coins."""

    asset_class: Annotated[ListedClass | None, said("Only these.")] = None
    limit: Annotated[int, limit(10_000)] = 1_000
    cursor: Cursor | None = None


class Nothing(Arguments):
    """No arguments."""


# ---- how they are read


def read_days(start: str, end: str) -> tuple[date, date]:
    """Days `start` to `end`, both included. Raises ServiceError: `invalid_argument`: not days, or the end lies before the start."""
    first, last = parse_day(start, "start"), parse_day(end, "end")
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return first, last


def read_moments(start: str, end: str) -> Span:
    """Moments `start` to `end`, both included, a day as a whole. Raises ServiceError: `invalid_argument`."""
    first, last = parse_moment(start, "start"), parse_moment(end, "end", end_of_day=True)
    if first > last:
        raise invalid("end", "lies before start; the range is start to end, both included")
    return Span(first, last + 1)


def span_of(first: date, last: date) -> Span:
    """Moments of the days [first, last]."""
    return Span(day_start(first), day_start(last) + DAY)


def read_tickers(text: str) -> tuple[str, ...]:
    """Tickers asked for, in alphabetical order, each once. Raises ServiceError: `invalid_argument`: not tickers, or too many."""
    tickers = parse_tickers(text, "tickers")
    if len(tickers) > MOST_TICKERS:
        raise invalid("tickers", f"at most {MOST_TICKERS} in one call")
    return tuple(sorted(tickers))


def read_names(given: str | None, field: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas, in the order of `known`; all where absent. Raises ServiceError: `invalid_argument`: unknown."""
    if given is None:
        return tuple(known)
    wanted = {part.strip() for part in given.split(",")}
    for name in sorted(wanted - set(known)):
        raise invalid(field, f"only these are known, separated by commas: {', '.join(known)}{near_matches(name[:40], known)}")
    return tuple(name for name in known if name in wanted)
