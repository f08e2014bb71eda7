"""Tables of a market file, declared in `schema.yaml`: conversion of their rows to DuckDB columns
and back, and detection of rows that break a rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from operator import attrgetter
from pathlib import Path
from string import Template
from typing import Any, Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktdeval.values import JsonValue, content_hash, dumps_canonical, loads_strict, parse_yaml
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    TENOR_YEARS,
    AssetClass,
    Bars,
    BorrowRow,
    ContractRow,
    DealRow,
    DividendRow,
    EventRelease,
    EventRow,
    NewsRow,
    RateRow,
    Resolution,
    SplitRow,
    SymbolRow,
    known_moments,
    within_int64,
    words,
)

TableName = Literal[
    "symbols", "contracts", "rates", "dividends", "splits", "borrow", "deals", "events", "news"
]
_LONGEST_FACT = 2_000


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """Kind of a column. `to_cell` raises ValueError with the expected form; it is None if values
    already are cells.
    """

    sql: str  #: type in DuckDB
    arrow: pa.DataType
    to_cell: Callable[[Any], Any] | None = None
    from_cell: Callable[[Any], Any] | None = None


def _to_texts(value: Iterable[str]) -> list[str]:
    texts = list(value)
    if not all(isinstance(text, str) and len(text) <= _LONGEST_FACT for text in texts):
        raise ValueError(f"texts of at most {_LONGEST_FACT} characters")
    return texts


def _check_facts(value: Mapping[str, str]) -> dict[str, str]:
    _to_texts(value.values())
    return dict(value)


def _to_facts(value: Mapping[str, str]) -> str:
    return _to_json(_check_facts(value))


def _to_facts_list(value: Iterable[Mapping[str, str]]) -> str:
    return _to_json([_check_facts(facts) for facts in value])


def _from_facts_list(cell: str) -> tuple[Mapping[str, str], ...]:
    facts: Any = loads_strict(cell)
    return tuple(facts)


def _to_json(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        value = dict(value)

    text = dumps_canonical(value)
    if loads_strict(text) != value:
        raise ValueError("plain JSON: no tuples, and keys that are texts")
    return text


def _to_releases(value: Iterable[EventRelease]) -> str:
    return _to_json([[release.available_ns, dict(release.values)] for release in value])


def _from_releases(cell: str) -> tuple[EventRelease, ...]:
    pairs: Any = loads_strict(cell)
    return tuple(EventRelease(available_ns, values) for available_ns, values in pairs)


def _to_curve(value: Mapping[str, float]) -> list[tuple[str, float]]:
    known = [(tenor, value[tenor]) for tenor in TENOR_YEARS if tenor in value]
    others = [pair for pair in value.items() if pair[0] not in TENOR_YEARS]
    return known + others


#: Nested values are JSON strings unless queries look into them, since DuckDB's maps are slow to
#: read.
KINDS: Mapping[str, ColumnKind] = {
    "text": ColumnKind("VARCHAR", pa.string()),
    "whole": ColumnKind("BIGINT", pa.int64(), within_int64),
    "number": ColumnKind("INTEGER", pa.int32()),
    "decimal": ColumnKind("DOUBLE", pa.float64()),
    "flag": ColumnKind("BOOLEAN", pa.bool_()),
    "day": ColumnKind("DATE", pa.date32()),
    "texts": ColumnKind("VARCHAR[]", pa.list_(pa.string()), _to_texts, tuple),
    "wholes": ColumnKind("BIGINT[]", pa.list_(pa.int64())),
    "curve": ColumnKind(
        "MAP(VARCHAR, DOUBLE)", pa.map_(pa.string(), pa.float64()), _to_curve, dict
    ),
    "facts": ColumnKind("VARCHAR", pa.string(), _to_facts, loads_strict),
    "facts_list": ColumnKind("VARCHAR", pa.string(), _to_facts_list, _from_facts_list),
    "json": ColumnKind("VARCHAR", pa.string(), _to_json, loads_strict),
    "releases": ColumnKind("VARCHAR", pa.string(), _to_releases, _from_releases),
}

_SEARCHED: Mapping[str, Callable[[Any], Any]] = {
    "released_ns": lambda row: [within_int64(each.available_ns) for each in row.releases],
    "known_ns": lambda row: [within_int64(moment) for moment in known_moments(row)],
    "publisher_name": lambda row: row.publisher.get("name", "").casefold(),
    "words": lambda row: f" {' '.join(dict.fromkeys(words(_searched_text(row))))} ",
}


def _searched_text(row: EventRow | NewsRow) -> str:
    if isinstance(row, EventRow):
        return row.title
    return f"{row.title} {row.description} {row.body}"


_ROWS: Mapping[TableName, type[Any]] = {
    "symbols": SymbolRow,
    "contracts": ContractRow,
    "rates": RateRow,
    "dividends": DividendRow,
    "splits": SplitRow,
    "borrow": BorrowRow,
    "deals": DealRow,
    "events": EventRow,
    "news": NewsRow,
}


@dataclass(frozen=True, slots=True)
class RowRule:
    """Rule for a row."""

    field: str  #: field named in messages
    expected: str  #: expected form of the field
    holds: str  #: condition in SQL


@dataclass(frozen=True, slots=True)
class Fault:
    """Row that breaks a rule, given by its number among the checked rows."""

    number: int
    field: str
    expected: str


@dataclass(frozen=True, slots=True)
class MarketTable:
    """Table in a market file."""

    name: str
    columns: Mapping[str, ColumnKind]  #: fields of the rows, in order
    search: Mapping[str, ColumnKind]  #: columns computed from the fields
    key: tuple[str, ...]  #: columns that identify rows and by which rows are sorted
    rules: tuple[RowRule, ...]

    @property
    def row(self) -> type[Any]:
        """Class of the rows."""
        return _ROWS[self.name]  # type: ignore[index]

    def key_of(self, row: Any) -> tuple[Any, ...]:
        """Return the key of a row."""
        return tuple(getattr(row, name) for name in self.key)

    @property
    def order(self) -> str:
        """Columns by which rows are sorted."""
        return ", ".join(map(_quote, self.key))

    def create(self, schema: str) -> str:
        """Return the statement that creates the table, with its rules as CHECK constraints."""
        lines: list[str] = []
        for name, kind in {**self.columns, **self.search}.items():
            lines.append(f"{_quote(name)} {kind.sql} NOT NULL")
        for rule in self.rules:
            lines.append(f"CHECK ({rule.holds})")

        return f"CREATE TABLE {schema}.{self.name} ({', '.join(lines)})"

    def arrow(self, rows: Sequence[Any]) -> pa.Table:
        """Return rows as an Arrow table. Raises ValueError, TypeError, AttributeError or
        pa.ArrowException if a value is of another kind.
        """
        cells: dict[str, pa.Array] = {}
        for name, kind in self.columns.items():
            values = map(attrgetter(name), rows)
            if kind.to_cell is not None:
                values = map(kind.to_cell, values)
            cells[name] = pa.array(list(values), kind.arrow)

        for name, kind in self.search.items():
            cells[name] = pa.array(list(map(_SEARCHED[name], rows)), kind.arrow)

        return pa.table(cells)

    def rows_of(self, cells: Iterable[Sequence[Any]]) -> list[Any]:
        """Convert cells, in the order of `columns`, to rows."""
        decoders = [kind.from_cell for kind in self.columns.values()]
        if not any(decoders):
            return [self.row(*row) for row in cells]
        return [self.row(*map(_decode_cell, decoders, row)) for row in cells]

    def select(self, schema: str, clauses: str = "") -> str:
        """Return a query for rows, sorted by the key unless `clauses` say otherwise."""
        names = ", ".join(map(_quote, self.columns))
        return f"SELECT {names} FROM {schema}.{self.name} {clauses or f'ORDER BY {self.order}'}"  # noqa: S608 - constants

    def faults(self, rows: Sequence[Any]) -> tuple[list[Fault], pa.Table]:
        """Return the rows that break a rule, each with the first rule that it breaks, and a table
        of the well-formed rows with their numbers.
        """
        try:
            table = self.arrow(rows)
            kept = list(range(len(rows)))
            faults: list[Fault] = []
        except _MALFORMED:
            faults = [fault for number, row in enumerate(rows) for fault in self._form(number, row)]
            malformed = {fault.number for fault in faults}
            kept = [number for number in range(len(rows)) if number not in malformed]
            table = self.arrow([rows[number] for number in kept])

        numbered = table.append_column("row_number", pa.array(kept, pa.int64()))
        with memory() as connection:
            connection.register("given", numbered)
            faults += self.broken(connection, "given", "row_number")

        return sorted(faults, key=lambda fault: fault.number), table

    def broken(
        self, connection: duckdb.DuckDBPyConnection, source: str, number: str = "rowid"
    ) -> list[Fault]:
        """Return the rows of a stored or registered table that break a rule."""
        found = connection.execute(
            f"SELECT * FROM (SELECT {number}, {first_broken(self.rules)} AS rule FROM {source})"  # noqa: S608 - constants
            " WHERE rule IS NOT NULL ORDER BY 1"
        ).fetchall()
        return [
            Fault(row, self.rules[rule].field, self.rules[rule].expected) for row, rule in found
        ]

    def _form(self, number: int, row: Any) -> Iterator[Fault]:
        """Yield the first field of a row whose value does not have the type of its column."""
        for name, kind in self.columns.items():
            try:
                cell = getattr(row, name)
                if kind.to_cell is not None:
                    cell = kind.to_cell(cell)
                pa.array([cell], kind.arrow)
            except _MALFORMED as error:
                expected = " ".join(str(error).split())[:200]
                if isinstance(error, UnicodeEncodeError):
                    expected = "text without half a surrogate pair"
                yield Fault(number, name.removesuffix("_ns").removesuffix("_e4"), expected)
                return

    def content(self, rows: Iterable[Any]) -> str:
        """Return the SHA-256 of rows that are sorted by their keys."""
        if not self.search:
            values: list[JsonValue] = []
            for row in rows:
                values.append([_plain(getattr(row, name)) for name in self.columns])
            return content_hash(values)

        digest = hashlib.sha256()
        for row in rows:
            record: dict[str, JsonValue] = {}
            for name in self.columns:
                record[name] = _plain(getattr(row, name))
            digest.update(f"{dumps_canonical(record)}\n".encode())

        return digest.hexdigest()


_MALFORMED = (ValueError, TypeError, AttributeError, OverflowError, pa.ArrowException)


def _decode_cell(decode: Callable[[Any], Any] | None, cell: Any) -> Any:
    return cell if decode is None else decode(cell)


def _plain(value: Any) -> JsonValue:
    """Return a field as JSON, in the form that is hashed."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, EventRelease):
        return [value.available_ns, dict(value.values)]
    return dict(value) if isinstance(value, Mapping) else value


def _quote(name: str) -> str:
    return f'"{name}"'


@cache
def _read_schema() -> Mapping[str, Any]:
    path = Path(__file__).with_name("schema.yaml")
    return parse_yaml(path.read_bytes(), str(path))


def fill_words(text: str) -> str:
    """Replace each `$word` in a text by the schema's words for it."""
    return Template(text).substitute(_read_schema()["words"])


def _rules(declared: Iterable[Sequence[str]]) -> tuple[RowRule, ...]:
    return tuple(RowRule(*map(fill_words, rule)) for rule in declared)


def first_broken(rules: Iterable[RowRule]) -> str:
    """Return the expression for the number of the first rule that a row breaks, or NULL if it
    breaks no rule.
    """
    cases: list[str] = []
    for place, rule in enumerate(rules):
        cases.append(f"WHEN NOT coalesce({rule.holds}, false) THEN {place}")

    return f"CASE {' '.join(cases)} END"


def _table(name: str, declared: Mapping[str, Any]) -> MarketTable:
    columns = {column: KINDS[kind] for column, kind in declared["columns"].items()}
    search = {column: KINDS[kind] for column, kind in declared.get("search", {}).items()}
    key = tuple(declared.get("key", ()))
    return MarketTable(name, columns, search, key, _rules(declared["rules"]))


TABLES: Mapping[TableName, MarketTable] = {
    name: _table(name, declared) for name, declared in _read_schema()["tables"].items()
}
BARS = _table("bars", _read_schema()["bars"])
SERIES = (
    "CREATE TABLE {}.series (series INTEGER NOT NULL, asset_class VARCHAR NOT NULL, resolution "
    "VARCHAR NOT NULL, owner VARCHAR NOT NULL, symbol VARCHAR NOT NULL, first_ns BIGINT NOT "
    "NULL, last_ns BIGINT NOT NULL)"
)


def create_tables(connection: duckdb.DuckDBPyConnection, schema: str) -> None:
    """Create all tables, empty."""
    connection.execute(SERIES.format(schema))
    for table in (BARS, *TABLES.values()):
        connection.execute(table.create(schema))


def memory() -> duckdb.DuckDBPyConnection:
    """Return a new in-memory database that can't reach files. It has one thread, so that a fork
    leaves no other thread behind.
    """
    return duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False})


@dataclass(frozen=True, slots=True, eq=False)
class BrokenRule:
    """A rule, and the bars that break it."""

    field: str  #: column
    expected: str  #: rule for the values of a bar
    bad: npt.NDArray[np.bool_]  #: [n] whether each bar breaks the rule


def bars_table(bars: Bars, series: npt.NDArray[np.int32] | None = None) -> pa.Table:
    """Return bars as an Arrow table, with their series as the first column."""
    if series is None:
        series = np.zeros(len(bars), np.int32)

    arrays = [pa.array(np.ascontiguousarray(column)) for column in (series, *bars.columns())]
    return pa.table(dict(zip(("series", *BAR_COLUMNS), arrays, strict=True)))


@cache
def bar_rules(asset_class: AssetClass, resolution: Resolution) -> tuple[RowRule, ...]:
    """Return the rules for single bars."""
    declared = _read_schema()
    own = [declared[f"{resolution}_bars"]]
    if asset_class != "crypto":  # crypto assets trade in fractions
        own.append(declared["whole_bars"])
    first, *others = _rules(own)
    return (first, *BARS.rules, *others)


def broken_rules(bars: Bars, asset_class: AssetClass, resolution: Resolution) -> list[BrokenRule]:
    """Return the rules for single bars that are broken."""
    rules = bar_rules(asset_class, resolution)
    broken = [f"NOT coalesce({rule.holds}, false)" for rule in rules]
    with memory() as connection:
        connection.register("bars", bars_table(bars))
        statement = f"SELECT count(*) FROM bars WHERE {' OR '.join(broken)}"  # noqa: S608 - constants
        if connection.execute(statement).fetchall() == [(0,)]:
            return []

        columns = [f"{condition} AS rule_{place}" for place, condition in enumerate(broken)]
        found = connection.execute(f"SELECT {', '.join(columns)} FROM bars").fetchnumpy()  # noqa: S608 - constants

    rules_broken: list[BrokenRule] = []
    for place, rule in enumerate(rules):
        bad = np.asarray(found[f"rule_{place}"], bool)
        if bad.any():
            rules_broken.append(BrokenRule(rule.field, rule.expected, bad))

    return rules_broken
