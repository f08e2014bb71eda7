"""What every row of the small tables, the calendar and the news must be, and what tables must be to each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.api import DataError
from ktdeval_qfinzero.data.bar_files import Block
from ktdeval_qfinzero.data.bar_rules import FIRST_NS, LARGEST_COUNT, LARGEST_E4, LAST_NS, STEP
from ktdeval_qfinzero.data.layout import BarsPlace, TableName
from ktdeval_qfinzero.data.row_records import checked_article, checked_event
from ktdeval_qfinzero.data.rows import (
    TENOR_YEARS,
    AssetClass,
    BorrowRow,
    ContractRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.instruments import TICKER, OptionContract, read_contract
from ktdeval_qfinzero.moments import DAY, day_start, moment_text

LONGEST = {"title": 500, "name": 200, "sector": 100, "source": 100, "description": 20_000, "body": 2_000_000}
"""Characters of texts; of those not named, 2,000."""
MOST_TICKERS = 100
NEWS_PREFIX = "news_"
_MOST_YIELD_PCT = 1_000.0

Instrument = tuple[AssetClass, str]
Reaches = dict[Instrument, tuple[int, int]]
"""When the first bar of an instrument was complete, and when its last one starts."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row: a field, and what was expected of it."""

    field: str
    expected: str


Rule = tuple[bool, str, str]
"""Whether it holds, the field, and what is expected of it."""


def _first_fault(rules: Iterable[Rule]) -> Fault | None:
    return next((Fault(field, expected) for holds, field, expected in rules if not holds), None)


def is_moment(ns: int) -> bool:
    """Whether data can have this moment."""
    return type(ns) is int and FIRST_NS <= ns <= LAST_NS


def symbol_fault(row: SymbolRow) -> Fault | None:
    """What is wrong with a stock or coin."""
    return _first_fault(
        [
            (bool(TICKER.fullmatch(row.symbol)), "symbol", "a ticker in capitals"),
            (row.asset_class in ("stock", "crypto"), "asset_class", "stock or crypto"),
            (0 < len(row.name) <= LONGEST["name"], "name", "1 to 200 characters"),
            (len(row.sector) <= LONGEST["sector"], "sector", "at most 100 characters"),
            (is_moment(row.listed_ns), "listed", "a moment from 1970 to 2115"),
        ]
    )


def contract_fault(row: ContractRow) -> Fault | None:
    """What is wrong with an option contract."""
    same = read_contract(row.symbol) == OptionContract(row.underlying, row.expiry, row.strike_e4, row.right)
    return _first_fault(
        [
            (same, "symbol", "the OPRA symbol of its underlying, expiry, right and strike"),
            (is_moment(row.listed_ns), "listed", "a moment from 1970 to 2115"),
            (row.strike_e4 > 0, "strike", "a price above 0"),
            (row.listed_ns < day_start(row.expiry) + DAY, "listed", "a moment before the end of its expiry"),
        ]
    )


def rate_fault(row: RateRow) -> Fault | None:
    """What is wrong with a curve."""
    tenors, yields = row.yields_pct.keys(), row.yields_pct.values()
    return _first_fault(
        [
            (bool(tenors) and tenors <= TENOR_YEARS.keys(), "yields", f"one or more of the tenors {', '.join(TENOR_YEARS)}"),
            (all(math.isfinite(y) and abs(y) < _MOST_YIELD_PCT for y in yields), "yields", "percents a year"),
            (is_moment(row.available_ns), "available", "a moment from 1970 to 2115"),
            (row.available_ns >= day_start(row.day), "available", "a moment on the curve's day or later"),
        ]
    )


def dividend_fault(row: DividendRow) -> Fault | None:
    """What is wrong with a dividend."""
    return _first_fault(
        [
            (bool(TICKER.fullmatch(row.symbol)), "symbol", "a ticker in capitals"),
            (0 < row.amount_e4 <= LARGEST_E4, "amount", "dollars a share, above 0"),
            (row.pay_day >= row.ex_day, "pay_day", "a day not before ex_day"),
            (is_moment(row.declared_ns), "declared", "a moment from 1970 to 2115"),
            (row.declared_ns < day_start(row.ex_day) + DAY, "declared", "a moment before the end of ex_day"),
        ]
    )


def split_fault(row: SplitRow) -> Fault | None:
    """What is wrong with a split."""
    return _first_fault(
        [
            (bool(TICKER.fullmatch(row.symbol)), "symbol", "a ticker in capitals"),
            (1 <= row.new <= LARGEST_COUNT and row.new != row.old, "new", "a whole number above 0, not that of old"),
            (1 <= row.old <= LARGEST_COUNT, "old", "a whole number above 0"),
            (is_moment(row.announced_ns), "announced", "a moment from 1970 to 2115"),
            (row.announced_ns < day_start(row.ex_day) + DAY, "announced", "a moment before the end of ex_day"),
        ]
    )


def borrow_fault(row: BorrowRow) -> Fault | None:
    """What is wrong with what can be borrowed."""
    return _first_fault(
        [
            (bool(TICKER.fullmatch(row.symbol)), "symbol", "a ticker in capitals"),
            (is_moment(row.available_ns), "available", "a moment from 1970 to 2115"),
            (0 <= row.shares <= LARGEST_COUNT, "shares", "a whole number from 0"),
            (0 <= row.fee_bps_per_year <= 1_000_000, "fee_bps_per_year", "a whole number from 0 to 1000000"),
        ]
    )


def event_fault(row: EventRow) -> Fault | None:
    """What is wrong with a calendar event."""
    released = [release.available_ns for release in row.releases]
    return _form_fault(row, checked_event) or _first_fault(
        [
            (not row.event_id.startswith(NEWS_PREFIX), "event_id", "an id that does not begin as those of articles: news_"),
            (all(map(is_moment, (row.time_ns, row.announced_ns, *released))), "time", "moments from 1970 to 2115"),
            (not released or released[0] >= row.announced_ns, "releases", "values that are available from announced on"),
            *_tag_rules(row),
        ]
    )


def news_fault(row: NewsRow) -> Fault | None:
    """What is wrong with an article."""
    texts = [*row.publisher.values(), *row.keywords, *(text for insight in row.insights for text in insight.values())]
    return _form_fault(row, checked_article) or _first_fault(
        [
            (row.id.startswith(NEWS_PREFIX), "id", "an id that begins with news_"),
            (is_moment(row.published_ns), "published", "a moment from 1970 to 2115"),
            (all(isinstance(text, str) and len(text) <= 2_000 for text in texts), "publisher", "texts, here and in insights"),
            *_tag_rules(row),
        ]
    )


def _form_fault(row: Any, checked: Callable[[Any], object]) -> Fault | None:
    try:
        checked(row)
    except DataError as error:
        return Fault("row", str(error))
    return None


def _tag_rules(row: EventRow | NewsRow) -> Iterator[Rule]:
    few = len(row.tickers) <= MOST_TICKERS and len(set(row.tickers)) == len(row.tickers)
    yield few and all(map(TICKER.fullmatch, row.tickers)), "tickers", f"at most {MOST_TICKERS} tickers in capitals, each once"
    for name in row.__slots__:
        value, most = getattr(row, name), LONGEST.get(name, 2_000)
        yield not isinstance(value, str) or len(value) <= most, name, f"at most {most} characters"
    yield bool(row.title), "title", "a text"


FAULT_OF: Mapping[TableName, Callable[[Any], Fault | None]] = {
    "symbols": symbol_fault,
    "contracts": contract_fault,
    "rates": rate_fault,
    "dividends": dividend_fault,
    "splits": split_fault,
    "borrow": borrow_fault,
}


def row_problems(rows: Sequence[Any], fault_of: Callable[[Any], Fault | None], key: Callable[[Any], Any]) -> list[str]:
    """What is wrong with the rows of a table: one line a row, and one for each key that stands twice."""
    lines = []
    seen = set()
    for row in rows:
        fault = fault_of(row)
        if fault is not None:
            lines.append(f"{_told(key(row))}: {fault.field}: expected {fault.expected}")
        if key(row) in seen:
            lines.append(f"{_told(key(row))}: stands more than once")
        seen.add(key(row))
    return lines


def _told(key: Any) -> str:
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


def instrument_problems(
    reaches: Reaches, symbols: Iterable[SymbolRow], contracts: Mapping[str, Mapping[str, ContractRow]]
) -> Iterator[str]:
    """Instruments that have bars and are not in their table, were listed after their first bar, or expired before their last.

    Args:
        reaches: of the instruments to look at.
        symbols: all of the dataset.
        contracts: by underlying and symbol, of all underlyings of options in `reaches`.
    """
    listed = {(row.asset_class, row.symbol): row.listed_ns for row in symbols}
    for (asset_class, symbol), (known_ns, last_ns) in sorted(reaches.items()):
        if asset_class != "option":
            since, last_day = listed.get((asset_class, symbol)), last_ns
        else:
            contract = read_contract(symbol)
            row = contracts.get(contract.underlying, {}).get(symbol) if contract else None
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
