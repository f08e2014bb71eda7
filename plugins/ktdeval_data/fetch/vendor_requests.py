"""Vendors described as data: the requests for each table of a market, the request plan, and the
responses.

Each request is made once, within the vendor's limits. Its response is kept as received, so that a
fetch can resume.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from ktdeval.calls import RetryPolicy, one_line, wait_text
from ktdeval.cards import count
from ktdeval.errors import DataError, ModelError
from ktdeval.secrets import hide_keys
from ktdeval.values import (
    Address,
    JsonValue,
    build,
    content_hash,
    dumps_canonical,
    load_yaml,
    loads_strict,
    make_folder,
    read_plain,
    write_atomic,
)


@dataclass(frozen=True)
class VendorTable:
    """Requests to a vendor for one table. The fields are explained in `vendors.yaml`."""

    api: str
    over: Literal["once", "weeks", "months", "codes"]
    params: Mapping[str, str]
    columns: Mapping[str, str]
    each: tuple[Mapping[str, str], ...] = ({},)
    scale: Mapping[str, float] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    stamps: Literal["ms", "iso"] | None = None
    zone: str | None = None
    years: int | None = None
    days: int | None = None
    sparse: bool = False
    daily: bool = False


@dataclass(frozen=True)
class Vendor:
    """A source of market data."""

    words: str  #: the vendor's name as shown to users
    days: str  #: the vendor's date format, as in `strftime`
    per_minute: int  #: maximum number of requests per minute, unless the user sets another
    tables: Mapping[str, VendorTable]
    notes: tuple[str, ...] = ()  #: notes for the snapshot on how the vendor's responses are read
    endpoint: Address | None = None  #: base URL; None if only the vendor's library knows it


@dataclass(frozen=True)
class VendorRequest:
    """One call to a vendor."""

    api: str
    params: Mapping[str, str]
    #: code requested, such as `600519.SH`; the code of the index if the request covers all members
    code: str = ""
    first: date = date.min  #: first day requested
    last: date = date.max  #: last day requested


@dataclass(frozen=True)
class VendorAnswer:
    """A table as received from the vendor."""

    columns: Sequence[str]
    rows: Sequence[Sequence[JsonValue]]


class VendorTransport(Protocol):
    """Client of a vendor."""

    secrets: tuple[str, ...]  #: secrets that must not be shown or stored
    takes_endpoint: bool  #: whether the vendor's address is an option, and so may be wrong

    def call(self, request: VendorRequest) -> VendorAnswer:
        """Make a call. Raises ModelError, whose kind gives the reason, if the call may succeed
        later; DataError or UsageError if it can't.
        """


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return the known vendors, keyed by name."""
    entries = load_yaml(Path(__file__).with_name("vendors.yaml"))
    return {name: build(Vendor, entry, f"vendors.yaml: {name}") for name, entry in entries.items()}


def plan(
    vendor: Vendor,
    table: VendorTable,
    codes: Sequence[str],
    first: date,
    last: date,
    exchange: str = "",
) -> Iterator[VendorRequest]:
    """Yield the requests for a table, for the days from `first` to `last` inclusive and for the
    assets `codes` (or only for the index).
    """
    for code in codes:
        for span in _spans(table, first, last):
            for more in table.each:
                yield request_of(vendor, table, code, span, exchange, more)


def request_of(
    vendor: Vendor,
    table: VendorTable,
    code: str,
    span: tuple[date, date],
    exchange: str = "",
    more: Mapping[str, str] | None = None,
) -> VendorRequest:
    """Return the request for a code on the days in `span`, both ends inclusive. `more`: one of the
    table's `each` entries.
    """
    start, end = span
    digits, _, suffix = code.partition(".")
    day_before = start - timedelta(days=1)
    day_after = end + timedelta(days=1)
    words = {
        "first": start.strftime(vendor.days),
        "last": end.strftime(vendor.days),
        "before_ms": str(_milliseconds(day_before)),
        "last_ms": str(_milliseconds(day_after) - 1),
        "exchange": exchange,
        "code": code,
        "dashed": code.replace(".", "-"),
        "digits": digits,
        "EX": suffix,
        "ex": suffix.lower(),
    }
    texts = {**table.params, **(more or {})}
    params = {name: text.format_map(words) for name, text in texts.items()}

    return VendorRequest(table.api, params, code, start, end)


def _spans(table: VendorTable, first: date, last: date) -> Iterator[tuple[date, date]]:
    if table.over == "weeks":
        monday = first + timedelta(days=7 - first.weekday())
        for start in (
            first,
            *(monday + timedelta(days=7 * week) for week in range((last - monday).days // 7 + 1)),
        ):
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


def _after(first: date, table: VendorTable) -> date:
    """Return the first day of the span that follows the one beginning on `first`. If a span
    measured in years began on 29 February, the next one begins on 1 March.
    """
    if table.years is None:
        return first + timedelta(days=table.days) if table.days else date.max
    leap = timedelta(days=(first.month, first.day) == (2, 29))
    return (first + leap).replace(year=first.year + table.years)


def _milliseconds(day: date) -> int:
    """Return the start of a UTC day, in milliseconds since 1970."""
    return (day - date(1970, 1, 1)).days * 86_400_000


LOG = "log.jsonl"
_RETRIES = 8
_MAX_WAIT_S = 1800.0
_REPORT_EVERY = 100  # number of requests between progress reports


class AnswerFolder:
    """Folder that keeps a vendor's responses, and the client that requests missing ones."""

    def __init__(
        self,
        vendor: str,
        folder: Path,
        connect: Callable[[], VendorTransport],
        per_minute: int,
        tell: Callable[[str], None] = print,
    ) -> None:
        """Keep the responses of `vendor` in `folder`. `connect` is called when the first response
        is missing; `tell` reports the progress.

        Raises StoreError if the folder can't be made.
        """
        make_folder(folder)
        self._vendor, self._folder, self._connect, self._tell = vendor, folder, connect, tell
        self._transport: VendorTransport | None = None
        self._pause_s, self._next_at = 60.0 / per_minute, 0.0
        self.asked, self.kept = 0, 0

    def ask(self, request: VendorRequest) -> VendorAnswer:
        """Return the response to a request, from the folder if it is there.

        Raises DataError if the vendor refuses or does not respond after all attempts, or if a
        stored response is unreadable; UsageError if a library or key is missing; StoreError if the
        disk is full.
        """
        key: dict[str, JsonValue] = {
            "vendor": self._vendor,
            "api": request.api,
            "params": dict(request.params),
        }
        api = request.api.replace("/", "-")
        path = self._folder / f"{self._vendor}-{api}-{content_hash(key)[:20]}.json"
        if path.exists():
            self.kept += 1
            return self._read(path)

        if not self._transport:
            self._transport = self._connect()

        answer = self._call(self._transport, request)
        rows = [list(row) for row in answer.rows]
        text = dumps_canonical({**key, "columns": list(answer.columns), "rows": rows})
        write_atomic(path, self._hide_secrets(text))
        self._log(request, "answered", rows=len(answer.rows))
        self.asked += 1

        if self.asked % _REPORT_EVERY == 0:
            self._tell(
                f"{self._vendor}: {count(self.asked, 'request')} sent, {self.kept:,} answered earlier"
            )

        return self._read(path)

    def _call(self, transport: VendorTransport, request: VendorRequest) -> VendorAnswer:
        def attempt() -> VendorAnswer:
            time.sleep(max(0.0, self._next_at - time.monotonic()))
            self._next_at = time.monotonic() + self._pause_s
            return transport.call(request)

        def notify(kind: str, wait_s: float, number: int, most: int, problem: str) -> None:
            self._log(request, kind, wait_s=round(wait_s, 1), attempt=number, problem=problem)
            if wait_s >= 10:
                self._tell(self._hide_secrets(wait_text(kind, wait_s, number, most, problem)))

        def is_known(_: ModelError) -> bool:
            return self.asked > 0 or not transport.takes_endpoint

        try:
            return RetryPolicy(_RETRIES, _MAX_WAIT_S).run(attempt, time.sleep, notify, is_known)
        except (DataError, ModelError) as error:
            self._log(request, "failed", error=str(error))
            later = (
                "; run the same command again to continue, since answers are stored"
                if self.asked or self.kept
                else ""
            )
            raise DataError(f"{one_line(str(error), transport.secrets)}{later}") from None

    def _read(self, path: Path) -> VendorAnswer:
        try:
            kept: Any = loads_strict(read_plain(path))
            width = len(kept["columns"])
            if any(len(row) != width for row in kept["rows"]):
                raise ValueError("rows and columns differ in length")

            return VendorAnswer([str(column) for column in kept["columns"]], kept["rows"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: not a stored answer ({error}); delete it to ask again"
            ) from error

    def _hide_secrets(self, text: str) -> str:
        if self._transport is None:
            return text
        return hide_keys(text, self._transport.secrets)

    def _log(self, request: VendorRequest, event: str, **facts: JsonValue) -> None:
        """Append a line to the log, with time, request and result."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        line = {
            "time": moment,
            "api": request.api,
            "params": dict(request.params),
            "event": event,
            **facts,
        }
        with (self._folder / LOG).open("a", encoding="utf-8") as stream:
            stream.write(self._hide_secrets(json.dumps(line, ensure_ascii=False)) + "\n")
