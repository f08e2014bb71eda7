"""From CSV and JSON files to a dataset folder: each field read as what it is, each row by the rules of its table, each key once;
everything is read and checked first, and nothing is written if a row is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args

from ktdeval.errors import ConfigError
from ktdeval_qfinzero.data.blocks import Problems
from ktdeval_qfinzero.data.folder import save_dataset
from ktdeval_qfinzero.data.ingest_bars import BarReader, moment_of, price_e4
from ktdeval_qfinzero.data.ingest_files import Number, Record, plain_json, read_json, records_of, shown, source_of, sources_of
from ktdeval_qfinzero.data.ingest_spec import IngestSpec, TableSource, whole
from ktdeval_qfinzero.data.layout import TableName
from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    IMPORTANCE,
    NEWS_TYPES,
    TENOR_YEARS,
    AssetClass,
    BarKey,
    Bars,
    ContractRow,
    DatasetInfo,
    Market,
    PriceRows,
    RateRow,
    Release,
    SymbolRow,
)
from ktdeval_qfinzero.data.tables import TABLES
from ktdeval_qfinzero.data.update import Addition, UpdateReport, update_dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.moments import parse_day
from ktdeval_qfinzero.trading_hours import trading_hours

Read = Callable[[Any], Any]  #: Gives what a cell holds, or raises `_Wrong`

_WHOLE = re.compile(r"[0-9]{1,16}")
_DECIMAL = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?")
_FLAGS = {True: True, False: False, "true": True, "false": False}
_PUBLISHER = ("name", "homepage_url", "logo_url")
_INSIGHT = ("ticker", "sentiment", "reasoning")


class _Wrong(Exception):
    """A malformed cell; its text is what was expected."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number) or not value:
        raise _Wrong("text")
    return value


def _choice(among: tuple[str, ...], value: Any) -> str:
    if _text(value) not in among:
        raise _Wrong(f"one of {', '.join(among)}")
    return str(value)


def _read(parse: Callable[[str], Any], expected: str, value: Any) -> Any:
    parsed = parse(value) if isinstance(value, str) else None
    if parsed is None:
        raise _Wrong(expected)
    return parsed


def _day_of(text: str) -> date | None:
    try:
        return parse_day(text, "day")
    except ServiceError:
        return None


_moment = partial(_read, moment_of, "a moment such as 2025-01-06T14:30:00Z, or nanoseconds since 1970")
_day = partial(_read, _day_of, "a day such as 2025-01-06")
_whole = partial(_read, lambda text: int(text) if _WHOLE.fullmatch(text) else None, "a whole number from 0")
_number = partial(_read, lambda text: float(text) if _DECIMAL.fullmatch(text) else None, "a number")


def _flag(value: Any) -> bool:
    if not isinstance(value, (bool, str)) or value not in _FLAGS:
        raise _Wrong("true or false")
    return _FLAGS[value]


def _contract(value: Any) -> Any:
    return _read(read_contract, "an OPRA symbol such as O:AVLN250221P00225000", _text(value))


def _json(expected: str, value: Any) -> Any:
    try:
        return plain_json(read_json(value) if isinstance(value, str) and not isinstance(value, Number) else value)
    except ValueError as error:
        raise _Wrong(expected) from error


def _texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts; in CSV with semicolons between them."""
    if isinstance(value, str) and not isinstance(value, Number) and not value.startswith("["):
        return tuple(part.strip() for part in value.split(";") if part.strip())
    items = _json("JSON", value)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise _Wrong("a list of texts")
    return tuple(items)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(mapping := _json("JSON", value), dict):
        raise _Wrong("a JSON object")
    return mapping


def _mappings(value: Any) -> list[dict[str, Any]]:
    if not isinstance(items := _json("JSON", value), list) or not all(isinstance(item, dict) for item in items):
        raise _Wrong("a list of JSON objects")
    return items


def _with_texts(keys: tuple[str, ...], mapping: dict[str, Any]) -> dict[str, str]:
    if not mapping.keys() <= set(keys) or not all(isinstance(text, str) for text in mapping.values()):
        raise _Wrong(f"texts under {', '.join(keys)}")
    return mapping


def _releases(value: Any) -> tuple[Release, ...]:
    """Releases: objects of `available` and `values`, oldest first."""
    releases = []
    for item in _mappings(value):
        ns = moment_of(str(item.get("available", "")))
        if item.keys() != {"available", "values"} or ns is None or not isinstance(item["values"], dict):
            raise _Wrong("objects of available (a moment) and values (a JSON object)")
        releases.append(Release(ns, item["values"]))
    return tuple(releases)


@dataclass(frozen=True)
class Form:
    """Form of the rows of a table in files."""

    #: class of the rows; a field `listed` of a file is its attribute `listed` or `listed_ns`, `amount` its `amount_e4`
    row: Callable[..., Any]
    required: Mapping[str, Read]  #: fields that each row has
    #: fields that it may have, with what they are where nothing stands
    optional: Mapping[str, tuple[Read, Any]]

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Attribute of the row by field."""
        fields = (*self.required, *self.optional)
        slots = getattr(self.row, "__slots__", fields)
        return {name: next(f"{name}{end}" for end in ("", "_ns", "_e4") if f"{name}{end}" in slots) for name in fields}


def _contract_row(symbol: OptionContract, listed: int, underlying: str) -> ContractRow:
    return ContractRow(symbol.symbol, underlying or symbol.underlying, symbol.expiry, symbol.strike_e4, symbol.right, listed)


def _rate_row(day: date, available: int, **yields_pct: float | None) -> RateRow:
    return RateRow(day, {tenor: pct for tenor, pct in yields_pct.items() if pct is not None}, available)


def _forms(rounded: bool, source: str) -> dict[TableName, Form]:
    text: tuple[Read, str] = (_text, "")
    amount = partial(_read, partial(price_e4, rounded=rounded), "dollars with at most four decimals, such as 0.25")
    market = (partial(_choice, get_args(Market)), "us")
    kind, event_type, news_type, importance = (
        partial(_choice, among) for among in (("stock", "crypto"), CALENDAR_TYPES, NEWS_TYPES, IMPORTANCE)
    )
    publisher: tuple[Read, Any] = (lambda value: _with_texts(_PUBLISHER, _mapping(value)), {})
    insights: tuple[Read, Any] = (lambda value: tuple(_with_texts(_INSIGHT, insight) for insight in _mappings(value)), ())
    makers: dict[str, Callable[..., Any]] = {"contracts": _contract_row, "rates": _rate_row}
    #: by table: fields that each row has, and those that it may have with what they are where nothing stands
    cells: dict[TableName, tuple[Mapping[str, Read], Mapping[str, tuple[Read, Any]]]] = {
        "symbols": (
            {"symbol": _text, "asset_class": kind, "name": _text, "listed": _moment},
            {"sector": text, "has_options": (_flag, False)}
        ),
        "contracts": ({"symbol": _contract, "listed": _moment}, {"underlying": text}),
        "rates": ({"day": _day, "available": _moment}, dict.fromkeys(TENOR_YEARS, (_number, None))),
        "dividends": ({"symbol": _text, "ex_day": _day, "pay_day": _day, "amount": amount, "declared": _moment}, {}),
        "splits": ({"symbol": _text, "ex_day": _day, "new": _whole, "old": _whole, "announced": _moment}, {}),
        "borrow": ({"symbol": _text, "available": _moment, "shares": _whole, "fee_bps_per_year": _whole}, {}),
        "deals": (
            {"symbol": _text, "day": _day, "announced": _moment},
            {"cash": (amount, 0), "into": text, "new": (_whole, 1), "old": (_whole, 1)}
        ),
        "events": (
            {
                "event_id": _text, "event_type": event_type, "title": _text, "time": _moment, "announced": _moment,
                "importance": importance
            },
            {
                "tickers": (_texts, ()), "country": (_text, "US"), "market": market, "expected": (_mapping, {}),
                "releases": (_releases, ()), "source": (_text, source)
            }
        ),
        "news": (
            {"id": _text, "event_type": news_type, "title": _text, "published": _moment, "importance": importance},
            {
                "tickers": (_texts, ()), "description": text, "body": text, "article_url": text, "author": text,
                "publisher": publisher, "market": market, "keywords": (_texts, ()), "image_url": text, "insights": insights,
                "source": (_text, source)
            }
        )
    }  # fmt: skip
    return {name: Form(makers.get(name, TABLES[name].row), *readers) for name, readers in cells.items()}


class RowReader:
    """Collects the rows of all tables from files below `base`; bad rows go to `problems`. `rounded`: amounts of more than four
    decimals are rounded; `source`: of events and articles that name none; `duplicates`: rows that repeat another.
    """

    def __init__(self, base: Path, problems: Problems, rounded: bool, source: str) -> None:
        self.base, self.problems = base, problems
        self.files: list[str] = []
        self.duplicates = 0
        self._forms = _forms(rounded, source)
        self._rows: dict[TableName, dict[Any, tuple[Any, str]]] = {name: {} for name in TABLES}

    def read(self, name: TableName, spec: TableSource) -> None:
        """Read the files of a source. Raises ConfigError: there is no such file, or the user maps an unknown field."""
        form = self._forms[name]
        for file in sources_of(self.base, spec.file):
            source = source_of(file, tuple(form.attributes), tuple(form.required), spec)
            self.files.append(source.name)
            for record in records_of(source, self.problems):
                self._take(name, f"{source.name}:{record.line}", record)

    def rows(self, name: TableName) -> list[Any]:
        """Return all rows of a table that were read."""
        return [row for row, _ in self._rows[name].values()]

    def _take(self, name: TableName, where: str, record: Record) -> None:
        row = self._row(self._forms[name], where, record.values)
        fault = None if row is None else TABLES[name].fault(row)
        if fault is not None:
            self.problems.add(f"{where}: {fault[0]}: expected {fault[1]}")
        if row is None or fault is not None:
            return
        before = self._rows[name].setdefault(TABLES[name].key(row), (row, where))
        if before[1] != where and before[0] == row:
            self.duplicates += 1
        elif before[1] != where:
            self.problems.add(f"{where}: row: expected each key once: {where} says something else than {before[1]}")

    def _row(self, form: Form, where: str, cells: Mapping[str, Any]) -> Any:
        """Return the row of some cells; None where one is malformed, which becomes a problem."""
        values, wrong = {}, False
        for name, attribute in form.attributes.items():
            cell = cells.get(name, "")
            read, default = form.optional.get(name) or (form.required[name], None)
            try:
                values[attribute] = default if cell == "" and name in form.optional else read(cell)
            except _Wrong as expected:
                self.problems.add(f"{where}: {name}: expected {expected}, was {shown(str(cell))}")
                wrong = True
        return None if wrong else form.row(**values)


_NO_DAY = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Report of what was read."""

    files: tuple[str, ...]  #: names of the files
    rows: Mapping[str, int]  #: by kind (`stock minute`, `symbols`, …)
    duplicates: int  #: rows that repeat another one; each was taken once
    notes: tuple[str, ...] = ()  #: changes that were made to values of the files


def read_files(spec: IngestSpec, base: Path, *, is_new: bool = False) -> tuple[Addition, IngestReport]:
    """Read everything that a spec names, its paths relative to `base`: sound rows, and what was read. `is_new`: symbols may be made
    of the bars. Raises DatasetRefused: rows that are wrong, with file, line and field; all counted; ConfigError: there is no
    such file, or the spec contradicts itself.
    """
    moment = _default_as_of(spec)
    problems = Problems()
    bars = BarReader(base, problems, spec.round)
    for source in spec.bars:
        bars.read(whole(spec, source))
    rows = RowReader(base, problems, spec.round, spec.name)
    for kind in TABLES:
        for table in getattr(spec, kind):
            rows.read(kind, table)
    table_of_bars = bars.bar_table()
    notes = []
    if bars.rounded_prices:
        notes.append(
            f"{bars.rounded_prices} prices had more than four decimals and were rounded to these; `round: false` refuses them"
        )
    symbols = _symbols_of(table_of_bars, bars.units) if is_new and not spec.symbols else ()
    if symbols:
        notes.append(f"no symbols were given: {len(symbols)} were made of the bars, each listed from its first one on")
    problems.refuse()
    counts = Counter[str]()
    for (asset_class, _, resolution), series in table_of_bars.items():
        counts[f"{asset_class} {resolution}"] += len(series)
    counts.update({kind: len(rows.rows(kind)) for kind in TABLES if rows.rows(kind)})
    prices = PriceRows(table_of_bars, *(rows.rows(name) for name, table in TABLES.items() if table.own))
    prices = replace(prices, symbol_rows=symbols) if symbols else prices
    report = IngestReport((*bars.files, *rows.files), counts, bars.duplicates + rows.duplicates, tuple(notes))
    return Addition(prices, rows.rows("events"), rows.rows("news"), moment), report


def _symbols_of(table: Mapping[BarKey, Bars], units: Mapping[tuple[AssetClass, str], float]) -> tuple[SymbolRow, ...]:
    """Stocks and coins that have bars, listed from their first one on."""
    first: dict[tuple[Literal["stock", "crypto"], str], int] = {}
    for (asset_class, symbol, _), bars in table.items():
        if asset_class != "option" and len(bars):
            key = asset_class, symbol
            first[key] = min(first.get(key, int(bars.start_ns[0])), int(bars.start_ns[0]))
    names = {key: key[1] if units[key] == 1.0 else f"{units[key]:g} {key[1]}" for key in first}
    return tuple(SymbolRow(key[1], key[0], names[key], "", ns) for key, ns in sorted(first.items()))


def ingest_dataset(spec: IngestSpec, base: Path, folder: Path) -> tuple[DatasetInfo, IngestReport]:
    """Make a dataset folder of a spec, which needs `default_as_of`; raises what `read_files` and `save_dataset` do."""
    moment = _default_as_of(spec)
    if moment is None:
        raise ConfigError("default_as_of: expected a moment such as 2025-01-06T21:00:00Z; a new dataset needs one")
    if not re.fullmatch("[A-Z]{3,8}", spec.currency):
        raise ConfigError(f"currency: expected a code such as USD, CNY or USDT, was {spec.currency!r}")
    trading_hours(spec.calendar)
    rows, report = read_files(spec, base, is_new=True)
    info = DatasetInfo(spec.name, spec.synthetic, "", _NO_DAY, _NO_DAY, _NO_DAY, _NO_DAY, moment, spec.calendar, spec.currency)
    return save_dataset(folder, rows.prices, rows.events, rows.news, info), report


def ingest_update(spec: IngestSpec, base: Path, folder: Path, *, replace: bool = False) -> tuple[UpdateReport, IngestReport]:
    """Add everything that a spec names to a dataset folder; raises what `read_files` and `update_dataset` do."""
    rows, report = read_files(spec, base)
    return update_dataset(folder, rows, replace=replace), report


def _default_as_of(spec: IngestSpec) -> int | None:
    moment = None if spec.default_as_of is None else moment_of(spec.default_as_of)
    if moment is None and spec.default_as_of is not None:
        raise ConfigError("default_as_of: expected a moment such as 2025-01-06T21:00:00Z")
    return moment
