"""Make a dataset folder from CSV and JSON files.

Everything is read and checked before anything is written: each cell by the type of its field, each
row by the rules of its table. Each key may occur only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.values import load_yaml
from ktdeval_qfinzero.data.ingest_bars import BarReader, moment_of, price_e4
from ktdeval_qfinzero.data.ingest_mapping import (
    as_problem,
    files_of,
    plain_json,
    quote_cell,
    shape_table,
)
from ktdeval_qfinzero.data.ingest_spec import IngestSpec, TableFiles, whole
from ktdeval_qfinzero.data.problems import ProblemList
from ktdeval_qfinzero.data.rows import (
    AssetClass,
    BarKey,
    Bars,
    ContractRow,
    DatasetInfo,
    EventRelease,
    PriceRows,
    RateRow,
    SymbolRow,
)
from ktdeval_qfinzero.data.schema import TABLES, TableName
from ktdeval_qfinzero.data.writing import (
    DatasetAddition,
    UpdateReport,
    save_dataset,
    tables_of,
    update_dataset,
)
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.timestamps import parse_day
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_tables.readers.rows import WrittenNumber, read_exact_json, read_rows

Read = Callable[[Any], Any]  #: Returns a cell's value, or raises `_MalformedCell`

_WHOLE = re.compile(r"[0-9]{1,16}")
_DECIMAL = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?")
_FLAGS = {True: True, False: False, "true": True, "false": False}
_PUBLISHER = ("name", "homepage_url", "logo_url")
_INSIGHT = ("ticker", "sentiment", "reasoning")


class _MalformedCell(Exception):
    """A malformed cell. The error's text is the expected form."""


def _text_cell(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, WrittenNumber) or not value:
        raise _MalformedCell("text")
    return value


def _choice(among: tuple[str, ...], value: Any) -> str:
    if _text_cell(value) not in among:
        raise _MalformedCell(f"one of {', '.join(among)}")
    return str(value)


def _parse_cell(parse: Callable[[str], Any], expected: str, value: Any) -> Any:
    """Return a cell's text, parsed. `parse` returns None if the text is malformed."""
    parsed = None
    if isinstance(value, str):
        parsed = parse(value)
    if parsed is None:
        raise _MalformedCell(expected)
    return parsed


def _day_of(text: str) -> date | None:
    try:
        return parse_day(text, "day")
    except ServiceError:
        return None


def _whole_of(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _number_of(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) else None


_moment = partial(
    _parse_cell, moment_of, "a moment such as 2025-01-06T14:30:00Z, or nanoseconds since 1970"
)
_day = partial(_parse_cell, _day_of, "a day such as 2025-01-06")
_whole = partial(_parse_cell, _whole_of, "a whole number from 0")
_number = partial(_parse_cell, _number_of, "a number")


def _flag(value: Any) -> bool:
    if not isinstance(value, (bool, str)) or value not in _FLAGS:
        raise _MalformedCell("true or false")
    return _FLAGS[value]


def _contract(value: Any) -> Any:
    return _parse_cell(
        read_contract, "an OPRA symbol such as O:AVLN250221P00225000", _text_cell(value)
    )


def _is_text(value: Any) -> bool:
    """Return whether a cell is a string; numbers in JSON have the string class `WrittenNumber`."""
    return isinstance(value, str) and not isinstance(value, WrittenNumber)


def _json(value: Any) -> Any:
    """Return the JSON value of a cell. In CSV files, the value is written as a string."""
    try:
        if _is_text(value):
            value = read_exact_json(value)
        return plain_json(value)
    except ValueError as error:
        raise _MalformedCell("JSON") from error


def _list_of(kind: type, expected: str, value: Any) -> list[Any]:
    items = _json(value)
    if not isinstance(items, list):
        raise _MalformedCell(expected)
    if not all(isinstance(item, kind) for item in items):
        raise _MalformedCell(expected)
    return items


def _text_list(value: Any) -> tuple[str, ...]:
    """Return a list of strings; in CSV files, they may be separated by semicolons."""
    if _is_text(value) and not value.startswith("["):
        parts = [part.strip() for part in value.split(";")]
        return tuple(part for part in parts if part)

    return tuple(_list_of(str, "a list of texts", value))


def _json_mapping(value: Any) -> dict[str, Any]:
    mapping = _json(value)
    if not isinstance(mapping, dict):
        raise _MalformedCell("a JSON object")
    return mapping


def _mappings(value: Any) -> list[dict[str, Any]]:
    return _list_of(dict, "a list of JSON objects", value)


def _with_texts(keys: tuple[str, ...], mapping: dict[str, Any]) -> dict[str, str]:
    """Return an object that has strings under some of these keys, and no other keys."""
    for key, text in mapping.items():
        if key not in keys or not isinstance(text, str):
            raise _MalformedCell(f"texts under {', '.join(keys)}")
    return mapping


def _publisher(value: Any) -> dict[str, str]:
    return _with_texts(_PUBLISHER, _json_mapping(value))


def _insights(value: Any) -> tuple[dict[str, str], ...]:
    return tuple(_with_texts(_INSIGHT, insight) for insight in _mappings(value))


def _releases(value: Any) -> tuple[EventRelease, ...]:
    """Return a list of releases: objects with `available` and `values`, oldest first."""
    releases = []
    for item in _mappings(value):
        ns = moment_of(str(item.get("available", "")))
        values = item.get("values")
        has_fields = item.keys() == {"available", "values"}
        if not has_fields or ns is None or not isinstance(values, dict):
            raise _MalformedCell("objects of available (a moment) and values (a JSON object)")

        releases.append(EventRelease(ns, values))

    return tuple(releases)


#: How cells are read, keyed by the kinds in `ingest_fields.yaml`; amounts depend on the spec
READERS: Mapping[str, Read] = {
    "text": _text_cell,
    "moment": _moment,
    "day": _day,
    "whole": _whole,
    "number": _number,
    "flag": _flag,
    "contract": _contract,
    "texts": _text_list,
    "mapping": _json_mapping,
    "publisher": _publisher,
    "insights": _insights,
    "releases": _releases,
}


@dataclass(frozen=True)
class RowForm:
    """Form of a table's rows in files."""

    row: Callable[..., Any]  #: class of the rows, or a function that makes a row
    fields: Mapping[str, Read]
    defaults: Mapping[str, Any]  #: values of fields that may be absent from a row

    @property
    def required(self) -> tuple[str, ...]:
        """Fields that each row must have."""
        return tuple(name for name in self.fields if name not in self.defaults)

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Argument of `row` for each field. Field names in files have no units: the field `listed`
        is the attribute `listed_ns`, and `amount` is `amount_e4`.
        """
        slots = getattr(self.row, "__slots__", tuple(self.fields))
        attributes: dict[str, str] = {}
        for name in self.fields:
            candidates = (name, f"{name}_ns", f"{name}_e4")
            attributes[name] = next(each for each in candidates if each in slots)

        return attributes


def _contract_row(symbol: OptionContract, listed: int, underlying: str) -> ContractRow:
    return ContractRow(
        symbol.symbol,
        underlying or symbol.underlying,
        symbol.expiry,
        symbol.strike_e4,
        symbol.right,
        listed,
    )


def _rate_row(day: date, available: int, **yields_pct: float | None) -> RateRow:
    curve = {tenor: pct for tenor, pct in yields_pct.items() if pct is not None}
    return RateRow(day, curve, available)


def _forms(rounded: bool, source: str) -> dict[TableName, RowForm]:
    """Return the form of each table.

    `rounded` allows prices with more than four decimals; `source` is the default source of events
    and articles.
    """
    amount = partial(
        _parse_cell,
        partial(price_e4, rounded=rounded),
        "dollars with at most four decimals, such as 0.25",
    )
    readers: dict[str, Read] = {**READERS, "amount": amount}
    makers: dict[str, Callable[..., Any]] = {"contracts": _contract_row, "rates": _rate_row}
    declared = load_yaml(Path(__file__).with_name("ingest_fields.yaml"))
    forms: dict[TableName, RowForm] = {}
    for name, table in TABLES.items():
        fields: dict[str, Read] = {}
        for field, kind in declared[name]["fields"].items():
            fields[field] = readers.get(kind, partial(_choice, tuple(kind.split(" | "))))

        defaults: dict[str, Any] = {}
        for field, value in declared[name].get("defaults", {}).items():
            defaults[field] = tuple(value) if isinstance(value, list) else value

        if "source" in defaults:
            defaults["source"] = source

        forms[name] = RowForm(makers.get(name, table.row), fields, defaults)

    return forms


class RowReader:
    """Collector of the rows of all tables from files below `base`. Malformed rows become problems.
    `rounded` and `source` are the arguments of `_forms`.
    """

    def __init__(self, base: Path, problems: ProblemList, rounded: bool, source: str) -> None:
        self.base = base
        self.problems = problems
        self.files: list[str] = []  #: names of the files read so far
        self.duplicates = 0  #: number of rows that repeat another row
        self._forms = _forms(rounded, source)
        self._rows: dict[TableName, dict[Any, tuple[Any, str]]] = {name: {} for name in TABLES}

    def read(self, name: TableName, spec: TableFiles) -> None:
        """Read the files of a source. Raises ConfigError if no file matches, or if the user maps an
        unknown field.
        """
        form = self._forms[name]
        for file in files_of(self.base, spec.file):
            table = shape_table(file, tuple(form.fields), form.required, spec)
            self.files.append(table.name)
            read = []
            for row in read_rows(table, as_problem(table.name, self.problems)):
                where = f"{table.name}:{row.line}"
                made = self._row(form, where, row.cells)
                if made is not None:
                    read.append((made, where))

            self._take(name, read)

    def rows(self, name: TableName) -> list[Any]:
        """Return all rows that were read for a table."""
        return [row for row, _ in self._rows[name].values()]

    def _take(self, name: TableName, read: Sequence[tuple[Any, str]]) -> None:
        """Add rows, each with its location, unless a row breaks a rule or repeats another row."""
        table = TABLES[name]
        faults, _ = table.faults([row for row, _ in read])
        for fault in faults:
            _, where = read[fault.number]
            self.problems.add(f"{where}: {fault.field}: expected {fault.expected}")

        broken = {fault.number for fault in faults}
        for number, (row, where) in enumerate(read):
            if number in broken:
                continue

            known, known_where = self._rows[name].setdefault(table.key_of(row), (row, where))
            if known_where == where:
                continue
            if known == row:
                self.duplicates += 1
                continue

            self.problems.add(
                f"{where}: row: expected each key once: {where} says something else than"
                f" {known_where}"
            )

    def _row(self, form: RowForm, where: str, cells: Mapping[str, Any]) -> Any:
        """Return the row that some cells form; None if a cell is malformed, which becomes a
        problem.
        """
        values = {}
        is_malformed = False
        for name, attribute in form.attributes.items():
            cell = cells.get(name, "")
            if cell == "" and name in form.defaults:
                values[attribute] = form.defaults[name]
                continue

            try:
                values[attribute] = form.fields[name](cell)
            except _MalformedCell as expected:
                self.problems.add(
                    f"{where}: {name}: expected {expected}, was {quote_cell(str(cell))}"
                )
                is_malformed = True

        if is_malformed:
            return None
        return form.row(**values)


_NO_DAY = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts and notes of an ingestion."""

    files: tuple[str, ...]  #: names of the files
    rows: Mapping[str, int]  #: number of rows by kind (`stock minute`, `symbols`, …)
    duplicates: int  #: number of rows dropped because they repeat another row
    notes: tuple[str, ...] = ()  #: changes made to values in the files


def read_files(
    spec: IngestSpec, base: Path, *, is_new: bool = False
) -> tuple[DatasetAddition, IngestReport]:
    """Read the files of a spec, whose paths are relative to `base`. Return their rows and a report.
    For a new dataset without symbols, symbols are made from the bars.

    Raises DatasetRefused, which gives the file, line and field of malformed rows; ConfigError if a
    file is missing or the spec contradicts itself.
    """
    moment = _default_as_of(spec)
    problems = ProblemList()
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
            f"{bars.rounded_prices} prices had more than four decimals and were rounded to these;"
            " `round: false` refuses them"
        )

    symbols: tuple[SymbolRow, ...] = ()
    if is_new and not spec.symbols:
        symbols = _symbols_of(table_of_bars, bars.units)
    if symbols:
        notes.append(
            f"no symbols were given: {len(symbols)} were made of the bars, each listed from its"
            " first one on"
        )

    problems.refuse()
    # Tables of prices are in the order of `PriceRows`.
    price_tables = [rows.rows(name) for name in tables_of(PriceRows())]
    prices = PriceRows(table_of_bars, *price_tables)
    if symbols:
        prices = replace(prices, symbol_rows=symbols)

    report = IngestReport(
        files=(*bars.files, *rows.files),
        rows=_row_counts(table_of_bars, rows),
        duplicates=bars.duplicates + rows.duplicates,
        notes=tuple(notes),
    )

    return DatasetAddition(prices, rows.rows("events"), rows.rows("news"), moment), report


def _row_counts(table: Mapping[BarKey, Bars], rows: RowReader) -> Counter[str]:
    """Count the rows by kind, and bars by class and resolution."""
    counts = Counter[str]()
    for (asset_class, _, resolution), series in table.items():
        counts[f"{asset_class} {resolution}"] += len(series)

    for kind in TABLES:
        read = rows.rows(kind)
        if read:
            counts[kind] = len(read)

    return counts


def _symbols_of(
    table: Mapping[BarKey, Bars], units: Mapping[tuple[AssetClass, str], float]
) -> tuple[SymbolRow, ...]:
    """Make symbols for the stocks and crypto assets with bars. Each is listed at the start of its
    first bar.
    """
    listed: dict[tuple[Literal["stock", "crypto"], str], int] = {}
    for (asset_class, symbol, _), bars in table.items():
        if asset_class != "option" and len(bars):
            key = asset_class, symbol
            first_ns = int(bars.start_ns[0])
            listed[key] = min(listed.get(key, first_ns), first_ns)

    rows: list[SymbolRow] = []
    for (asset_class, symbol), listed_ns in sorted(listed.items()):
        unit = units[asset_class, symbol]
        name = symbol
        if unit != 1.0:
            name = f"{unit:g} {symbol}"
        rows.append(SymbolRow(symbol, asset_class, name, "", listed_ns))

    return tuple(rows)


def ingest_dataset(spec: IngestSpec, base: Path, folder: Path) -> tuple[DatasetInfo, IngestReport]:
    """Make a dataset folder from a spec, which must have `default_as_of`. Raises the same errors as
    `read_files` and `save_dataset`.
    """
    moment = _default_as_of(spec)
    if moment is None:
        raise ConfigError(
            "default_as_of: expected a moment such as 2025-01-06T21:00:00Z; a new dataset needs one"
        )
    if not re.fullmatch("[A-Z]{3,8}", spec.currency):
        raise ConfigError(
            f"currency: expected a code such as USD, CNY or USDT, was {spec.currency!r}"
        )

    trading_hours(spec.calendar)
    rows, report = read_files(spec, base, is_new=True)
    info = DatasetInfo(
        spec.name,
        spec.synthetic,
        "",
        _NO_DAY,
        _NO_DAY,
        _NO_DAY,
        _NO_DAY,
        moment,
        spec.calendar,
        spec.currency,
    )

    return save_dataset(folder, rows.prices, rows.events, rows.news, info), report


def ingest_update(
    spec: IngestSpec, base: Path, folder: Path, *, replace: bool = False
) -> tuple[UpdateReport, IngestReport]:
    """Add the files of a spec to a dataset folder. Raises the same errors as `read_files` and
    `update_dataset`.
    """
    rows, report = read_files(spec, base)
    return update_dataset(folder, rows, replace=replace), report


def _default_as_of(spec: IngestSpec) -> int | None:
    """Return the spec's default clock start, or None."""
    if spec.default_as_of is None:
        return None

    moment = moment_of(spec.default_as_of)
    if moment is None:
        raise ConfigError("default_as_of: expected a moment such as 2025-01-06T21:00:00Z")
    return moment
