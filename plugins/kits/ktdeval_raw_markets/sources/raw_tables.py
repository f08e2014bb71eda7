"""Market data as supplied by sources: plain tables with common codes and units, not yet checked or
repaired.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import (
    BAR_FIELDS,
    DAILY_LIMIT_PCT,
    NO_DOCUMENTS,
    NO_MINUTES,
    QUOTE_COLUMNS,
    BoolArray,
    DayArray,
    Documents,
    FloatArray,
    Instrument,
    MarketSnapshot,
    MinuteBars,
    Venue,
    board_of,
    find_venue,
    parse_code,
    parse_symbol,
    sessions,
)
from ktdeval_raw_markets.sources.column_units import AS_THEY_ARE, Conventions
from ktdeval_tables.codes import categories

IntArray = npt.NDArray[np.signedinteger[Any]]
PRICE_FIELDS = ("open", "high", "low", "close")
INDEX_NAMES = {
    "000001.SH": "SSE Composite",
    "000016.SH": "SSE50",
    "000300.SH": "CSI300",
    "000688.SH": "STAR50",
    "000852.SH": "CSI1000",
    "000905.SH": "CSI500",
    "399001.SZ": "SZSE Component",
    "399006.SZ": "ChiNext Index",
}
UNKNOWN_INDUSTRY = "unknown"
_NO_MEMBERS = "no membership file: "
#: without a membership file, an asset stays a member for this many market days without a bar
SILENT_DAYS = 60
EVERY_ASSET = f"{_NO_MEMBERS}an asset belongs to the universe from its first bar to its last"
"""Note for a market whose universe is not an index's, and whose assets all have bars until its last
day.
"""
UNTIL_SILENT = (
    f"{_NO_MEMBERS}an asset belongs to the universe from its first bar until {SILENT_DAYS} trading"
    " days after its last"
)
"""Note for a market whose universe comes from `members_by_bars`."""
NO_INDEX = (
    "no index: figures against a benchmark are null, and tasks about an index refuse the market"
)
"""Note for a market that was imported without index levels."""
LIMIT_COLUMNS = ("special", "limit_up", "limit_down")
"""Optional columns of bars that refine the board's price limits."""
_PART = 2**19  # approximate number of rows in a part
PRICE_TOLERANCE = 1e-6
"""Relative tolerance for the rounding of adjusted prices in single precision."""
_DAYS_WANTED = "give the days on which bars end"
_COLUMNS = {
    "bars": ("date", "code", *BAR_FIELDS),
    "indices": ("date", "code", "close"),
    "members": ("code", "first", "last"),
    "assets": ("code", "name", "industry"),
    "names": ("code", "first", "last", "name", "code_then"),
}


@dataclass(frozen=True)
class RawMarket:
    """Unchecked tables of one market."""

    name: str  #: short name of the market, used for the snapshot
    source: str  #: description of the data's origin
    benchmark: str  #: code of the benchmark index; empty if there is none
    #: date (datetime64), code, open, high, low, close (unadjusted where there is a factor), volume
    #: (shares), amount (currency units), factor (NaN throughout where there is none), and
    #: optionally traded (False on days recorded as suspended), special (True on days under special
    #: treatment), limit_up and limit_down (the day's unadjusted limit prices), bid and ask (the
    #: day's last quotes, unadjusted)
    bars: pd.DataFrame
    indices: pd.DataFrame  #: date, code, close
    members: pd.DataFrame  #: membership intervals: code, first, last, both ends inclusive
    assets: pd.DataFrame  #: code, name, industry; an asset missing here has its code as its name
    has_factor: bool  #: False if prices came adjusted without a factor
    synthetic: bool = False  #: True for generated markets
    #: True for a market derived from another so that no selection can succeed
    placebo: bool = False
    #: display names of indices other than `INDEX_NAMES`
    index_names: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()  #: descriptions of the repairs applied so far
    #: dated names: code, first, last (both ends inclusive), name, code_then (the code on those
    #: days); empty if names are not dated
    names: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=list(_COLUMNS["names"]))
    )
    #: descriptions of how the import interpreted ambiguous data in the source
    notes: tuple[str, ...] = ()
    #: instrument by code; a missing code is an A-share
    instruments: Mapping[str, Instrument] = field(default_factory=dict)
    #: venues by name; a missing name refers to a built-in venue
    rules: Mapping[str, Venue] = field(default_factory=dict)
    documents: Documents = NO_DOCUMENTS  #: news, filings, macro releases
    minutes: MinuteBars = NO_MINUTES  #: intraday bars
    #: ISO listing day by code, where known
    listed: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = AS_THEY_ARE  #: how the columns of the bars were interpreted
    #: return after the last bar of codes that end before the market: one figure, or by code; None:
    #: their last price stays
    delisting_returns: Mapping[str, float] | float | None = None

    def __post_init__(self) -> None:
        problems: list[str] = []
        for table, columns in _COLUMNS.items():
            problems += _column_problems(table, columns, getattr(self, table))

        if problems:
            raise DataError(
                f"market {self.name}: {', '.join(problems)}; map the source's columns to the"
                " expected ones (docs/data.md lists them)"
            )

        if self.bars.empty:
            raise DataError(
                f"market {self.name}: there are no bars; check the file and the range of days"
            )

    @cached_property
    def table(self) -> BarTable:
        """Return the bars as arrays, sorted by code and day."""
        return BarTable(self.bars)

    def instrument(self, code: str) -> Instrument:
        """Return the kind, currency and venue of a code."""
        return self.instruments.get(code, Instrument())

    def venue(self, code: str) -> Venue:
        """Return the rules under which a code trades. Raises UsageError if its venue is unknown."""
        name = self.instrument(code).venue
        return self.rules.get(name) or find_venue(name)

    @property
    def has_members(self) -> bool:
        """True if the source gives dated membership."""
        return not any(note.startswith(_NO_MEMBERS) for note in self.notes)

    def fits_venue(self, code: str) -> bool:
        """Return whether a code is valid at its venue. Venues with boards need an A-share code (not
        `000300.SH`, which is an index); other venues need a symbol.
        """
        if self.venue(code).has_boards:
            return parse_code(code[:6]) == code
        return parse_symbol(code) == code

    @cached_property
    def daily_limits(self) -> FloatArray:
        """Daily price limit of a code's board today, as a fraction of the price. Infinite for codes
        without a limit. Shape: [codes of the table].
        """
        limits = np.full(len(self.table.codes), np.inf)
        for column, code in enumerate(self.table.codes):
            if self.venue(code).has_boards and self.fits_venue(code):
                limits[column] = DAILY_LIMIT_PCT[board_of(code)] / 100
        return limits

    @cached_property
    def calendars(self) -> npt.NDArray[np.str_]:
        """Calendar of each code. Empty if not known, for example for a share or fund at a venue
        that never closes. Shape: [codes of the table].
        """
        return np.array(
            [self.venue(code).calendar_of(self.instrument(code).kind) for code in self.table.codes]
        )

    @cached_property
    def in_fen(self) -> BoolArray:
        """True if a code's prices are A-share prices in CNY, and thus in whole fen. Shape: [codes
        of the table].
        """
        own = ((self.venue(code), self.instrument(code).currency) for code in self.table.codes)
        return np.array(
            [venue.has_boards and venue.currency == currency for venue, currency in own], np.bool_
        )

    @cached_property
    def close_only(self) -> BoolArray:
        """True if a code has closes but never an open, high or low; never true for A-shares. Shape:
        [codes of the table].
        """
        table = self.table
        priced = table.judge_parts(
            lambda part: np.any(
                [np.isfinite(part[name]) for name in ("open", "high", "low")], axis=0
            )
        )
        has_prices = np.bincount(table.column[priced], minlength=len(table.codes)) > 0

        return ~has_prices & np.array(
            [not self.venue(code).has_boards for code in table.codes], dtype=np.bool_
        )

    def calendar_days(self, calendar: str) -> DayArray:
        """Return the days on which any code with this calendar has a row."""
        return np.asarray(
            self.table.days[
                np.bincount(
                    self.table.row[(self.calendars == calendar)[self.table.column]]
                ).nonzero()
            ]
        )

    def session_numbers(self) -> IntArray:
        """Index of each bar's day among the days of its calendar. Shape: [rows].

        If the market has one calendar, its days are all days of the market. Otherwise they are the
        calendar's sessions and any other days on which one of its assets has a row.
        """
        table = self.table
        numbers = self.table.row.copy()
        calendars = np.unique(self.calendars)
        if len(calendars) == 1:
            return numbers

        for calendar in calendars.tolist():
            is_open = np.isin(table.days, self.calendar_days(calendar))
            if calendar:
                # A calendar that does not cover all days is reported as a separate finding.
                with suppress(DataError):
                    all_sessions = sessions(table.days[0], table.days[-1], calendar)
                    is_open |= np.isin(table.days, all_sessions)

            own = (self.calendars == calendar)[table.column]
            numbers[own] = np.cumsum(is_open)[table.row[own]]

        return numbers

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """Codes that have bars or were members on a day with bars, in ascending order."""
        days = self.table.days
        intervals = zip(
            self.members["code"],
            as_days(self.members["first"]),
            as_days(self.members["last"]),
            strict=True,
        )
        present = {code for code, first, last in intervals if first <= days[-1] and last >= days[0]}

        return tuple(sorted(present.union(self.table.codes)))


def _column_problems(name: str, columns: Sequence[str], table: pd.DataFrame) -> Iterator[str]:
    """Yield the columns that a table lacks, and bar columns that are not numeric."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        yield f"table {name} lacks column{plural} {', '.join(map(repr, missing))}"

    fields = (*BAR_FIELDS, *QUOTE_COLUMNS)
    numbers = [column for column in fields if name == "bars" and column in table.columns]
    for column in numbers:
        if not pd.api.types.is_numeric_dtype(table[column]):
            yield f"column {column!r} of {name} holds {table[column].dtype}, expected numbers"


def as_days(column: pd.Series) -> DayArray:
    """Return a date column as datetime64[D]. Raises DataError if a date has a time zone or a time
    of day. Truncated to its day, a bar that begins at 16:00 UTC would be known before it ends.
    """
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        raise DataError(f"column {column.name}: times have a zone; {_DAYS_WANTED}")

    values = column.to_numpy()
    days = np.asarray(values, dtype="datetime64[D]")
    if values.dtype.kind == "M" and values.dtype != days.dtype:
        # in parts, because a copy of the whole column would be large
        for start in range(0, len(days), _PART):
            part = slice(start, start + _PART)
            within = (days[part].astype(values.dtype) != values[part]) & ~np.isnat(values[part])
            if within.any():
                first = values[part][within][0]
                raise DataError(f"column {column.name}: {first} is not a day; {_DAYS_WANTED}")

    return days


class BarTable:
    """Bars as flat arrays, sorted by code, then day. Duplicates keep their source order.

    `column` and `row` are each bar's indices in `codes` and `days`, which are both ascending;
    fields are accessed by name (`table["close"]`). A bar is suspended if it is marked as such or
    its volume is 0. If its volume is unknown, it is suspended if it has no price or a single flat
    price, unless all of the code's bars are flat and their prices move. Values stay in the source's
    columns and are sorted on request, so that memory holds them only once.
    """

    def __init__(self, bars: pd.DataFrame) -> None:
        code = categories(bars["code"])
        rows, days = pd.factorize(as_days(bars["date"]), sort=True)
        self.codes: tuple[str, ...] = tuple(code.categories)
        self.days: DayArray = np.asarray(days, dtype="datetime64[D]")
        self._source: dict[str, npt.NDArray[Any]] = {
            name: bars[name].to_numpy(dtype=np.float64) for name in BAR_FIELDS
        }

        for name in QUOTE_COLUMNS:
            if name in bars.columns:
                self._source[name] = bars[name].to_numpy(dtype=np.float64)

        if "traded" in bars.columns:
            self._source["traded"] = bars["traded"].to_numpy(dtype=np.bool_)

        key = code.codes * np.int64(len(days)) + rows
        #: source rows: a slice if already sorted, which avoids copying columns
        self.order: slice | npt.NDArray[np.int32] = slice(0, len(key))
        if (key[1:] < key[:-1]).any():
            self.order = np.argsort(key, kind="stable").astype(np.int32)

        del key  # frees eight bytes per row before further arrays are allocated
        self.column = code.codes[self.order]
        self.row = rows.astype(np.int32)[self.order]
        self.new_code: BoolArray = np.concatenate([[True], self.column[1:] != self.column[:-1]])
        self.suspended: BoolArray = self.judge_parts(BarTable._find_suspensions)

    def __getitem__(self, name: str) -> FloatArray:
        """Return the values of a field. Shape: [rows]."""
        return np.asarray(self._source[name][self.order])

    def parts(self) -> Iterator[BarTable]:
        """Yield the table in parts of about `_PART` rows. Each part contains whole codes, and all
        parts share `codes` and `days`.
        """
        # A part begins at the first code that starts in each stretch of `_PART` rows.
        starts = np.flatnonzero(self.new_code)
        _, first_codes = np.unique(starts // _PART, return_index=True)
        bounds = [*starts[first_codes].tolist(), len(self.row)]

        for start, stop in pairwise(bounds):
            part = copy(self)
            rows = slice(start, stop)
            part.order = rows if isinstance(self.order, slice) else self.order[rows]

            for name in {"column", "row", "new_code", "suspended"}.intersection(vars(self)):
                setattr(part, name, getattr(self, name)[rows])

            yield part

    def judge_parts(self, judge: Callable[[BarTable], BoolArray]) -> BoolArray:
        """Return the result of `judge` for each bar. It is computed part by part to keep
        intermediate arrays small. Shape: [rows].
        """
        return np.concatenate([judge(part) for part in self.parts()])

    def _find_suspensions(self) -> BoolArray:
        prices = np.stack([self[name] for name in PRICE_FIELDS])
        present = np.isfinite(prices)
        flat = present.all(axis=0) & (prices == prices[0]).all(axis=0)
        volume = self["volume"]
        close = self["close"]
        quiet = np.isnan(volume) & (flat | ~present.any(axis=0))
        last_closes = pd.Series(close).groupby(self.column).ffill().to_numpy()
        steps = np.abs(close[1:] - last_closes[:-1])
        has_moved = np.append(False, (steps > 0) & ~self.new_code[1:])
        moves = has_moved & flat & np.append(False, flat[:-1])
        has_volume = np.bincount(self.column[~quiet & (volume != 0)], minlength=len(self.codes)) > 0
        is_moving = np.bincount(self.column[moves], minlength=len(self.codes)) > 0
        without_trade = ~flat | (has_volume | ~is_moving)[self.column]
        # A halt repeats the last close, so a flat bar at another price is from a trading day.
        suspended = (volume == 0) | (quiet & without_trade & ~has_moved)

        if "traded" in self._source:
            suspended |= self["traded"] == 0
        return np.asarray(suspended)

    @property
    def traded(self) -> BoolArray:
        """True if a bar is on a day with trades. Shape: [rows]."""
        return np.asarray(~self.suspended)

    @property
    def has_flags(self) -> bool:
        """True if rows have a flag for whether they were traded."""
        return "traded" in self._source

    @property
    def quotes(self) -> tuple[str, ...]:
        """Quote fields in the source."""
        return tuple(name for name in QUOTE_COLUMNS if name in self._source)

    def find_duplicates(self) -> BoolArray:
        """Return whether a bar has the same code and day as the previous bar. Shape: [rows]."""
        return np.append(False, ~self.new_code[1:] & (self.row[1:] == self.row[:-1]))

    def label(self, bar: int) -> str:
        """Return a bar's label for messages, such as `600519.SH 2024-01-02`."""
        return f"{self.codes[self.column[bar]]} {self.days[self.row[bar]]}"

    def in_source(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reorder values of these sorted bars to the row order of the source table."""
        unsorted = np.empty_like(values)
        unsorted[self.order] = values
        return unsorted


def drop_bars(raw: RawMarket, mask: BoolArray) -> tuple[RawMarket, int]:
    """Drop the bars that a mask over the sorted table selects. Also return the number of bars
    dropped.
    """
    keep = ~raw.table.in_source(mask)
    return dataclasses.replace(raw, bars=raw.bars.loc[keep]), int(mask.sum())


def membership(members: pd.DataFrame, days: DayArray, codes: Sequence[str]) -> BoolArray:
    """Return whether a code is a member on each day. Shape: [T, N]. `members`: intervals with
    `code`, `first`, `last`, both ends inclusive.
    """
    column_of = {code: column for column, code in enumerate(codes)}
    grid = np.zeros((len(days), len(codes)), dtype=np.bool_)
    starts = np.searchsorted(days, as_days(members["first"]), side="left")
    stops = np.searchsorted(days, as_days(members["last"]), side="right")

    for code, start, stop in zip(members["code"], starts, stops, strict=True):
        if code in column_of:
            grid[start:stop, column_of[code]] = True

    return grid


def members_by_bars(bars: pd.DataFrame) -> pd.DataFrame:
    """Return membership intervals (`code`, `first`, `last`) for a source without a membership file.
    An asset is a member from its first bar until it has had no bar for `SILENT_DAYS` market days.
    Thus membership does not reveal whether an asset will trade again.
    """
    code = pd.Categorical(bars["code"])
    rows, days = pd.factorize(as_days(bars["date"]), sort=True)
    days = np.asarray(days, dtype="datetime64[D]")
    known = (code.codes >= 0) & (rows >= 0)
    has_bar = np.zeros((len(code.categories), len(days)), dtype=np.bool_)
    has_bar[code.codes[known], rows[known]] = True
    column, row = np.nonzero(has_bar)
    starts = np.flatnonzero(
        np.append(True, (np.diff(column) > 0) | (np.diff(row) > SILENT_DAYS + 1))
    )
    last = np.minimum(row[np.append(starts[1:], len(row)) - 1] + SILENT_DAYS, len(days) - 1)

    return pd.DataFrame(
        {
            "code": code.categories[column[starts]].astype(str),
            "first": days[row[starts]],
            "last": days[last],
        }
    )


def member_intervals(member: BoolArray, days: DayArray, codes: Sequence[str]) -> pd.DataFrame:
    """Return the intervals (`code`, `first`, `last`) of a [T, N] membership grid: the inverse of
    `membership`.
    """
    padded = np.zeros((len(days) + 2, len(codes)), dtype=np.int8)
    padded[1:-1] = member
    change = np.diff(padded, axis=0)
    columns, starts = np.nonzero(change.T == 1)
    _, stops = np.nonzero(change.T == -1)

    return pd.DataFrame(
        {
            "code": [codes[int(column)] for column in columns],
            "first": days[starts],
            "last": days[stops - 1],
        }
    )


def raw_from_snapshot(snapshot: MarketSnapshot) -> RawMarket:
    """Convert a stored market back to tables, so that the same checks apply to sources and
    snapshots.
    """
    # by code, then day: the order in which checks sort them
    recorded = (np.isfinite(snapshot.volume) | np.isfinite(snapshot.close)).T
    bars: dict[str, Any] = {name: getattr(snapshot, name).T[recorded] for name in BAR_FIELDS}
    bars["code"] = pd.Categorical.from_codes(
        np.nonzero(recorded)[0], categories=pd.Index(snapshot.codes)
    )
    bars["date"] = np.broadcast_to(snapshot.days, recorded.shape)[recorded]
    limits = snapshot.price_limits

    for name, grid in zip(LIMIT_COLUMNS, (limits.special, limits.upper, limits.lower), strict=True):
        if grid is not None:
            bars[name] = grid.T[recorded]

    for name, grid in snapshot.quotes.arrays.items():
        bars[name] = grid.T[recorded]

    indices = [pd.DataFrame({"date": snapshot.days[:0], "code": [], "close": []})] * (
        not snapshot.indices
    ) + [
        pd.DataFrame({"date": snapshot.days, "code": code, "close": levels})
        for code, levels in sorted(snapshot.indices.items())
    ]
    return RawMarket(
        name=snapshot.meta.name,
        source=snapshot.meta.source,
        benchmark=snapshot.meta.benchmark,
        bars=pd.DataFrame(bars, copy=False),
        indices=pd.concat(indices, ignore_index=True),
        members=member_intervals(snapshot.member, snapshot.days, snapshot.codes),
        assets=pd.DataFrame(
            {"code": snapshot.codes, "name": snapshot.names, "industry": snapshot.industries}
        ),
        has_factor=snapshot.meta.has_factor,
        synthetic=snapshot.meta.synthetic,
        placebo=snapshot.meta.placebo,
        index_names=snapshot.index_names,
        repairs=snapshot.meta.repairs,
        notes=snapshot.meta.notes,
        names=pd.DataFrame(
            map(dataclasses.astuple, snapshot.spells), columns=list(_COLUMNS["names"])
        ),
        instruments=dict(zip(snapshot.codes, snapshot.instruments, strict=False)),
        rules=snapshot.rules,
        documents=snapshot.documents,
        minutes=snapshot.minutes,
        listed={code: day for code, day in zip(snapshot.codes, limits.listed, strict=False) if day},
    )
