"""Tables from one vendor over a date range. The planned requests are followed by more requests
until the days are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, cast

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import DayArray
from ktdeval.values import near_matches
from ktdeval_data.fetch.bar_timestamps import days_of_ends, days_of_midnights
from ktdeval_data.fetch.coverage import days_in, expected_days
from ktdeval_data.fetch.vendor_requests import (
    AnswerFolder,
    Vendor,
    VendorAnswer,
    VendorRequest,
    VendorTable,
    plan,
    request_of,
)
from ktdeval_data.params import FetchParams
from ktdeval_tables.days import parse_days
from ktdeval_tables.numbers import to_numbers
from ktdeval_tables.vendor_tables import normalise_codes, parse_flags

_BAR_NUMBERS = ("open", "high", "low", "close", "volume", "amount", "factor")
_EVENT_NUMBERS = ("new_rate", "old_rate", "rate", "split", "dividend")
_NUMBERS = (*_BAR_NUMBERS, *_EVENT_NUMBERS)
_DAYS = ("date", "first", "last")


class VendorTables:
    """Tables from one vendor over a date range."""

    def __init__(
        self,
        vendor: Vendor,
        params: FetchParams,
        answers: AnswerFolder,
        days: tuple[date, date],
        calendar: str,
    ) -> None:
        """Read tables for `days`, both ends inclusive. `calendar`: exchange calendar whose sessions
        a response should have.
        """
        self.vendor = vendor
        self.name = params.vendor
        self.params = cast("Any", params)
        self.days = days
        self._answers = answers
        self.calendar = calendar
        self._map = _overrides(params.map, vendor)
        self._exchange = getattr(params, "exchange", "")
        #: requests that returned no rows, by table
        self.unanswered: dict[str, list[VendorRequest]] = {}

    def has(self, table: str) -> bool:
        """Return whether the vendor has a table."""
        return table in self.vendor.tables

    def read(self, name: str, codes: Sequence[str]) -> pd.DataFrame:
        """Request a table and return its fields as columns, without repeated rows.

        Raises DataError if the table is empty, or if a response lacks a column.
        """
        table = self.vendor.tables[name]
        frames: list[pd.DataFrame] = []
        for request in plan(self.vendor, table, codes, *self.days, exchange=self._exchange):
            pages = list(self._pages(name, table, request))
            if not any(map(len, pages)):
                self.unanswered.setdefault(name, []).append(request)

            frames += pages

        filled = [frame for frame in frames if len(frame)]
        frame = pd.concat(filled or frames[:1], ignore_index=True)
        if frame.empty and not table.sparse:
            span = f"from {self.days[0]} to {self.days[1]}"
            raise DataError(f"{self.name} {table.api}: no rows for {name} {span}")

        return frame if frame.empty else frame.drop_duplicates().reset_index(drop=True)

    def _pages(
        self, name: str, table: VendorTable, request: VendorRequest
    ) -> Iterator[pd.DataFrame]:
        """Yield the response to a request, then the responses to further requests for sessions
        missing at either end, where a vendor may silently truncate. Stop when a request brings
        nothing new.
        """
        page = self._page(name, table, request)
        yield page
        if not table.daily or page.empty:
            return

        expected = expected_days(self.calendar, request.first, request.last)
        got = days_in(page)
        while len(absent := expected[expected > got[-1]]):
            page, got = self._further(name, table, request, absent, got)
            if page.empty:
                break

            yield page

        while len(absent := expected[expected < got[0]]):
            page, got = self._further(name, table, request, absent, got)
            if page.empty:
                break

            yield page

    def _further(
        self,
        name: str,
        table: VendorTable,
        request: VendorRequest,
        absent: DayArray,
        got: DayArray,
    ) -> tuple[pd.DataFrame, DayArray]:
        """Return the response to a request for the `absent` sessions, and all days known so far.
        The response is empty if it has no such session.
        """
        span = (cast("date", absent[0].item()), cast("date", absent[-1].item()))
        further = request_of(self.vendor, table, request.code, span, self._exchange)
        page = self._page(name, table, further)
        new = np.intersect1d(days_in(page), absent) if len(page) else absent[:0]
        if not len(new):
            return page[:0], got

        return page, np.union1d(got, days_in(page))

    def _page(self, name: str, table: VendorTable, request: VendorRequest) -> pd.DataFrame:
        """Return the response to one request as typed fields. If bars are dated by their end, the
        request begins one day earlier.
        """
        frame = self._frame(name, table, request, self._answers.ask(request))
        if frame.empty:
            return frame

        frame = _convert_columns(frame, table, f"{self.name} {table.api}")
        if table.stamps != "ms":
            return frame

        within = frame["date"].between(pd.Timestamp(request.first), pd.Timestamp(request.last))
        return frame[within].reset_index(drop=True)

    def _frame(
        self, name: str, table: VendorTable, request: VendorRequest, answer: VendorAnswer
    ) -> pd.DataFrame:
        columns = {**table.columns, **table.optional, **self._map.get(name, {})}
        if not answer.rows:
            return pd.DataFrame(columns=list(columns))

        raw = pd.DataFrame(list(answer.rows), columns=list(answer.columns), dtype=object)
        where = f"{self.name} {table.api}"
        frame = pd.DataFrame(index=raw.index)

        for field, column in columns.items():
            if column in ("=code", "=first"):
                frame[field] = str(getattr(request, column[1:]))
            elif column not in raw and field in table.optional:
                frame[field] = np.nan
            elif column not in raw:
                known = f"; it has {', '.join(answer.columns)}"
                near = near_matches(column, answer.columns) or known
                problem = f"the answer has no column {column!r} for {name}.{field}{near}"
                raise DataError(f"{where}: {problem}; say --map {name}.{field}=COLUMN")
            else:
                frame[field] = raw[column]

        return frame


def _overrides(mapping: Mapping[str, str], vendor: Vendor) -> dict[str, dict[str, str]]:
    """Return, by table and field, the columns that the user specifies in place of those in
    `vendors.yaml`.
    """
    split: dict[str, dict[str, str]] = {}
    allowed: list[str] = []
    for name, entry in vendor.tables.items():
        allowed += [f"{name}.{field}" for field in (*entry.columns, *entry.optional)]

    for key, column in mapping.items():
        table, _, field = key.partition(".")
        if key not in allowed:
            known = f"; fields: {', '.join(allowed)}"
            raise UsageError(f"map: {key!r} is not a field{near_matches(key, allowed) or known}")

        split.setdefault(table, {})[field] = column

    return split


def _convert_columns(frame: pd.DataFrame, table: VendorTable, where: str) -> pd.DataFrame:
    if table.stamps == "ms":
        ends = days_of_ends(frame["date"], where)
        frame["date"] = ends["date"]
        frame["begins"] = ends["begins"]
    elif table.stamps == "iso":
        frame["date"] = days_of_midnights(frame["date"], table.zone or "UTC", where)

    for field in frame.columns:
        if field in _NUMBERS:
            frame[field] = to_numbers(frame[field], where)
            if field in table.scale:
                frame[field] = (frame[field] * table.scale[field]).round(4)
        elif field in _DAYS:
            days = parse_days(frame[field].replace("", None), f"{where}: {field}")
            frame[field] = days.astype("datetime64[ns]")
        elif field == "code":
            frame[field] = normalise_codes(frame[field])
        elif field == "traded":
            frame[field] = parse_flags(frame[field], f"{where}: {field}")
        else:
            frame[field] = frame[field].fillna("").astype(str)

    return frame
