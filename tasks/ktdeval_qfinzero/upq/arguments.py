"""Arguments of the price queries."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from ktdeval_qfinzero.data.rows import TENOR_YEARS, Resolution
from ktdeval_qfinzero.instruments import MAX_TICKER, Right
from ktdeval_qfinzero.schemas import (
    DESCRIBED_LAST,
    Arguments,
    Cursor,
    Paged,
    ShortText,
    make_description,
    text,
    whole,
)
from ktdeval_qfinzero.upq.rows_and_indicators import MAX_BARS, MAX_INDICATORS

Mode = Literal["none", "split", "total"]
PriceField = Literal["close", "open"]
ListedClass = Literal["stock", "crypto"]
Interval = Literal["1m", "5m", "15m", "30m", "60m"]

MAX_TICKERS: Final = 200
#: Maximum number of rows in a page with Greeks, each of which takes a search for its volatility
MAX_VALUED: Final = 10_000
#: Fields of a bar that a caller may choose from, in addition to the row's key
VALUES: Final = ("open", "high", "low", "close", "volume", "transactions")
#: Fields of an option row that do not come from its bar
TERMS: Final = ("contract", "ticker", "underlying", "expiry", "strike", "type")

Tickers = Annotated[
    str,
    text(
        "Tickers in capitals, comma-separated without spaces; at most "
        f"{MAX_TICKERS}. Rows come by ticker, then by time.",
        2400,
    ),
]
StartDay = Annotated[str, text("First day, YYYY-MM-DD; included.")]
EndDay = Annotated[str, text("Last day, YYYY-MM-DD; included.")]
StartMoment = Annotated[
    str,
    text(
        "First moment a bar may start at, YYYY-MM-DDTHH:MM:SSZ (UTC where "
        "no offset is given), or a day."
    ),
]
EndMoment = Annotated[
    str, text("Last moment a bar may start at, included; a day includes all of it.")
]
FieldNames = Annotated[str, Meta(min_length=1, max_length=400)]
Indicators = Annotated[
    str,
    text(
        "Indicators of the closes (adjusted as asked), comma-separated: ma_N, ema_N "
        f"(N to {MAX_BARS}), macd (12, 26, 9: gives macd, macd_signal, "
        f"macd_histogram); at most {MAX_INDICATORS}. Days before start count as "
        "warm-up.",
        200,
    ),
]
Adjust = Annotated[
    Mode,
    make_description(
        "none: as traded; split: for splits; total: for splits and cash dividends. "
        "Only events that are ex as of the clock count."
    ),
]
Limit = Annotated[int, whole("Most rows of one answer.", 1, 100_000)]


class PagedRows(Paged, kw_only=True):
    """Pages of as many rows as prices come in."""

    limit: Limit = 10_000


class Minutes(PagedRows):
    """Minute bars.

    fields: Fields of a row, comma-separated, out of: ticker, window_start, open, high, low, close,
        volume, transactions. ticker and window_start are always there.
    interval: Length of a bar. Longer ones are made of minutes, counted from the session's open
        (coins: midnight in UTC); window_end and is_whole say how far they reach: the last of a
        session, or as of the clock, may be shorter.
    """

    tickers: Tickers
    start: StartMoment
    end: EndMoment
    fields: FieldNames | None = None
    interval: Interval = "1m"


class StockMinutes(Minutes):
    """Minute bars of stocks."""

    adjust: Adjust = "none"


class Days(PagedRows):
    """Daily bars.

    fields: Fields of a row, comma-separated, out of: ticker, date, open, high, low, close, volume,
        transactions. ticker and date are always there.
    """

    tickers: Tickers
    start: StartDay
    end: EndDay
    fields: FieldNames | None = None
    indicators: Indicators | None = None


class StockDays(Days):
    """Daily bars of stocks."""

    adjust: Adjust = "none"


Strike = Annotated[float, Meta(ge=0, le=99999.999), DESCRIBED_LAST]
IncludeGreeks = Annotated[
    bool,
    make_description(
        "Add implied volatility and Greeks (European Black-Scholes-Merton). Pages "
        f"have at most {MAX_VALUED} rows."
    ),
]


class OptionRows(Arguments, kw_only=True):
    """Pages of rows of options, which may have Greeks.

    greek_model: Model of the Greeks.
    greek_price_field: Price that the volatility is implied from; high and low have no moment, so
        there is no spot for them.
    """

    include_greeks: IncludeGreeks = False
    greek_model: Literal["bsm"] = "bsm"
    greek_price_field: PriceField = "close"
    limit: Limit = 10_000
    cursor: Cursor | None = None


class ChainQuery(OptionRows):
    """Options on a stock that traded on a day.

    underlying: Ticker of the stock or index.
    date: Trading day of the bars, YYYY-MM-DD.
    expiry_min: First expiry wanted.
    expiry_max: Last expiry wanted.
    strike_min: Lowest strike wanted, in dollars.
    strike_max: Highest strike wanted, in dollars.
    type: Calls or puts only.
    fields: Fields of a row, comma-separated, out of: contract, ticker, underlying, expiry, strike,
        type, date, window_start, open, high, low, close, volume, transactions. contract and date
        are always there.
    """

    underlying: Annotated[str, Meta(min_length=1, max_length=MAX_TICKER)]
    date: ShortText
    expiry_min: ShortText | None = None
    expiry_max: ShortText | None = None
    strike_min: Strike | None = None
    strike_max: Strike | None = None
    type: Right | None = None
    fields: FieldNames | None = None


class ContractQuery(OptionRows):
    """Bars of one option.

    contract: OPRA symbol: O:, root, YYMMDD, C or P, strike × 1000 in eight digits.
    resolution: Bars of days or of minutes; for days only the days of start and end count.
    fields: Fields of a row, comma-separated, out of: contract, ticker, underlying, expiry, strike,
        type, date, window_start, open, high, low, close, volume, transactions. contract and date
        (of days) or window_start (of minutes) are always there.
    """

    contract: ShortText
    start: StartMoment
    end: EndMoment
    resolution: Resolution = "day"
    fields: FieldNames | None = None


class DaysOfRates(Arguments, kw_only=True):
    """Yields of some days."""

    start: StartDay
    end: EndDay
    tenors: (
        Annotated[
            str,
            text(f"Tenors, comma-separated, out of {', '.join(TENOR_YEARS)}; all where absent."),
        ]
        | None
    ) = None


class ExDays(Arguments, kw_only=True):
    """Corporate actions of some days.

    start: First ex-day, YYYY-MM-DD; included.
    end: Last ex-day; included. It may lie ahead of the clock: what is announced is known.
    """

    tickers: Tickers
    start: ShortText
    end: ShortText


class SymbolsQuery(Arguments, kw_only=True):
    """Stocks and coins.

    asset_class: Only these.
    """

    asset_class: ListedClass | None = None
    limit: Annotated[int, whole("Most rows of one answer.", 1, 10_000)] = 1_000
    cursor: Cursor | None = None
