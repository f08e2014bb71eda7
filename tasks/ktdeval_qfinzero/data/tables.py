"""Tables of rows: the rules of each row, and how a table is kept in files (Parquet; SQLite for
events and news) and hashed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, content_hash, dumps_canonical, open_parquet
from ktdeval_qfinzero.data.bar_files import decoding
from ktdeval_qfinzero.data.layout import SINGLE_TABLES, TableName, contracts_key, table_key
from ktdeval_qfinzero.data.rows import (
    TENOR_YEARS,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    EventRow,
    NewsRow,
    RateRow,
    SplitRow,
    SymbolRow,
    row_key,
)
from ktdeval_qfinzero.data.sqlite_stores import (
    EVERYTHING,
    checked_record,
    open_calendars,
    open_news,
    record_of,
    write_calendars,
    write_news,
)
from ktdeval_qfinzero.data.validation_rules import FIRST_NS, LARGEST_COUNT, LARGEST_E4, LAST_NS
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.timestamps import DAY, day_start

_ARROW = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "date": pa.date32()}
_YIELD = "yield_"


LONGEST = {
    "title": 500,
    "name": 200,
    "sector": 100,
    "source": 100,
    "description": 20_000,
    "body": 2_000_000,
}
"""Characters of texts; of those not named, 2,000."""
MAX_TICKERS = 100
NEWS_PREFIX = "news_"
_MAX_YIELD_PCT = 1_000.0

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
    yield (
        row.contract.symbol == row.symbol,
        "symbol",
        "the OPRA symbol of its expiry, right and strike",
    )
    yield _is_ticker(row.underlying), "underlying", _TICKER
    yield _is_moment(row.listed_ns), "listed", _MOMENT
    yield row.strike_e4 > 0, "strike", "a price above 0"
    yield (
        row.listed_ns < day_start(row.expiry) + DAY,
        "listed",
        "a moment before the end of its expiry",
    )


def _rate_rules(row: RateRow) -> Iterator[Rule]:
    tenors = row.yields_pct.keys()
    yields = row.yields_pct.values()
    yield (
        bool(tenors) and tenors <= TENOR_YEARS.keys(),
        "yields",
        f"one or more of the tenors {', '.join(TENOR_YEARS)}",
    )
    yield (
        all(math.isfinite(y) and abs(y) < _MAX_YIELD_PCT for y in yields),
        "yields",
        "percents a year",
    )
    yield _is_moment(row.available_ns), "available", _MOMENT
    yield (
        row.available_ns >= day_start(row.day),
        "available",
        "a moment on the curve's day or later",
    )


def _dividend_rules(row: DividendRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield 0 < row.amount_e4 <= LARGEST_E4, "amount", "dollars a share, above 0"
    yield row.pay_day >= row.ex_day, "pay_day", "a day not before ex_day"
    yield _is_moment(row.declared_ns), "declared", _MOMENT
    yield (
        row.declared_ns < day_start(row.ex_day) + DAY,
        "declared",
        "a moment before the end of ex_day",
    )


def _split_rules(row: SplitRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield (
        1 <= row.new <= LARGEST_COUNT and row.new != row.old,
        "new",
        "a whole number above 0, not that of old",
    )
    yield 1 <= row.old <= LARGEST_COUNT, "old", "a whole number above 0"
    yield _is_moment(row.announced_ns), "announced", _MOMENT
    yield (
        row.announced_ns < day_start(row.ex_day) + DAY,
        "announced",
        "a moment before the end of ex_day",
    )


def _deal_rules(row: DealRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield 0 <= row.cash_e4 <= LARGEST_E4, "cash", "dollars a share, from 0"
    yield (
        row.into == "" or (_is_ticker(row.into) and row.into != row.symbol),
        "into",
        "another ticker, or nothing",
    )
    yield 1 <= row.new <= LARGEST_COUNT, "new", "a whole number above 0"
    yield 1 <= row.old <= LARGEST_COUNT, "old", "a whole number above 0"
    yield _is_moment(row.announced_ns), "announced", _MOMENT
    yield row.announced_ns < day_start(row.day), "announced", "a moment before day"


def _borrow_rules(row: BorrowRow) -> Iterator[Rule]:
    yield _is_ticker(row.symbol), "symbol", _TICKER
    yield _is_moment(row.available_ns), "available", _MOMENT
    yield 0 <= row.shares <= LARGEST_COUNT, "shares", "a whole number from 0"
    yield (
        0 <= row.fee_bps_per_year <= 1_000_000,
        "fee_bps_per_year",
        "a whole number from 0 to 1000000",
    )


def _event_rules(row: EventRow) -> Iterator[Rule]:
    released = [release.available_ns for release in row.releases]
    yield from _form_rules(row)
    yield (
        not row.event_id.startswith(NEWS_PREFIX),
        "event_id",
        "an id that does not begin as those of articles: news_",
    )
    yield (
        all(map(_is_moment, (row.time_ns, row.announced_ns, *released))),
        "time",
        "moments from 1970 to 2115",
    )
    yield (
        not released or released[0] >= row.announced_ns,
        "releases",
        "values that are available from announced on",
    )
    yield from _tag_rules(row)


def _news_rules(row: NewsRow) -> Iterator[Rule]:
    texts = [*row.publisher.values(), *row.keywords]
    for insight in row.insights:
        texts += insight.values()

    yield from _form_rules(row)
    yield row.id.startswith(NEWS_PREFIX), "id", "an id that begins with news_"
    yield _is_moment(row.published_ns), "published", _MOMENT
    yield (
        all(isinstance(text, str) and len(text) <= 2_000 for text in texts),
        "publisher",
        "texts, here and in insights",
    )
    yield from _tag_rules(row)


def _form_rules(row: EventRow | NewsRow) -> Iterator[Rule]:
    try:
        checked_record(row)
    except DataError as error:
        yield False, "row", str(error)


def _tag_rules(row: EventRow | NewsRow) -> Iterator[Rule]:
    are_few = len(row.tickers) <= MAX_TICKERS
    are_distinct = len(set(row.tickers)) == len(row.tickers)
    yield (
        are_few and are_distinct and all(map(_is_ticker, row.tickers)),
        "tickers",
        f"at most {MAX_TICKERS} tickers in capitals, each once",
    )
    for name in row.__slots__:
        text: object = getattr(row, name)
        most = LONGEST.get(name, 2_000)
        if isinstance(text, str) and len(text) > most:
            yield False, name, f"at most {most} characters"

    yield bool(row.title), "title", "a text"


def key_text(key: object) -> str:
    """Return a row's key as messages show it."""
    pieces = key if isinstance(key, tuple) else (key,)
    return " ".join(str(piece)[:60] for piece in pieces)


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Table: how its rows are kept, checked and hashed."""

    name: TableName  #: of the table
    row: type[Any]  #: class of its rows
    rules: Callable[[Any], Iterable[Rule]]  #: of a row
    #: of a row: no two rows have the same, and the rows of a Parquet file are sorted by it
    key: Callable[[Any], Any]
    #: columns of its Parquet file that are fields of the row, with their Arrow types; none of
    #: events and articles
    own: Mapping[str, pa.DataType]

    def write(self, path: Path, rows: Sequence[Any]) -> None:
        """Write a file, sorted. Raises OSError, DataError: it can't be written."""
        if self.name == "events":
            write_calendars(path, sorted(rows, key=row_key))
        elif self.name == "news":
            write_news(path, sorted(rows, key=row_key))
        else:
            _write_parquet(self, path, sorted(rows, key=self.key))

    def read(self, path: Path) -> list[Any]:
        """Read a file, in its order. Raises OSError, pa.ArrowException, DataError, ServiceError:
        unreadable or of another kind.
        """
        if self.name == "events":
            return list(open_calendars(path).events(*EVERYTHING))
        if self.name == "news":
            return list(open_news(path).news(*EVERYTHING))

        return _read_parquet(self, path)

    def content(self, rows: Iterable[Any]) -> str:
        """Return the SHA-256 over rows in the order of their keys, whatever order they come in."""
        ordered = sorted(rows, key=self.key)
        if self.own:
            values = attrgetter(*(field.name for field in fields(self.row)))
            return content_hash([[_plain_value(value) for value in values(row)] for row in ordered])

        digest = hashlib.sha256()
        for row in ordered:
            digest.update(f"{dumps_canonical(record_of(row))}\n".encode())

        return digest.hexdigest()

    def fault(self, row: Any) -> tuple[str, str] | None:
        """Return the first rule that a row breaks: the field, and what was expected of it."""
        for holds, field, expected in self.rules(row):
            if not holds:
                return field, expected
        return None

    def problems(self, rows: Sequence[Any]) -> list[str]:
        """Return what is wrong with rows: one line a row, and one for each key that stands
        twice.
        """
        lines: list[str] = []
        seen: set[object] = set()
        for row in rows:
            key: object = self.key(row)
            fault = self.fault(row)
            if fault is not None:
                field, expected = fault
                lines.append(f"{key_text(key)}: {field}: expected {expected}")

            if key in seen:
                lines.append(f"{key_text(key)}: appears more than once")

            seen.add(key)

        return lines


def _make_table(
    name: TableName, row: type[Any], rules: Callable[[Any], Iterable[Rule]], *key: str
) -> StoredTable:
    own: dict[str, pa.DataType] = {}
    if row not in (EventRow, NewsRow):
        for field in fields(row):
            kind = str(field.type)  # a text: annotations of the module of rows are not evaluated
            if not kind.startswith("Mapping"):
                own[field.name] = _ARROW.get(kind, pa.string())

    return StoredTable(name, row, rules, attrgetter(*key), own)


TABLES: Mapping[TableName, StoredTable] = {
    "symbols": _make_table("symbols", SymbolRow, _symbol_rules, "symbol", "asset_class"),
    "contracts": _make_table("contracts", ContractRow, _contract_rules, "symbol"),
    "rates": _make_table("rates", RateRow, _rate_rules, "day"),
    "dividends": _make_table(
        "dividends", DividendRow, _dividend_rules, "symbol", "ex_day", "declared_ns"
    ),
    "splits": _make_table("splits", SplitRow, _split_rules, "symbol", "ex_day"),
    "borrow": _make_table("borrow", BorrowRow, _borrow_rules, "symbol", "available_ns"),
    "deals": _make_table("deals", DealRow, _deal_rules, "symbol", "day"),
    "events": _make_table("events", EventRow, _event_rules, "event_id"),
    "news": _make_table("news", NewsRow, _news_rules, "id"),
}


def parts_of(name: TableName, rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the rows of a table by the key of the part that they belong to."""
    if name != "contracts":
        return {table_key(name): rows} if rows or name in SINGLE_TABLES else {}

    parts: dict[str, list[Any]] = {}
    for row in rows:
        parts.setdefault(contracts_key(row.underlying), []).append(row)

    return dict(parts)


def _write_parquet(table: StoredTable, path: Path, ordered: Sequence[Any]) -> None:
    columns: dict[str, pa.Array] = {}
    for column, kind in table.own.items():
        columns[column] = pa.array([getattr(row, column) for row in ordered], kind)

    if table.name == "rates":
        for tenor in TENOR_YEARS:
            yields = [row.yields_pct.get(tenor) for row in ordered]
            columns[f"{_YIELD}{tenor}"] = pa.array(yields, pa.float64())

    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def _read_parquet(table: StoredTable, path: Path) -> list[Any]:
    with open_parquet(path) as file:
        stored = file.read(use_threads=False)

    tenors = tuple(TENOR_YEARS) if table.name == "rates" else ()
    curves = [f"{_YIELD}{tenor}" for tenor in tenors]
    schema = pa.schema({**table.own, **dict.fromkeys(curves, pa.float64())})
    if not stored.schema.equals(schema) or any(stored[column].null_count for column in table.own):
        raise pa.ArrowInvalid(f"other columns than those of {table.name}, or an empty cell")

    with decoding():
        values: dict[str, list[Any]] = {column: stored[column].to_pylist() for column in table.own}

    if curves:
        yields = zip(*(stored[column].to_pylist() for column in curves), strict=True)
        values["yields_pct"] = [_curve(tenors, row) for row in yields]

    columns = [values[field.name] for field in fields(table.row)]
    return [table.row(*row) for row in zip(*columns, strict=True)]


def _curve(tenors: Sequence[str], yields: Sequence[float | None]) -> dict[str, float]:
    """Yields by tenor, without those that are absent."""
    pairs = zip(tenors, yields, strict=True)
    return {tenor: pct for tenor, pct in pairs if pct is not None}


def _plain_value(value: str | int | float | date | Mapping[str, float]) -> JsonValue:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {tenor: float(value[tenor]) for tenor in TENOR_YEARS if tenor in value}
    return value
