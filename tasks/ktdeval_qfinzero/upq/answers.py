"""Answers of the price queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.data.rows import TENOR_YEARS
from ktdeval_qfinzero.schemas import Answer, Day, Moment, NextCursor, Row, Shown, Ticker, Unknown, row_type, said
from ktdeval_qfinzero.upq.arguments import DayStatus, ListedClass, Right


def _figures(words: Mapping[str, str]) -> dict[str, Any]:
    """Fields that are numbers, or null where there is none, by their meaning."""
    return {name: Annotated[float | None, said(meaning)] for name, meaning in words.items()}


_BAR_VALUES: Final = {
    "open": Annotated[float, said("First price, in dollars.")],
    "high": Annotated[float, said("Highest price.")],
    "low": Annotated[float, said("Lowest price.")],
    "close": Annotated[float, said("Last price.")],
    "volume": Annotated[float, said("Shares, contracts or coins traded.")],
    "transactions": Annotated[int, said("Trades.")],
}
_REACH: Final = {
    "window_end": Annotated[Moment, said("Until when it reaches; of bars longer than a minute.")],
    "is_whole": Annotated[bool, said("Whether it reaches over its whole interval.")],
}
MinuteBar = row_type("MinuteBar", {"ticker": Ticker, "window_start": Moment}, {**_REACH, **_BAR_VALUES})
_MACD: Final = {
    "macd": "EMA(12) − EMA(26) of the closes.",
    "macd_signal": "EMA(9) of macd.",
    "macd_histogram": "macd − macd_signal.",
}
DayBar = row_type("DayBar", {"ticker": Ticker, "date": Day}, {**_BAR_VALUES, **_figures(_MACD)})
_AVERAGE: Final = {"type": ["number", "null"], "description": "Moving average of the closes; null until there are N of them."}
Rows = list[dict[str, Any]]
MinuteBars = Annotated[Rows, said("Bars by ticker, then by time."), Shown(MinuteBar)]
DayBars = Annotated[
    Rows, said("Bars by ticker, then by time."), Shown(DayBar, more={"patternProperties": {"^(ma|ema)_[0-9]{1,3}$": _AVERAGE}})
]


class AdjustmentShown(Row):
    """An event that changed bars."""

    ticker: Ticker
    kind: Annotated[Literal["split", "dividend"], said("What happened.")]
    ex_date: Day
    price_factor: Annotated[
        float | None, said("Earlier prices are multiplied with it; null where there is no previous close above the cash.")
    ]
    volume_factor: Annotated[float, said("Earlier volumes are multiplied with it.")]


Adjustments = Annotated[list[AdjustmentShown], said("Events that changed bars of this page.")]


class StockMinuteBars(Answer):
    """A page of minute bars of stocks."""

    bars: MinuteBars
    unknown: Unknown
    adjustments: Adjustments
    next_cursor: NextCursor


class StockDayBars(Answer):
    """A page of daily bars of stocks."""

    bars: DayBars
    unknown: Unknown
    adjustments: Adjustments
    next_cursor: NextCursor


class CoinMinuteBars(Answer):
    """A page of minute bars of coins."""

    bars: MinuteBars
    unknown: Unknown
    next_cursor: NextCursor


class CoinDayBars(Answer):
    """A page of daily bars of coins."""

    bars: DayBars
    unknown: Unknown
    next_cursor: NextCursor


Status = Literal["ok", "below_intrinsic", "no_bracket", "non_finite_input", "expired", "missing_spot", "missing_rate"]


_OPTION_VALUES: Final = {
    "ticker": Annotated[str, said("The same; where it is named in fields.")],
    "underlying": Ticker,
    "expiry": Day,
    "strike": Annotated[float, said("Strike, in dollars.")],
    "type": Annotated[Right, said("Call or put.")],
    "window_start": Moment,
    **_BAR_VALUES,
    **_figures(
        {
            "iv": "Implied volatility a year: 0.25 is 25%.",
            "delta": "Change of the price for one dollar of the spot.",
            "gamma": "Change of delta for one dollar of the spot.",
            "theta": "Change of the price in a calendar day.",
            "vega": "Change of the price for one point of volatility.",
            "rho": "Change of the price for one point of the rate.",
            "greek_spot": "Price of the underlying at the moment of the option's price.",
            "greek_dividends": "Present value of the dividends to come, deducted from the spot.",
            "greek_rate": "Rate used, continuously compounded: 0.043 is 4.3%.",
            "greek_years": "Time to expiry.",
        }
    ),
    "greek_status": Annotated[Status, said("What came of it; where it is not ok, the Greeks are null.")],
}
_SYMBOL: Final = {"contract": Annotated[str, said("OPRA symbol.")]}
ChainBar = row_type("ChainBar", {**_SYMBOL, "date": Day}, _OPTION_VALUES)
ContractBar = row_type("ContractBar", _SYMBOL, {"date": Day, **_OPTION_VALUES})


class Chain(Answer):
    """Options of a chain on a day."""

    underlying: Ticker
    date: Day
    day_status: Annotated[
        DayStatus,
        said("complete: the session has closed; incomplete: not yet, so there are no rows; no_session: not a trading day."),
    ]
    contracts: Annotated[Rows, said("Contracts by expiry, type and strike."), Shown(ChainBar)]
    nearest_expiries: Annotated[
        list[Day], said("Where no contract fits: up to five listed expiries, the nearest to those wanted first.")
    ]
    unknown: Unknown
    next_cursor: NextCursor


class ContractBars(Answer):
    """A page of bars of one option."""

    bars: Annotated[Rows, said("Bars by time."), Shown(ContractBar)]
    unknown: Unknown
    next_cursor: NextCursor


YIELD_FIELDS: Final = {
    tenor: f"yield_{tenor[:-1]}_{'month' if tenor.endswith('M') else 'year'}" for tenor in TENOR_YEARS
}  # fmt: skip
"""Tenor -> field of a row: `10Y` -> `yield_10_year`."""
Curve = row_type(
    "Curve",
    {"date": Day, "published_ts": Moment},
    _figures({field: f"Yield for {tenor}, in percent." for tenor, field in YIELD_FIELDS.items()}),
)


class Rates(Answer):
    """Yields of some days."""

    rates: Annotated[Rows, said("Curves by day."), Shown(Curve)]


class DividendShown(Row):
    """A cash dividend."""

    ticker: Ticker
    ex_dividend_date: Day
    pay_date: Day
    amount: Annotated[float, said("Dollars a share.")]
    declared_ts: Moment


class Dividends(Answer):
    """Dividends of some ex-days."""

    dividends: Annotated[list[DividendShown], said("Dividends by ticker, then by ex-day.")]
    unknown: Unknown


class SplitShown(Row):
    """A stock split."""

    ticker: Ticker
    ex_date: Day
    new_shares: Annotated[int, said("Shares that one has afterwards …")]
    old_shares: Annotated[int, said("… for so many before.")]
    announced_ts: Moment


class Splits(Answer):
    """Splits of some ex-days."""

    splits: Annotated[list[SplitShown], said("Splits by ticker, then by ex-day.")]
    unknown: Unknown


class SymbolShown(Row):
    """A stock or coin."""

    ticker: Ticker
    asset_class: Annotated[ListedClass, said("What it is.")]
    name: Annotated[str, said("Name.")]
    sector: Annotated[str, said("Sector.")]
    has_options: Annotated[bool, said("Whether options on it are listed.")]
    listed_ts: Moment


class Symbols(Answer):
    """A page of stocks and coins."""

    symbols: Annotated[list[SymbolShown], said("By ticker.")]
    next_cursor: NextCursor


class Source(Row):
    """How far a source of prices reaches."""

    latest_date: Annotated[
        str | None, Meta(description="Day that the row known last is about.", extra_json_schema={"format": "date"})
    ]
    latest_ts: Annotated[str | None, Meta(description="When that row became known.", extra_json_schema={"format": "date-time"})]
    instruments: Annotated[int | UnsetType, said("Stocks, coins or contracts listed.")] = UNSET


class Freshness(Answer):
    """How far each source reaches."""

    sources: Annotated[dict[str, Source], said("Source, such as stock_daily, option_minute or rates -> its newest row.")]
