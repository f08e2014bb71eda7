"""From files of tables to rows: each field read as what it is, each row by the rules of its kind, each key once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from ktdeval_qfinzero.data.blocks import Problems
from ktdeval_qfinzero.data.folder import row_checks
from ktdeval_qfinzero.data.ingest_files import Number, Record, plain_json, read_json, records_of, source_of, sources_of
from ktdeval_qfinzero.data.ingest_spec import TableSource
from ktdeval_qfinzero.data.ingest_values import moment_of, price_e4
from ktdeval_qfinzero.data.layout import EVENTS, NEWS, table_key
from ktdeval_qfinzero.data.rows import (
    CALENDAR_TYPES,
    IMPORTANCE,
    NEWS_TYPES,
    TENOR_YEARS,
    BorrowRow,
    ContractRow,
    DividendRow,
    EventRow,
    Market,
    NewsRow,
    RateRow,
    Release,
    SplitRow,
    SymbolRow,
)
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import read_contract
from ktdeval_qfinzero.moments import parse_day

Kind = Literal["symbols", "contracts", "rates", "dividends", "splits", "borrow", "events", "news"]
Choice = TypeVar("Choice", bound=str)
Value = TypeVar("Value")

_WHOLE = re.compile(r"[0-9]{1,16}")
_DECIMAL = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?")
_MOMENT = "a moment such as 2025-01-06T14:30:00Z, or nanoseconds since 1970"
_NO_DAY = date(1970, 1, 1)
_REQUIRED: Any = object()


class Fields:
    """The fields of one row, each read as what it is to be. A field that is not becomes a problem, and its value a stand-in.

    Args:
        values: of the row.
        tell: what is told a field and what was expected of it.
        rounded: whether amounts of more than four decimals are rounded.
        source: name of a source where the row has none.
    """

    def __init__(self, values: Mapping[str, Any], tell: Callable[[str, str], None], rounded: bool, source: str) -> None:
        self._values = values
        self._tell = tell
        self._rounded = rounded
        self.source = source
        self._told: set[str] = set()

    @property
    def sound(self) -> bool:
        """Whether every field so far was what it should be."""
        return not self._told

    def text(self, name: str, default: str = _REQUIRED) -> str:
        """A text."""
        value = self._values.get(name, "")
        if not isinstance(value, str) or isinstance(value, Number):
            return self._wrong(name, "text", "")
        if value == "" and default is _REQUIRED:
            return self._wrong(name, "text", "")
        return value or default

    def choice(self, name: str, among: tuple[Choice, ...], default: Choice = _REQUIRED) -> Choice:
        """One of some words."""
        value = self.text(name, "" if default is _REQUIRED else default)
        found = next((word for word in among if word == value), None)
        return self._wrong(name, f"one of {', '.join(among)}", among[0]) if found is None else found

    def moment(self, name: str) -> int:
        """A moment in nanoseconds."""
        value = self._values.get(name, "")
        ns = moment_of(value) if isinstance(value, str) else None
        return self._wrong(name, _MOMENT, 0) if ns is None else ns

    def day(self, name: str) -> date:
        """A calendar day."""
        value = self._values.get(name, "")
        try:
            return parse_day(value if isinstance(value, str) else "", name)
        except ServiceError:
            return self._wrong(name, "a day such as 2025-01-06", _NO_DAY)

    def amount_e4(self, name: str) -> int:
        """Dollars, in ten-thousandths."""
        value = self._values.get(name, "")
        amount = price_e4(value, rounded=self._rounded) if isinstance(value, str) else None
        return self._wrong(name, "dollars with at most four decimals, such as 0.25", 1) if amount is None else amount

    def whole(self, name: str) -> int:
        """A whole number from 0."""
        value = self._values.get(name, "")
        good = isinstance(value, str) and _WHOLE.fullmatch(value)
        return int(value) if good else self._wrong(name, "a whole number from 0", 0)

    def number(self, name: str) -> float | None:
        """A number; None where there is nothing."""
        value = self._values.get(name, "")
        if value == "":
            return None
        good = isinstance(value, str) and _DECIMAL.fullmatch(value)
        return float(value) if good else self._wrong(name, "a number", 0.0)

    def flag(self, name: str) -> bool:
        """True or false; false where there is nothing."""
        value = self._values.get(name, "")
        words = {True: True, False: False, "true": True, "false": False, "": False}
        good = isinstance(value, (bool, str)) and value in words
        return words[value] if good else self._wrong(name, "true or false", False)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; in CSV with semicolons between them."""
        value = self._values.get(name, [])
        if isinstance(value, str) and not isinstance(value, Number) and not value.startswith("["):
            return tuple(part.strip() for part in value.split(";") if part.strip())
        items = self._json(name, value)
        good = isinstance(items, list) and all(isinstance(item, str) for item in items)
        return tuple(items) if good else self._wrong(name, "a list of texts", ())

    def mapping(self, name: str) -> dict[str, Any]:
        """A JSON object; in CSV its text."""
        value = self._values.get(name, "")
        found = {} if value == "" else self._json(name, value)
        return found if isinstance(found, dict) else self._wrong(name, "a JSON object", {})

    def mappings(self, name: str) -> list[dict[str, Any]]:
        """A list of JSON objects; in CSV its text."""
        value = self._values.get(name, "")
        found = [] if value == "" else self._json(name, value)
        good = isinstance(found, list) and all(isinstance(item, dict) for item in found)
        return found if good else self._wrong(name, "a list of JSON objects", [])

    def text_mapping(self, name: str, keys: tuple[str, ...]) -> dict[str, str]:
        """A JSON object of texts under some keys."""
        return self._texts_only(name, self.mapping(name), keys)

    def text_mappings(self, name: str, keys: tuple[str, ...]) -> tuple[Mapping[str, str], ...]:
        """A list of JSON objects of texts under some keys."""
        return tuple(self._texts_only(name, found, keys) for found in self.mappings(name))

    def releases(self, name: str) -> tuple[Release, ...]:
        """Releases: objects of `available` and `values`, oldest first."""
        found = []
        for item in self.mappings(name):
            ns = moment_of(str(item.get("available", "")))
            if item.keys() != {"available", "values"} or ns is None or not isinstance(item["values"], dict):
                return self._wrong(name, "objects of available (a moment) and values (a JSON object)", ())
            found.append(Release(ns, item["values"]))
        return tuple(found)

    def wrong(self, name: str, expected: str) -> None:
        """Note that a field is not what it should be."""
        self._wrong(name, expected, None)

    def _texts_only(self, name: str, found: dict[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
        if found.keys() <= set(keys) and all(isinstance(text, str) for text in found.values()):
            return found
        return self._wrong(name, f"texts under {', '.join(keys)}", {})

    def _json(self, name: str, value: Any) -> Any:
        try:
            return plain_json(read_json(value) if isinstance(value, str) and not isinstance(value, Number) else value)
        except ValueError:
            return self._wrong(name, "JSON", None)

    def _wrong(self, name: str, expected: str, stand_in: Value) -> Value:
        if name not in self._told:
            self._told.add(name)
            value = self._values.get(name, "")
            was = "nothing" if value == "" else ascii(str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}…")
            self._tell(name, f"{expected}, was {was}")
        return stand_in


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a table are written in files.

    Attributes:
        required: fields that each row has.
        optional: fields that it may have.
        make: gives the row.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[Fields], Any]


def _symbol(row: Fields) -> SymbolRow:
    asset_class: Literal["stock", "crypto"] = row.choice("asset_class", ("stock", "crypto"))
    listed = row.moment("listed")
    return SymbolRow(row.text("symbol"), asset_class, row.text("name"), row.text("sector", ""), listed, row.flag("has_options"))


def _contract(row: Fields) -> ContractRow | None:
    symbol, listed_ns = row.text("symbol"), row.moment("listed")
    contract = read_contract(symbol)
    if contract is None:
        row.wrong("symbol", "an OPRA symbol such as O:AVLN250221P00225000")
        return None
    return ContractRow(symbol, contract.underlying, contract.expiry, contract.strike_e4, contract.right, listed_ns)


def _rate(row: Fields) -> RateRow:
    yields = {tenor: row.number(tenor) for tenor in TENOR_YEARS}
    return RateRow(row.day("day"), {tenor: pct for tenor, pct in yields.items() if pct is not None}, row.moment("available"))


def _dividend(row: Fields) -> DividendRow:
    return DividendRow(row.text("symbol"), row.day("ex_day"), row.day("pay_day"), row.amount_e4("amount"), row.moment("declared"))


def _split(row: Fields) -> SplitRow:
    return SplitRow(row.text("symbol"), row.day("ex_day"), row.whole("new"), row.whole("old"), row.moment("announced"))


def _borrow(row: Fields) -> BorrowRow:
    return BorrowRow(row.text("symbol"), row.moment("available"), row.whole("shares"), row.whole("fee_bps_per_year"))


def _event(row: Fields) -> EventRow:
    return EventRow(
        event_id=row.text("event_id"),
        event_type=row.choice("event_type", CALENDAR_TYPES),
        title=row.text("title"),
        time_ns=row.moment("time"),
        announced_ns=row.moment("announced"),
        importance=row.choice("importance", IMPORTANCE),
        tickers=row.texts("tickers"),
        country=row.text("country", "US"),
        market=row.choice("market", get_args(Market), "us"),
        expected=row.mapping("expected"),
        releases=row.releases("releases"),
        source=row.text("source", row.source),
    )


def _article(row: Fields) -> NewsRow:
    return NewsRow(
        id=row.text("id"),
        event_type=row.choice("event_type", NEWS_TYPES),
        title=row.text("title"),
        published_ns=row.moment("published"),
        importance=row.choice("importance", IMPORTANCE),
        tickers=row.texts("tickers"),
        description=row.text("description", ""),
        body=row.text("body", ""),
        article_url=row.text("article_url", ""),
        author=row.text("author", ""),
        publisher=row.text_mapping("publisher", ("name", "homepage_url", "logo_url")),
        market=row.choice("market", get_args(Market), "us"),
        keywords=row.texts("keywords"),
        image_url=row.text("image_url", ""),
        insights=row.text_mappings("insights", ("ticker", "sentiment", "reasoning")),
        source=row.text("source", row.source),
    )


FORMS: Mapping[Kind, Form] = {
    "symbols": Form(("symbol", "asset_class", "name", "listed"), ("sector", "has_options"), _symbol),
    "contracts": Form(("symbol", "listed"), (), _contract),
    "rates": Form(("day", "available"), tuple(TENOR_YEARS), _rate),
    "dividends": Form(("symbol", "ex_day", "pay_day", "amount", "declared"), (), _dividend),
    "splits": Form(("symbol", "ex_day", "new", "old", "announced"), (), _split),
    "borrow": Form(("symbol", "available", "shares", "fee_bps_per_year"), (), _borrow),
    "events": Form(
        ("event_id", "event_type", "title", "time", "announced", "importance"),
        ("tickers", "country", "market", "expected", "releases", "source"),
        _event,
    ),
    "news": Form(
        ("id", "event_type", "title", "published", "importance"),
        (
            "tickers", "description", "body", "article_url", "author", "publisher", "market", "keywords", "image_url", "insights",
            "source",
        ),
        _article,
    ),
}  # fmt: skip


@dataclass(slots=True)
class RowReader:
    """Collects the rows of all tables.

    Attributes:
        base: folder that paths are relative to.
        problems: where bad rows go.
        rounded: whether amounts of more than four decimals are rounded.
        source: of events and articles that name none.
        files: names of the files read so far.
        duplicates: rows that said again what another one said.
    """

    base: Path
    problems: Problems
    rounded: bool
    source: str
    files: list[str] = field(default_factory=list)
    duplicates: int = 0
    _rows: dict[Kind, dict[Any, tuple[Any, str]]] = field(default_factory=dict)

    def read(self, kind: Kind, spec: TableSource) -> None:
        """Read the files of a source.

        Raises:
            ConfigError: there is no such file, or the user maps something that is no field.
        """
        form = FORMS[kind]
        for file in sources_of(self.base, spec.file):
            source = source_of(file, form.required + form.optional, form.required, spec)
            self.files.append(source.name)
            for record in records_of(source, self.problems):
                self._take(kind, f"{source.name}:{record.line}", record)

    def rows(self, kind: Kind) -> list[Any]:
        """All rows of a table that were read."""
        return [row for row, _ in self._rows.get(kind, {}).values()]

    def _take(self, kind: Kind, place: str, record: Record) -> None:
        def tell(name: str, expected: str) -> None:
            self.problems.add(f"{place}: {name}: expected {expected}")

        fields = Fields(record.values, tell, self.rounded, self.source)
        row = FORMS[kind].make(fields)
        if not fields.sound:
            return
        fault_of, key_of = row_checks()[_check_name(kind)]
        fault = fault_of(row)
        if fault is not None:
            tell(fault.field, fault.expected)
            return
        held = self._rows.setdefault(kind, {})
        before = held.setdefault(key_of(row), (row, place))
        if before[1] != place and before[0] == row:
            self.duplicates += 1
        elif before[1] != place:
            tell("row", f"each key once: {place} says something else than {before[1]}")


def _check_name(kind: Kind) -> str:
    return {"events": EVENTS, "news": NEWS}.get(kind) or table_key(cast(Any, kind))
