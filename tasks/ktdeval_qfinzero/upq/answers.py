"""Answers of the price queries.

Rows of bars, chains and curves are typed dictionaries, because callers choose their fields and a
page may have 100,000 of them. A typed dictionary does not know its bases, so fields that others
extend have their own descriptions.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.instruments import Right
from ktdeval_qfinzero.schemas import Day, Moment, Page, Ticker, Unknown, make_description
from ktdeval_qfinzero.upq.arguments import ListedClass

DayStatus = Literal["complete", "incomplete", "no_session"]
EventKind = Literal["split", "dividend"]
Status = Literal[
    "ok",
    "below_intrinsic",
    "no_bracket",
    "non_finite_input",
    "expired",
    "missing_spot",
    "missing_rate",
]


class BarValues(TypedDict, total=False):
    """Values of a bar, those that were asked for.

    open: First price, in dollars.
    high: Highest price.
    low: Lowest price.
    close: Last price.
    volume: Shares, contracts or coins traded.
    transactions: Trades.
    """

    open: float
    high: float
    low: float
    close: float
    volume: float
    transactions: int


class Reach(TypedDict, total=False):
    """How far a bar of several minutes reaches.

    window_end: Until when it reaches; of bars longer than a minute.
    is_whole: Whether it reaches over its whole interval.
    """

    window_end: Moment
    is_whole: bool


class MinuteKey(TypedDict):
    """What a minute bar is about."""

    ticker: Ticker
    window_start: Moment


class MinuteBar(MinuteKey, Reach, BarValues):
    """A bar of one minute or of several."""


class DayKey(TypedDict):
    """What a daily bar is about."""

    ticker: Ticker
    date: Day


class Macd(TypedDict, total=False):
    """Convergence of two averages.

    macd: EMA(12) − EMA(26) of the closes.
    macd_signal: EMA(9) of macd.
    macd_histogram: macd − macd_signal.
    """

    macd: float | None
    macd_signal: float | None
    macd_histogram: float | None


class DayValues(DayKey, BarValues, Macd):
    """A daily bar; moving averages have names such as ma_20 besides."""


DayBar = Annotated[
    DayValues,
    Meta(
        extra_json_schema={
            "patternProperties": {
                "^(ma|ema)_[0-9]{1,3}$": {
                    "type": ["number", "null"],
                    "description": "Moving average of the closes; null until there are N of them.",
                }
            }
        }
    ),
]
MinuteBars = Annotated[list[MinuteBar], make_description("Bars by ticker, then by time.")]
DayBars = Annotated[list[DayBar], make_description("Bars by ticker, then by time.")]


class AdjustmentShown(msgspec.Struct):
    """An event that changed bars.

    kind: What happened.
    price_factor: Earlier prices are multiplied with it; null where there is no previous close above
        the cash.
    volume_factor: Earlier volumes are multiplied with it.
    """

    ticker: Ticker
    kind: EventKind
    ex_date: Day
    price_factor: float | None
    volume_factor: float


Adjustments = Annotated[
    list[AdjustmentShown], make_description("Events that changed bars of this page.")
]


class MinutePage(Page):
    """A page of minute bars."""

    bars: MinuteBars
    unknown: Unknown


class StockMinutePage(MinutePage):
    """A page of minute bars of stocks."""

    adjustments: Adjustments


class DayPage(Page):
    """A page of daily bars."""

    bars: DayBars
    unknown: Unknown


class StockDayPage(DayPage):
    """A page of daily bars of stocks."""

    adjustments: Adjustments


class Terms(TypedDict, total=False):
    """Terms of an option, those that were asked for.

    ticker: The same; where it is named in fields.
    strike: Strike, in dollars.
    type: Call or put.
    """

    ticker: str
    underlying: Ticker
    expiry: Day
    strike: float
    type: Right
    window_start: Moment


class Greeks(TypedDict, total=False):
    """Greeks of an option's price, and what they were computed from.

    iv: Implied volatility a year: 0.25 is 25%.
    delta: Change of the price for one dollar of the spot.
    gamma: Change of delta for one dollar of the spot.
    theta: Change of the price in a calendar day.
    vega: Change of the price for one point of volatility.
    rho: Change of the price for one point of the rate.
    greek_spot: Price of the underlying at the moment of the option's price.
    greek_dividends: Present value of the dividends to come, deducted from the spot.
    greek_rate: Rate used, continuously compounded: 0.043 is 4.3%.
    greek_years: Time to expiry.
    greek_status: What came of it; where it is not ok, the Greeks are null.
    """

    iv: float | None
    delta: float | None
    gamma: float | None
    theta: float | None
    vega: float | None
    rho: float | None
    greek_spot: float | None
    greek_dividends: float | None
    greek_rate: float | None
    greek_years: float | None
    greek_status: Status


class Contract(TypedDict):
    """An option.

    contract: OPRA symbol.
    """

    contract: str


class ChainKey(Contract):
    """An option on a day."""

    date: Day


class ChainBar(ChainKey, Terms, BarValues, Greeks):
    """A row of a chain."""


class ContractDay(Contract, total=False):
    """An option, on a day where rows are of days."""

    date: Day


class ContractBar(ContractDay, Terms, BarValues, Greeks):
    """A bar of an option."""


class Chain(Page):
    """Options of a chain on a day.

    day_status: complete: the session has closed; incomplete: not yet, so there are no rows;
        no_session: not a trading day.
    contracts: Contracts by expiry, type and strike.
    nearest_expiries: Where no contract fits: up to five listed expiries, the nearest to those
        wanted first.
    """

    underlying: Ticker
    date: Day
    day_status: DayStatus
    contracts: list[ChainBar]
    nearest_expiries: list[Day]
    unknown: Unknown


class ContractBars(Page):
    """A page of bars of one option.

    bars: Bars by time.
    """

    bars: list[ContractBar]
    unknown: Unknown


class CurveKey(TypedDict):
    """Day of a curve, and when it was published."""

    date: Day
    published_ts: Moment


class Curve(CurveKey, total=False):
    """Yields of a day, for the tenors that were asked for.

    yield_1_month: Yield for 1M, in percent.
    yield_3_month: Yield for 3M, in percent.
    yield_1_year: Yield for 1Y, in percent.
    yield_2_year: Yield for 2Y, in percent.
    yield_5_year: Yield for 5Y, in percent.
    yield_10_year: Yield for 10Y, in percent.
    yield_30_year: Yield for 30Y, in percent.
    """

    yield_1_month: float | None
    yield_3_month: float | None
    yield_1_year: float | None
    yield_2_year: float | None
    yield_5_year: float | None
    yield_10_year: float | None
    yield_30_year: float | None


class Rates(msgspec.Struct):
    """Yields of some days.

    rates: Curves by day.
    """

    rates: list[Curve]


class DividendShown(msgspec.Struct):
    """A cash dividend.

    amount: Dollars a share.
    """

    ticker: Ticker
    ex_dividend_date: Day
    pay_date: Day
    amount: float
    declared_ts: Moment


class Dividends(msgspec.Struct):
    """Dividends of some ex-days.

    dividends: Dividends by ticker, then by ex-day.
    """

    dividends: list[DividendShown]
    unknown: Unknown


class SplitShown(msgspec.Struct):
    """A stock split.

    new_shares: Shares that one has afterwards …
    old_shares: … for so many before.
    """

    ticker: Ticker
    ex_date: Day
    new_shares: int
    old_shares: int
    announced_ts: Moment


class Splits(msgspec.Struct):
    """Splits of some ex-days.

    splits: Splits by ticker, then by ex-day.
    """

    splits: list[SplitShown]
    unknown: Unknown


class SymbolShown(msgspec.Struct):
    """A stock or coin.

    asset_class: What it is.
    name: Name.
    sector: Sector.
    has_options: Whether options on it are listed.
    """

    ticker: Ticker
    asset_class: ListedClass
    name: str
    sector: str
    has_options: bool
    listed_ts: Moment


class Symbols(Page):
    """A page of stocks and coins.

    symbols: By ticker.
    """

    symbols: list[SymbolShown]


class Source(msgspec.Struct):
    """How far a source of prices reaches.

    instruments: Stocks, coins or contracts listed.
    """

    latest_date: Annotated[
        str | None,
        Meta(
            description="Day that the row known last is about.",
            extra_json_schema={"format": "date"},
        ),
    ]
    latest_ts: Annotated[
        str | None,
        Meta(description="When that row became known.", extra_json_schema={"format": "date-time"}),
    ]
    instruments: int | UnsetType = UNSET


class Freshness(msgspec.Struct):
    """How far each source reaches.

    sources: Source, such as stock_daily, option_minute or rates -> its newest row.
    """

    sources: dict[str, Source]
