"""Declarations of the UPQ operations."""

from __future__ import annotations

from ktdeval_qfinzero.data.rows import TENOR_YEARS, Resolution
from ktdeval_qfinzero.operations import Operation, Schema
from ktdeval_qfinzero.upq import schemas
from ktdeval_qfinzero.upq.bars import TIME_FIELD, VALUES, crypto_daily, crypto_minute, stock_daily, stock_minute
from ktdeval_qfinzero.upq.freshness import freshness
from ktdeval_qfinzero.upq.indicators import MOST_BARS, MOST_INDICATORS
from ktdeval_qfinzero.upq.options import MOST_VALUED, chain_query, option_fields, ticker_query
from ktdeval_qfinzero.upq.quotes import STATUSES
from ktdeval_qfinzero.upq.reference import YIELD_FIELDS, dividends_query, rates_query, splits_query, symbols_list

_ADJUST = schemas.choice(
    "none: as traded; split: for splits; total: for splits and cash dividends. Only events that are ex as of the clock count.",
    ("none", "split", "total"),
    default="none",
)
_INDICATORS = schemas.text(
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
    "greek_model": schemas.choice("Model of the Greeks.", ("bsm",), default="bsm"),
    "greek_price_field": schemas.choice(
        "Price that the volatility is implied from; high and low have no moment, so there is no spot for them.",
        ("close", "open"),
        default="close",
    ),
}

_ADJUSTMENTS = schemas.rows(
    {
        "ticker": schemas.TICKER,
        "kind": schemas.choice("What happened.", ("split", "dividend")),
        "ex_date": schemas.DAY,
        "price_factor": schemas.maybe(
            schemas.number("Earlier prices are multiplied with it; null where there is no previous close above the cash.")
        ),
        "volume_factor": schemas.number("Earlier volumes are multiplied with it."),
    },
    ("ticker", "kind", "ex_date", "price_factor", "volume_factor"),
    "Events that changed bars of this page.",
)
_INDICATOR_VALUES: dict[str, Schema] = {
    name: schemas.maybe(schemas.number(words))
    for name, words in (
        ("macd", "EMA(12) − EMA(26) of the closes."),
        ("macd_signal", "EMA(9) of macd."),
        ("macd_histogram", "macd − macd_signal."),
    )
}
_AVERAGE = schemas.maybe(schemas.number("Moving average of the closes; null until there are N of them."))
_GREEK_VALUES: dict[str, Schema] = {
    "iv": schemas.maybe(schemas.number("Implied volatility a year: 0.25 is 25%.")),
    "delta": schemas.maybe(schemas.number("Change of the price for one dollar of the spot.")),
    "gamma": schemas.maybe(schemas.number("Change of delta for one dollar of the spot.")),
    "theta": schemas.maybe(schemas.number("Change of the price in a calendar day.")),
    "vega": schemas.maybe(schemas.number("Change of the price for one point of volatility.")),
    "rho": schemas.maybe(schemas.number("Change of the price for one point of the rate.")),
    "greek_spot": schemas.maybe(schemas.number("Price of the underlying at the moment of the option's price.")),
    "greek_dividends": schemas.maybe(schemas.number("Present value of the dividends to come, deducted from the spot.")),
    "greek_rate": schemas.maybe(schemas.number("Rate used, continuously compounded: 0.043 is 4.3%.")),
    "greek_years": schemas.maybe(schemas.number("Time to expiry.")),
    "greek_status": schemas.choice("What came of it; where it is not ok, the Greeks are null.", STATUSES),
}


def _bars(resolution: Resolution, *, indicators: bool = False) -> Schema:
    time = TIME_FIELD[resolution]
    properties: dict[str, Schema] = {"ticker": schemas.TICKER, time: schemas.DAY if resolution == "day" else schemas.MOMENT}
    properties |= schemas.BAR_VALUES
    more: Schema = {}
    if indicators:
        properties |= _INDICATOR_VALUES
        more = {"patternProperties": {"^(ma|ema)_[0-9]{1,3}$": dict(_AVERAGE)}}
    return schemas.rows(properties, ("ticker", time), "Bars by ticker, then by time.", **more)


def _bar_arguments(resolution: Resolution, *, stock: bool, indicators: bool) -> dict[str, Schema]:
    day, time = resolution == "day", TIME_FIELD[resolution]
    return {
        "tickers": schemas.TICKERS,
        "start": schemas.START_DAY if day else schemas.START_MOMENT,
        "end": schemas.END_DAY if day else schemas.END_MOMENT,
        "fields": schemas.fields(("ticker", time, *VALUES), ("ticker", time)),
        **({"indicators": _INDICATORS} if indicators else {}),
        **({"adjust": _ADJUST} if stock else {}),
        "limit": schemas.limit(100_000, 10_000),
        "cursor": schemas.CURSOR,
    }


def _option_rows(description: str, times: tuple[str, ...]) -> Schema:
    properties: dict[str, Schema] = {
        "contract": {"type": "string", "description": "OPRA symbol."},
        "ticker": {"type": "string", "description": "The same; where it is named in fields."},
        "underlying": schemas.TICKER,
        "expiry": schemas.DAY,
        "strike": schemas.number("Strike, in dollars."),
        "type": schemas.choice("Call or put.", ("C", "P")),
        "date": schemas.DAY,
        "window_start": schemas.MOMENT,
        **schemas.BAR_VALUES,
        **_GREEK_VALUES,
    }
    return schemas.rows(properties, ("contract", *times), description)


_BAR_OPERATIONS = (
    Operation(
        "UPQ.stock.minute",
        "GET",
        "/stock",
        "Minute bars of stocks that start in a range of moments.",
        _bar_arguments("minute", stock=True, indicators=False),
        ("tickers", "start", "end"),
        schemas.answer(bars=_bars("minute"), unknown=schemas.UNKNOWN, adjustments=_ADJUSTMENTS, next_cursor=schemas.NEXT_CURSOR),
        stock_minute,
    ),
    Operation(
        "UPQ.stock.daily",
        "GET",
        "/stock/daily",
        "Daily bars of stocks in a range of days, with indicators where asked for; a day's bar is there from its session's close.",
        _bar_arguments("day", stock=True, indicators=True),
        ("tickers", "start", "end"),
        schemas.answer(
            bars=_bars("day", indicators=True),
            unknown=schemas.UNKNOWN,
            adjustments=_ADJUSTMENTS,
            next_cursor=schemas.NEXT_CURSOR,
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
        schemas.answer(bars=_bars("minute"), unknown=schemas.UNKNOWN, next_cursor=schemas.NEXT_CURSOR),
        crypto_minute,
    ),
    Operation(
        "UPQ.crypto.daily",
        "GET",
        "/crypto/daily",
        "Daily bars of coins, midnight to midnight in UTC on every day of the week, with indicators where asked for.",
        _bar_arguments("day", stock=False, indicators=True),
        ("tickers", "start", "end"),
        schemas.answer(bars=_bars("day", indicators=True), unknown=schemas.UNKNOWN, next_cursor=schemas.NEXT_CURSOR),
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
            "underlying": schemas.text("Ticker of the stock.", 10),
            "date": schemas.text("Trading day of the bars, such as 2025-01-06."),
            "expiry_min": schemas.text("First expiry wanted."),
            "expiry_max": schemas.text("Last expiry wanted."),
            "strike_min": {**_STRIKE, "description": "Lowest strike wanted, in dollars."},
            "strike_max": {**_STRIKE, "description": "Highest strike wanted, in dollars."},
            "type": schemas.choice("Calls or puts only.", ("C", "P")),
            "fields": schemas.fields(option_fields("day"), ("contract", "date")),
            **_GREEK_ARGUMENTS,
            "limit": schemas.limit(100_000, 10_000),
            "cursor": schemas.CURSOR,
        },
        ("underlying", "date"),
        schemas.answer(
            underlying=schemas.TICKER,
            date=schemas.DAY,
            day_status=schemas.choice(
                "complete: the session has closed; incomplete: not yet, so there are no rows; no_session: not a trading day.",
                ("complete", "incomplete", "no_session"),
            ),
            contracts=_option_rows("Contracts by expiry, type and strike.", ("date",)),
            nearest_expiries={
                "type": "array",
                "items": schemas.DAY,
                "description": "Where no contract fits: up to five listed expiries, the nearest to those wanted first.",
            },
            unknown=schemas.UNKNOWN,
            next_cursor=schemas.NEXT_CURSOR,
        ),
        chain_query,
    ),
    Operation(
        "UPQ.option.ticker_query",
        "GET",
        "/option/ticker_query",
        "Bars of one option.",
        {
            "contract": schemas.text("OPRA symbol such as O:AVLN250221P00225000."),
            "start": schemas.START_MOMENT,
            "end": schemas.END_MOMENT,
            "resolution": schemas.choice(
                "Bars of days or of minutes; for days only the days of start and end count.", ("day", "minute"), default="day"
            ),
            "fields": schemas.fields(option_fields("day"), ("contract", "date (of days) or window_start (of minutes)")),
            **_GREEK_ARGUMENTS,
            "limit": schemas.limit(100_000, 10_000),
            "cursor": schemas.CURSOR,
        },
        ("contract", "start", "end"),
        schemas.answer(bars=_option_rows("Bars by time.", ()), unknown=schemas.UNKNOWN, next_cursor=schemas.NEXT_CURSOR),
        ticker_query,
    ),
)

_DAYS_ON_TICKERS = {
    "tickers": schemas.TICKERS,
    "start": schemas.text("First ex-day, such as 2025-01-06; included."),
    "end": schemas.text("Last ex-day; included. It may lie ahead of the clock: what is announced is known."),
}
_YIELDS = {field: schemas.maybe(schemas.number(f"Yield for {tenor}, in percent.")) for tenor, field in YIELD_FIELDS.items()}
_REFERENCE_OPERATIONS = (
    Operation(
        "UPQ.rates.query",
        "GET",
        "/rates/query",
        "Treasury yields by day, from the moment of their publication.",
        {
            "start": schemas.START_DAY,
            "end": schemas.END_DAY,
            "tenors": schemas.text(f"Tenors, comma-separated, out of {', '.join(TENOR_YEARS)}; all where absent."),
        },
        ("start", "end"),
        schemas.answer(
            rates=schemas.rows(
                {
                    "date": schemas.DAY,
                    **_YIELDS,
                    "published_ts": schemas.MOMENT,
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
        schemas.answer(
            dividends=schemas.rows(
                {
                    "ticker": schemas.TICKER,
                    "ex_dividend_date": schemas.DAY,
                    "pay_date": schemas.DAY,
                    "amount": schemas.number("Dollars a share."),
                    "declared_ts": schemas.MOMENT,
                },
                ("ticker", "ex_dividend_date", "pay_date", "amount", "declared_ts"),
                "Dividends by ticker, then by ex-day.",
            ),
            unknown=schemas.UNKNOWN,
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
        schemas.answer(
            splits=schemas.rows(
                {
                    "ticker": schemas.TICKER,
                    "ex_date": schemas.DAY,
                    "new_shares": {"type": "integer", "description": "Shares that one has afterwards …"},
                    "old_shares": {"type": "integer", "description": "… for so many before."},
                    "announced_ts": schemas.MOMENT,
                },
                ("ticker", "ex_date", "new_shares", "old_shares", "announced_ts"),
                "Splits by ticker, then by ex-day.",
            ),
            unknown=schemas.UNKNOWN,
        ),
        splits_query,
    ),
    Operation(
        "UPQ.symbols.list",
        "GET",
        "/symbols",
        "Stocks and coins listed so far.",
        {
            "asset_class": schemas.choice("Only these.", ("stock", "crypto")),
            "limit": schemas.limit(10_000, 1_000),
            "cursor": schemas.CURSOR,
        },
        (),
        schemas.answer(
            symbols=schemas.rows(
                {
                    "ticker": schemas.TICKER,
                    "asset_class": schemas.choice("What it is.", ("stock", "crypto")),
                    "name": {"type": "string", "description": "Name."},
                    "sector": {"type": "string", "description": "Sector."},
                    "has_options": {"type": "boolean", "description": "Whether options on it are listed."},
                    "listed_ts": schemas.MOMENT,
                },
                ("ticker", "asset_class", "name", "sector", "has_options", "listed_ts"),
                "By ticker.",
            ),
            next_cursor=schemas.NEXT_CURSOR,
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
        schemas.answer(
            sources={
                "type": "object",
                "description": "Source, such as stock_daily, option_minute or rates -> its newest row.",
                "additionalProperties": schemas.row(
                    {
                        "latest_date": schemas.maybe({**schemas.DAY, "description": "Day that the row known last is about."}),
                        "latest_ts": schemas.maybe({**schemas.MOMENT, "description": "When that row became known."}),
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
