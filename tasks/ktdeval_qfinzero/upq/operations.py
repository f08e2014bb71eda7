"""Declarations of the UPQ operations."""

from __future__ import annotations

from ktdeval_qfinzero.data.rows import TENOR_YEARS, Resolution
from ktdeval_qfinzero.operations import Operation, Schema
from ktdeval_qfinzero.schema_parts import (
    CURSOR,
    DAY,
    MOMENT,
    NEXT_CURSOR,
    UNKNOWN,
    answer,
    choice,
    limit,
    maybe,
    number,
    row,
    rows,
    text,
)
from ktdeval_qfinzero.upq import schemas
from ktdeval_qfinzero.upq.bars import TIME_FIELD, VALUES, crypto_daily, crypto_minute, stock_daily, stock_minute
from ktdeval_qfinzero.upq.freshness import freshness
from ktdeval_qfinzero.upq.indicators import MOST_BARS, MOST_INDICATORS
from ktdeval_qfinzero.upq.options import MOST_VALUED, chain_query, option_fields, ticker_query
from ktdeval_qfinzero.upq.quotes import STATUSES
from ktdeval_qfinzero.upq.reference import YIELD_FIELDS, dividends_query, rates_query, splits_query, symbols_list

_ADJUST = choice(
    "none: as traded; split: for splits; total: for splits and cash dividends. Only events that are ex as of the clock count.",
    ("none", "split", "total"),
    default="none",
)
_INDICATORS = text(
    f"Indicators of the closes (adjusted as asked), comma-separated: ma_N, ema_N (N to {MOST_BARS}), macd (12, 26, 9: gives macd, "
    f"macd_signal, macd_histogram); at most {MOST_INDICATORS}. Days before start count as warm-up.",
    200,
)
_INCLUDE_GREEKS: Schema = {
    "type": "boolean",
    "description": f"Add implied volatility and Greeks (European Black-Scholes-Merton). Pages have at most {MOST_VALUED} rows.",
    "default": False,
}
_GREEK_ARGUMENTS = {
    "include_greeks": _INCLUDE_GREEKS,
    "greek_model": choice("Model of the Greeks.", ("bsm",), default="bsm"),
    "greek_price_field": choice(
        "Price that the volatility is implied from; high and low have no moment, so there is no spot for them.",
        ("close", "open"),
        default="close",
    ),
}

_ADJUSTMENTS = rows(
    {
        "ticker": schemas.TICKER,
        "kind": choice("What happened.", ("split", "dividend")),
        "ex_date": DAY,
        "price_factor": maybe(
            number("Earlier prices are multiplied with it; null where there is no previous close above the cash.")
        ),
        "volume_factor": number("Earlier volumes are multiplied with it."),
    },
    ("ticker", "kind", "ex_date", "price_factor", "volume_factor"),
    "Events that changed bars of this page.",
)
_INDICATOR_VALUES: dict[str, Schema] = {
    name: maybe(number(words))
    for name, words in (
        ("macd", "EMA(12) − EMA(26) of the closes."),
        ("macd_signal", "EMA(9) of macd."),
        ("macd_histogram", "macd − macd_signal."),
    )
}
_AVERAGE = maybe(number("Moving average of the closes; null until there are N of them."))
_GREEK_VALUES: dict[str, Schema] = {
    "iv": maybe(number("Implied volatility a year: 0.25 is 25%.")),
    "delta": maybe(number("Change of the price for one dollar of the spot.")),
    "gamma": maybe(number("Change of delta for one dollar of the spot.")),
    "theta": maybe(number("Change of the price in a calendar day.")),
    "vega": maybe(number("Change of the price for one point of volatility.")),
    "rho": maybe(number("Change of the price for one point of the rate.")),
    "greek_spot": maybe(number("Price of the underlying at the moment of the option's price.")),
    "greek_dividends": maybe(number("Present value of the dividends to come, deducted from the spot.")),
    "greek_rate": maybe(number("Rate used, continuously compounded: 0.043 is 4.3%.")),
    "greek_years": maybe(number("Time to expiry.")),
    "greek_status": choice("What came of it; where it is not ok, the Greeks are null.", STATUSES),
}


def _bars(resolution: Resolution, *, indicators: bool = False) -> Schema:
    time = TIME_FIELD[resolution]
    properties: dict[str, Schema] = {
        "ticker": schemas.TICKER,
        time: DAY if resolution == "day" else MOMENT,
    }
    properties |= schemas.BAR_VALUES
    more: Schema = {}
    if indicators:
        properties |= _INDICATOR_VALUES
        more = {"patternProperties": {"^(ma|ema)_[0-9]{1,3}$": dict(_AVERAGE)}}
    return rows(properties, ("ticker", time), "Bars by ticker, then by time.", **more)


def _bar_arguments(resolution: Resolution, *, stock: bool, indicators: bool) -> dict[str, Schema]:
    day, time = resolution == "day", TIME_FIELD[resolution]
    return {
        "tickers": schemas.TICKERS,
        "start": schemas.START_DAY if day else schemas.START_MOMENT,
        "end": schemas.END_DAY if day else schemas.END_MOMENT,
        "fields": schemas.fields(("ticker", time, *VALUES), ("ticker", time)),
        **({"indicators": _INDICATORS} if indicators else {}),
        **({"adjust": _ADJUST} if stock else {}),
        "limit": limit(100_000, 10_000),
        "cursor": CURSOR,
    }


def _option_rows(description: str, times: tuple[str, ...]) -> Schema:
    properties: dict[str, Schema] = {
        "contract": {"type": "string", "description": "OPRA symbol."},
        "ticker": {"type": "string", "description": "The same; where it is named in fields."},
        "underlying": schemas.TICKER,
        "expiry": DAY,
        "strike": number("Strike, in dollars."),
        "type": choice("Call or put.", ("C", "P")),
        "date": DAY,
        "window_start": MOMENT,
        **schemas.BAR_VALUES,
        **_GREEK_VALUES,
    }
    return rows(properties, ("contract", *times), description)


_BAR_OPERATIONS = (
    Operation(
        "UPQ.stock.minute",
        "GET",
        "/stock",
        "Minute bars of stocks that start in a range of moments.",
        _bar_arguments("minute", stock=True, indicators=False),
        ("tickers", "start", "end"),
        answer(bars=_bars("minute"), unknown=UNKNOWN, adjustments=_ADJUSTMENTS, next_cursor=NEXT_CURSOR),
        stock_minute,
    ),
    Operation(
        "UPQ.stock.daily",
        "GET",
        "/stock/daily",
        "Daily bars of stocks in a range of days, with indicators where asked for; a day's bar is there from its session's close.",
        _bar_arguments("day", stock=True, indicators=True),
        ("tickers", "start", "end"),
        answer(
            bars=_bars("day", indicators=True),
            unknown=UNKNOWN,
            adjustments=_ADJUSTMENTS,
            next_cursor=NEXT_CURSOR,
        ),
        stock_daily,
    ),
    Operation(
        "UPQ.crypto.minute",
        "GET",
        "/crypto",
        "Minute bars of coins, which trade day and night, that start in a range of moments.",
        _bar_arguments("minute", stock=False, indicators=False),
        ("tickers", "start", "end"),
        answer(bars=_bars("minute"), unknown=UNKNOWN, next_cursor=NEXT_CURSOR),
        crypto_minute,
    ),
    Operation(
        "UPQ.crypto.daily",
        "GET",
        "/crypto/daily",
        "Daily bars of coins, midnight to midnight in UTC on every day of the week, with indicators where asked for.",
        _bar_arguments("day", stock=False, indicators=True),
        ("tickers", "start", "end"),
        answer(bars=_bars("day", indicators=True), unknown=UNKNOWN, next_cursor=NEXT_CURSOR),
        crypto_daily,
    ),
)

_STRIKE: Schema = {"type": "number", "minimum": 0, "maximum": 99_999.999}
_OPTION_OPERATIONS = (
    Operation(
        "UPQ.option.chain_query",
        "GET",
        "/option/chain_query",
        "Options on a stock that traded on a day, with that day's bar, from the session's close on.",
        {
            "underlying": text("Ticker of the stock.", 10),
            "date": text("Trading day of the bars, such as 2025-01-06."),
            "expiry_min": text("First expiry wanted."),
            "expiry_max": text("Last expiry wanted."),
            "strike_min": {**_STRIKE, "description": "Lowest strike wanted, in dollars."},
            "strike_max": {**_STRIKE, "description": "Highest strike wanted, in dollars."},
            "type": choice("Calls or puts only.", ("C", "P")),
            "fields": schemas.fields(option_fields("day"), ("contract", "date")),
            **_GREEK_ARGUMENTS,
            "limit": limit(100_000, 10_000),
            "cursor": CURSOR,
        },
        ("underlying", "date"),
        answer(
            underlying=schemas.TICKER,
            date=DAY,
            day_status=choice(
                "complete: the session has closed; incomplete: not yet, so there are no rows; no_session: not a trading day.",
                ("complete", "incomplete", "no_session"),
            ),
            contracts=_option_rows("Contracts by expiry, type and strike.", ("date",)),
            nearest_expiries={
                "type": "array",
                "items": DAY,
                "description": "Where no contract fits: up to five listed expiries, the nearest to those wanted first.",
            },
            unknown=UNKNOWN,
            next_cursor=NEXT_CURSOR,
        ),
        chain_query,
    ),
    Operation(
        "UPQ.option.ticker_query",
        "GET",
        "/option/ticker_query",
        "Bars of one option.",
        {
            "contract": text("OPRA symbol such as O:AVLN250221P00225000."),
            "start": schemas.START_MOMENT,
            "end": schemas.END_MOMENT,
            "resolution": choice(
                "Bars of days or of minutes; for days only the days of start and end count.", ("day", "minute"), default="day"
            ),
            "fields": schemas.fields(option_fields("day"), ("contract", "date (of days) or window_start (of minutes)")),
            **_GREEK_ARGUMENTS,
            "limit": limit(100_000, 10_000),
            "cursor": CURSOR,
        },
        ("contract", "start", "end"),
        answer(bars=_option_rows("Bars by time.", ()), unknown=UNKNOWN, next_cursor=NEXT_CURSOR),
        ticker_query,
    ),
)

_DAYS_ON_TICKERS = {
    "tickers": schemas.TICKERS,
    "start": text("First ex-day, such as 2025-01-06; included."),
    "end": text("Last ex-day; included. It may lie ahead of the clock: what is announced is known."),
}
_YIELDS = {field: maybe(number(f"Yield for {tenor}, in percent.")) for tenor, field in YIELD_FIELDS.items()}
_REFERENCE_OPERATIONS = (
    Operation(
        "UPQ.rates.query",
        "GET",
        "/rates/query",
        "Treasury yields by day, from the moment of their publication.",
        {
            "start": schemas.START_DAY,
            "end": schemas.END_DAY,
            "tenors": text(f"Tenors, comma-separated, out of {', '.join(TENOR_YEARS)}; all where absent."),
        },
        ("start", "end"),
        answer(
            rates=rows(
                {
                    "date": DAY,
                    **_YIELDS,
                    "published_ts": MOMENT,
                },
                ("date", "published_ts"),
                "Curves by day.",
            )
        ),
        rates_query,
    ),
    Operation(
        "UPQ.dividends.query",
        "GET",
        "/dividends/query",
        "Cash dividends declared so far, by ex-day.",
        _DAYS_ON_TICKERS,
        ("tickers", "start", "end"),
        answer(
            dividends=rows(
                {
                    "ticker": schemas.TICKER,
                    "ex_dividend_date": DAY,
                    "pay_date": DAY,
                    "amount": number("Dollars a share."),
                    "declared_ts": MOMENT,
                },
                ("ticker", "ex_dividend_date", "pay_date", "amount", "declared_ts"),
                "Dividends by ticker, then by ex-day.",
            ),
            unknown=UNKNOWN,
        ),
        dividends_query,
    ),
    Operation(
        "UPQ.splits.query",
        "GET",
        "/splits/query",
        "Stock splits announced so far, by ex-day.",
        _DAYS_ON_TICKERS,
        ("tickers", "start", "end"),
        answer(
            splits=rows(
                {
                    "ticker": schemas.TICKER,
                    "ex_date": DAY,
                    "new_shares": {"type": "integer", "description": "Shares that one has afterwards …"},
                    "old_shares": {"type": "integer", "description": "… for so many before."},
                    "announced_ts": MOMENT,
                },
                ("ticker", "ex_date", "new_shares", "old_shares", "announced_ts"),
                "Splits by ticker, then by ex-day.",
            ),
            unknown=UNKNOWN,
        ),
        splits_query,
    ),
    Operation(
        "UPQ.symbols.list",
        "GET",
        "/symbols",
        "Stocks and coins listed so far.",
        {
            "asset_class": choice("Only these.", ("stock", "crypto")),
            "limit": limit(10_000, 1_000),
            "cursor": CURSOR,
        },
        (),
        answer(
            symbols=rows(
                {
                    "ticker": schemas.TICKER,
                    "asset_class": choice("What it is.", ("stock", "crypto")),
                    "name": {"type": "string", "description": "Name."},
                    "sector": {"type": "string", "description": "Sector."},
                    "has_options": {"type": "boolean", "description": "Whether options on it are listed."},
                    "listed_ts": MOMENT,
                },
                ("ticker", "asset_class", "name", "sector", "has_options", "listed_ts"),
                "By ticker.",
            ),
            next_cursor=NEXT_CURSOR,
        ),
        symbols_list,
    ),
    Operation(
        "UPQ.health.freshness",
        "GET",
        "/health/freshness",
        "How far each source reaches, as of the clock.",
        {},
        (),
        answer(
            sources={
                "type": "object",
                "description": "Source, such as stock_daily, option_minute or rates -> its newest row.",
                "additionalProperties": row(
                    {
                        "latest_date": maybe({**DAY, "description": "Day that the row known last is about."}),
                        "latest_ts": maybe({**MOMENT, "description": "When that row became known."}),
                        "instruments": {"type": "integer", "description": "Stocks, coins or contracts listed."},
                    },
                    ("latest_date", "latest_ts"),
                ),
            }
        ),
        freshness,
    ),
)

OPERATIONS: tuple[Operation, ...] = (*_BAR_OPERATIONS, *_OPTION_OPERATIONS, *_REFERENCE_OPERATIONS)
"""All operations of UPQ."""
