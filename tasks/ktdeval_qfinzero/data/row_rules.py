"""Rules of the rows of the small tables, the calendar and the news, and of tables to each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.bar_files import Block
from ktdeval_qfinzero.data.blocks import FIRST_NS, LARGEST_COUNT, LARGEST_E4, LAST_NS, STEP
from ktdeval_qfinzero.data.layout import BarsPlace, TableName
from ktdeval_qfinzero.data.rows import (
    TENOR_YEARS,
    AssetClass,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.sqlite_files import checked_record
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.moments import DAY, day_start, moment_text

LONGEST = {"title": 500, "name": 200, "sector": 100, "source": 100, "description": 20_000, "body": 2_000_000}
"""Characters of texts; of those not named, 2,000."""
MOST_TICKERS = 100
NEWS_PREFIX = "news_"
_MOST_YIELD_PCT = 1_000.0

Instrument = tuple[AssetClass, str]
Reaches = dict[Instrument, tuple[int, int]]  #: When the first bar of an instrument was complete, and when its last one starts


Rule = tuple[bool, str, str]  #: Whether it holds, the field, and what is expected of it
_MOMENT = "a moment from 1970 to 2115"
_TICKER = "a ticker in capitals, such as AVLN, 600519.SH or BTC-USD"


def _is_moment(ns: int) -> bool:
    return type(ns) is int and FIRST_NS <= ns <= LAST_NS


def _is_ticker(symbol: str) -> bool:
    return bool(TICKER.fullmatch(symbol))


def _symbol_rules(row: SymbolRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield row.asset_class in ("stock", "crypto"), "asset_class", "stock or crypto"
    yield 0 < len(row.name) <= LONGEST["name"], "name", "1 to 200 characters"
    yield len(row.sector) <= LONGEST["sector"], "sector", "at most 100 characters"
    yield _is_moment(row.listed_ns), "listed", _MOMENT


def _contract_rules(row: ContractRow) -> Iterator[Rule]:
    yield row.contract.symbol == row.symbol, "symbol", "the OPRA symbol of its expiry, right and strike"
    yield _is_ticker(row.underlying), "underlying", _TICKER
    yield _is_moment(row.listed_ns), "listed", _MOMENT
    yield row.strike_e4 > 0, "strike", "a price above 0"
    yield row.listed_ns < day_start(row.expiry) + DAY, "listed", "a moment before the end of its expiry"


def _rate_rules(row: RateRow) -> Iterator[Rule]:
    tenors, yields = row.yields_pct.keys(), row.yields_pct.values()
    yield bool(tenors) and tenors <= TENOR_YEARS.keys(), "yields", f"one or more of the tenors {', '.join(TENOR_YEARS)}"
    yield all(math.isfinite(y) and abs(y) < _MOST_YIELD_PCT for y in yields), "yields", "percents a year"
    yield _is_moment(row.available_ns), "available", _MOMENT
    yield row.available_ns >= day_start(row.day), "available", "a moment on the curve's day or later"


def _dividend_rules(row: DividendRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield 0 < row.amount_e4 <= LARGEST_E4, "amount", "dollars a share, above 0"
    yield row.pay_day >= row.ex_day, "pay_day", "a day not before ex_day"
    yield _is_moment(row.declared_ns), "declared", _MOMENT
    yield row.declared_ns < day_start(row.ex_day) + DAY, "declared", "a moment before the end of ex_day"


def _split_rules(row: SplitRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield 1 <= row.new <= LARGEST_COUNT and row.new != row.old, "new", "a whole number above 0, not that of old"
    yield 1 <= row.old <= LARGEST_COUNT, "old", "a whole number above 0"
    yield _is_moment(row.announced_ns), "announced", _MOMENT
    yield row.announced_ns < day_start(row.ex_day) + DAY, "announced", "a moment before the end of ex_day"


def _deal_rules(row: DealRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield 0 <= row.cash_e4 <= LARGEST_E4, "cash", "dollars a share, from 0"
    yield row.into == "" or (_is_ticker(row.into) and row.into != row.symbol), "into", "another ticker, or nothing"
    yield 1 <= row.new <= LARGEST_COUNT, "new", "a whole number above 0"
    yield 1 <= row.old <= LARGEST_COUNT, "old", "a whole number above 0"
    yield _is_moment(row.announced_ns), "announced", _MOMENT
    yield row.announced_ns < day_start(row.day), "announced", "a moment before day"


def _borrow_rules(row: BorrowRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield _is_moment(row.available_ns), "available", _MOMENT
    yield 0 <= row.shares <= LARGEST_COUNT, "shares", "a whole number from 0"
    yield 0 <= row.fee_bps_per_year <= 1_000_000, "fee_bps_per_year", "a whole number from 0 to 1000000"


def _event_rules(row: EventRow) -> Iterator[Rule]:
    released = [release.available_ns for release in row.releases]
    yield from _form_rules(row)
    yield not row.event_id.startswith(NEWS_PREFIX), "event_id", "an id that does not begin as those of articles: news_"
    yield all(map(_is_moment, (row.time_ns, row.announced_ns, *released))), "time", "moments from 1970 to 2115"
    yield not released or released[0] >= row.announced_ns, "releases", "values that are available from announced on"
    yield from _tag_rules(row)


def _news_rules(row: NewsRow) -> Iterator[Rule]:
    texts = [*row.publisher.values(), *row.keywords, *(text for insight in row.insights for text in insight.values())]
    yield from _form_rules(row)
    yield row.id.startswith(NEWS_PREFIX), "id", "an id that begins with news_"
    yield _is_moment(row.published_ns), "published", _MOMENT
    yield all(isinstance(text, str) and len(text) <= 2_000 for text in texts), "publisher", "texts, here and in insights"
    yield from _tag_rules(row)


def _form_rules(row: EventRow | NewsRow) -> Iterator[Rule]:
    try:
        checked_record(row)
    except DataError as error:
        yield False, "row", str(error)


def _tag_rules(row: EventRow | NewsRow) -> Iterator[Rule]:
    few = len(row.tickers) <= MOST_TICKERS and len(set(row.tickers)) == len(row.tickers)
    yield few and all(map(_is_ticker, row.tickers)), "tickers", f"at most {MOST_TICKERS} tickers in capitals, each once"
    texts = ((name, getattr(row, name), LONGEST.get(name, 2_000)) for name in row.__slots__)
    for name, most in ((name, most) for name, text, most in texts if isinstance(text, str) and len(text) > most):
        yield False, name, f"at most {most} characters"
    yield bool(row.title), "title", "a text"


_RULES: Mapping[TableName, Callable[[Any], Iterable[Rule]]] = {
    "symbols": _symbol_rules,
    "contracts": _contract_rules,
    "rates": _rate_rules,
    "dividends": _dividend_rules,
    "splits": _split_rules,
    "borrow": _borrow_rules,
    "deals": _deal_rules,
    "events": _event_rules,
    "news": _news_rules,
}


def fault_of(name: TableName, row: Any) -> tuple[str, str] | None:
    """Return the first rule of its table that a row breaks: the field, and what was expected of it."""
    return next(((field, expected) for holds, field, expected in _RULES[name](row) if not holds), None)


def key_text(key: Any) -> str:
    """Return a row's key as messages show it."""
    return " ".join(str(piece)[:60] for piece in (key if isinstance(key, tuple) else (key,)))


def add_reach(reaches: Reaches, place: BarsPlace, block: Block) -> None:
    """Take the bars of a file into account, in place."""
    if not len(block):
        return
    known = (block.bars.start_ns[block.offsets[:-1]] + STEP[place.resolution]).tolist()
    last = block.bars.start_ns[block.offsets[1:] - 1].tolist()
    for symbol, first_ns, last_ns in zip(block.symbols, known, last):
        before = reaches.get((place.asset_class, symbol), (first_ns, last_ns))
        reaches[place.asset_class, symbol] = (min(before[0], first_ns), max(before[1], last_ns))


def instrument_problems(reaches: Reaches, symbols: Iterable[SymbolRow], contracts: Mapping[str, ContractRow]) -> Iterator[str]:
    """Yield instruments that have bars and are not in their table, listed after their first bar, or expired before their last."""
    listed = {(row.asset_class, row.symbol): row.listed_ns for row in symbols}
    for (asset_class, symbol), (known_ns, last_ns) in sorted(reaches.items()):
        if asset_class != "option":
            since, last_day = listed.get((asset_class, symbol)), last_ns
        else:
            row = contracts.get(symbol)
            since = None if row is None else row.listed_ns
            last_day = last_ns if row is None else day_start(row.expiry) + DAY - 1
        if since is None:
            table = "contracts" if asset_class == "option" else "symbols"
            yield f"{asset_class} {symbol}: has bars, but is not in {table}"
        elif known_ns <= since:
            yield f"{asset_class} {symbol}: was listed at {moment_text(since)}, after its first bar"
        elif last_ns > last_day:
            yield f"{asset_class} {symbol}: has bars after its expiry"


def reference_problems(symbols: Iterable[SymbolRow], referring: Mapping[TableName, Iterable[Any]]) -> Iterator[str]:
    """Stocks that dividends, splits, borrow or contracts are about and that are not in the table of symbols."""
    stocks = {row.symbol for row in symbols if row.asset_class == "stock"}
    for name, rows in referring.items():
        about = {row.underlying if name == "contracts" else row.symbol for row in rows}
        for symbol in sorted(about - stocks):
            yield f"tables/{name}: {symbol[:40]} is not a stock in symbols"
