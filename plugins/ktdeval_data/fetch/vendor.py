"""Vendors as data: the requests to a vendor for each table of a market, and their plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from ktdeval.fields import build
from ktdeval.jsonio import JsonValue
from ktdeval.yamlio import load_yaml


@dataclass(frozen=True)
class Table:
    """Requests to a vendor for one table; the fields are explained in `vendors.yaml`."""

    api: str
    over: Literal["once", "weeks", "months", "codes"]
    params: Mapping[str, str]
    columns: Mapping[str, str]
    each: tuple[Mapping[str, str], ...] = ({},)
    scale: Mapping[str, float] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    stamps: Literal["ms", "iso"] | None = None
    years: int | None = None
    days: int | None = None
    sparse: bool = False


@dataclass(frozen=True)
class Vendor:
    """A source of market data."""

    words: str  #: its name in words
    days: str  #: how it writes days, as of `strftime`
    per_minute: int  #: most requests a minute, unless the user says otherwise
    tables: Mapping[str, Table]
    notes: tuple[str, ...] = ()  #: how its answers are read, for the snapshot
    endpoint: str | None = None  #: base URL; None where a library knows it


@dataclass(frozen=True)
class Request:
    """One call of a vendor."""

    api: str
    params: Mapping[str, str]
    code: str = ""  #: the code that it is about, `600519.SH`; that of the index where it is about all
    first: date = date.min  #: first day that it is about


@dataclass(frozen=True)
class Answer:
    """A table as received from the vendor."""

    columns: Sequence[str]
    rows: Sequence[Sequence[JsonValue]]


class Transport(Protocol):
    """Client of a vendor."""

    secrets: tuple[str, ...]  #: texts that must not be shown or stored

    def call(self, request: Request) -> Answer:
        """Make a call. Raises ModelError: it may succeed later (its kind says why); DataError or UsageError: it can't."""


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return the known vendors by name."""
    entries = load_yaml(Path(__file__).with_name("vendors.yaml"))
    return {name: build(Vendor, entry, f"vendors.yaml: {name}") for name, entry in entries.items()}


def plan(vendor: Vendor, table: Table, codes: Sequence[str], first: date, last: date, exchange: str = "") -> Iterator[Request]:
    """Requests for a table: of the days `first` to `last`, both included, and the assets `codes` (or the index alone)."""
    for code in codes:
        digits, _, suffix = code.partition(".")
        for start, end in _spans(table, first, last):
            words = {"first": start.strftime(vendor.days), "last": end.strftime(vendor.days), "exchange": exchange}
            words |= {"first_ms": str(_milliseconds(start)), "last_ms": str(_milliseconds(end + timedelta(days=1)) - 1)}
            words |= {"code": code, "dashed": code.replace(".", "-"), "digits": digits, "EX": suffix, "ex": suffix.lower()}
            for more in table.each:
                params = {name: text.format_map(words) for name, text in {**table.params, **more}.items()}
                yield Request(table.api, params, code, start)


def _spans(table: Table, first: date, last: date) -> Iterator[tuple[date, date]]:
    if table.over == "weeks":
        monday = first + timedelta(days=7 - first.weekday())
        for start in (first, *(monday + timedelta(days=7 * week) for week in range((last - monday).days // 7 + 1))):
            yield start, start
    elif table.over == "months":
        start = (first.replace(day=1) - timedelta(days=1)).replace(day=1)
        while start <= last:
            following = (start + timedelta(days=32)).replace(day=1)
            yield start, min(last, following - timedelta(days=1))
            start = following
    else:
        while (following := _after(first, table)) <= last:
            yield first, following - timedelta(days=1)
            first = following
        yield first, last


def _after(first: date, table: Table) -> date:
    """First day of the span after the one that begins on `first`; 1 March for spans of years from 29 February."""
    if table.years is None:
        return first + timedelta(days=table.days) if table.days else date.max
    leap = timedelta(days=(first.month, first.day) == (2, 29))
    return (first + leap).replace(year=first.year + table.years)


def _milliseconds(day: date) -> int:
    """Start of a day of UTC, since 1970."""
    return (day - date(1970, 1, 1)).days * 86_400_000
