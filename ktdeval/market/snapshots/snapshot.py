"""A market as one immutable value, and the view through which a decision accesses it."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market.snapshots.array_cache import ArrayCache, Arrays, StoredRows
from ktdeval.market.snapshots.asset_codes import AssetCodes
from ktdeval.market.snapshots.documents import NO_DOCUMENTS, Documents
from ktdeval.market.snapshots.minutes import NO_MINUTES, MinuteBars
from ktdeval.market.snapshots.quotes import NO_QUOTES, Quotes
from ktdeval.market.snapshots.snapshot_facts import (
    LABELS as LABELS,
    Instrument as Instrument,
    NameSpell as NameSpell,
    SnapshotMeta as SnapshotMeta,
)
from ktdeval.market.snapshots.vendor_price_limits import NO_PRICE_LIMITS, PriceLimits
from ktdeval.market.venues.venue import Venue, find_venue

T = TypeVar("T")


class Board(StrEnum):
    """Boards with different price limits, determined by a code's leading digits (KTD-Fin Appendix
    H).
    """

    MAIN = "main"
    CHINEXT = "chinext"
    STAR = "star"
    BSE = "bse"


# KTD-Fin Appendix H; the limits by day are in `board_rules.csv`
DAILY_LIMIT_PCT = {Board.MAIN: 10.0, Board.CHINEXT: 20.0, Board.STAR: 20.0, Board.BSE: 30.0}
_DIGITS_FIRST = re.compile(
    r"(\d{6})(?:[.\-_ ]?(SH|SS|SSE|XSHG|SHH|SHG|SZ|SZSE|XSHE|SHZ|SHE|BJ|BSE|XBSE))?", re.IGNORECASE
)
_LETTERS_FIRST = re.compile(r"(SH|SZ|BJ)(?:SE)?[.\-_ ]?(\d{6})", re.IGNORECASE)
_OF_BLOOMBERG = re.compile(r"(\d{6}) (CH|CG|CS|C1|C2)(?: Equity)?", re.IGNORECASE)
_BLOOMBERG = {"CG": "SH", "C1": "SH", "CS": "SZ", "C2": "SZ"}  # CH is any Chinese exchange
# by first digit; any other digit is SZ
_BY_FIRST = {"5": "SH", "6": "SH", "9": "SH", "4": "BJ", "8": "BJ"}
_EXCHANGE = {
    "SH": "SH", "SS": "SH", "SSE": "SH", "XSHG": "SH", "SHH": "SH", "SHG": "SH",
    "SZ": "SZ", "SZSE": "SZ", "XSHE": "SZ", "SHZ": "SZ", "SHE": "SZ",
    "BJ": "BJ", "BSE": "BJ", "XBSE": "BJ",
}  # fmt: skip


_BY_DIGITS = (
    (("688", "689"), Board.STAR, "SH"),
    (("30",), Board.CHINEXT, "SZ"),
    (("6",), Board.MAIN, "SH"),
    (("00",), Board.MAIN, "SZ"),
    (("8", "4", "92"), Board.BSE, "BJ"),
)
"""The first digits of a code, with its board and exchange. The first matching row is used."""


@lru_cache(maxsize=1 << 14)
def board_of(code: str) -> Board:
    """Return the board of a normalised code. Raises DataError if its digits belong to no A-share
    board.
    """
    for digits, board, _ in _BY_DIGITS:
        if code.startswith(digits):
            return board
    raise DataError(
        f"code {code!r} belongs to no A-share board (6, 00, 30, 688, 8, 4 or 92 at its start)"
    )


def parse_code(text: str) -> str | None:
    """Return a normalised code such as `600519.SH` for any vendor's spelling (600519, 600519.SS,
    SH600519, sh.600519, 600519 CH Equity); None if the text is not a code. A purely numeric code
    gets the exchange of its board.
    """
    text = text.strip()
    match = _LETTERS_FIRST.fullmatch(text)
    if match is not None:
        return f"{match[2]}.{match[1].upper()}"

    match = _OF_BLOOMBERG.fullmatch(text)
    if match is not None:
        return f"{match[1]}.{_bloomberg_exchange(match[1], match[2].upper())}"

    match = _DIGITS_FIRST.fullmatch(text)
    if match is None:
        return None

    digits = match[1]
    suffix = match[2]
    if suffix is not None:
        return f"{digits}.{_EXCHANGE[suffix.upper()]}"

    return next(
        (f"{digits}.{exchange}" for first, _, exchange in _BY_DIGITS if digits.startswith(first)),
        None,
    )


def _bloomberg_exchange(digits: str, suffix: str) -> str:
    """Return the exchange of a code in Bloomberg's form. Its suffix `CH` does not specify an
    exchange, so the digits decide.
    """
    if suffix in _BLOOMBERG:
        return _BLOOMBERG[suffix]
    return "BJ" if digits.startswith("92") else _BY_FIRST.get(digits[0], "SZ")


_SYMBOL = re.compile(r"[A-Z0-9][A-Z0-9._-]{0,23}")


def parse_symbol(text: str) -> str | None:
    """Return an upper-case symbol (TSLA, BRK.B, BTC-USD) for a market without A-share codes. None
    if the text is longer than 24 characters or has characters other than letters, digits and `._-`.
    """
    symbol = text.strip().upper()
    return symbol if _SYMBOL.fullmatch(symbol) else None


FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
DayArray = npt.NDArray[np.datetime64]
BAR_FIELDS = ("open", "high", "low", "close", "volume", "amount", "factor")


@dataclass(frozen=True)
class MarketSnapshot:
    """T trading days of N assets. Arrays are read-only. Prices are unadjusted, in currency units
    per share or coin; NaN without a bar. With several calendars, the days are their union, and an
    asset has no bar on days when its exchange is closed.

    Example:
        snapshot.close[-1, snapshot.asset_index["609001.SH"]]  # 11.0
    """

    meta: SnapshotMeta
    days: DayArray  #: [T] datetime64[D], ascending
    codes: tuple[str, ...]  #: N codes such as `600519.SH`, ascending
    names: tuple[str, ...]  #: N company names (may repeat the code where unknown)
    industries: tuple[str, ...]  #: N industry names (`unknown` where unknown)
    open: FloatArray
    high: FloatArray
    low: FloatArray
    close: FloatArray
    #: [T, N] shares or coins; 0 on a day recorded as suspended, NaN on a day without a record
    volume: FloatArray
    amount: FloatArray  #: [T, N] turnover in currency units, NaN where unknown
    #: [T, N] cumulative adjustment factor (adjusted = unadjusted * factor), forward-filled; 1.0
    #: before the first bar
    factor: FloatArray
    member: BoolArray  #: [T, N] True where the asset is in the index that day
    #: index code -> [T] closing levels; includes `meta.benchmark` if that is not empty
    indices: Mapping[str, FloatArray]
    index_names: Mapping[str, str]  #: index code -> display name, such as `CSI300`
    id: str = (
        ""  #: SHA-256 over canonical content (`ktdeval.market.snapshots.manifest.snapshot_id`)
    )
    #: dated names, by code and first day; empty if names are known for one date only
    spells: tuple[NameSpell, ...] = ()
    instruments: tuple[Instrument, ...] = ()  #: one per asset; empty if all are A-shares
    #: venue name -> venue; a venue that is not listed here is a built-in one
    rules: Mapping[str, Venue] = field(default_factory=dict)
    #: news, filings, macro releases; part of the identity only if there are any
    documents: Documents = NO_DOCUMENTS
    #: intraday bars; part of the identity only if there are any
    minutes: MinuteBars = NO_MINUTES
    #: special treatment, limit prices, listings; part of the identity only if there are any
    price_limits: PriceLimits = NO_PRICE_LIMITS
    quotes: Quotes = NO_QUOTES  #: last bid and ask; part of the identity only if there are any

    def __post_init__(self) -> None:
        where = f"snapshot {self.meta.name}"
        shape = (len(self.days), len(self.codes))
        arrays = {name: (getattr(self, name), shape) for name in (*BAR_FIELDS, "member")} | {
            "days": (self.days, shape[:1])
        }
        beside = {**self.price_limits.arrays, **self.quotes.arrays}
        arrays |= {f"{name} (beside bars)": (array, shape) for name, array in beside.items()}

        for name, (array, expected) in {
            **arrays,
            **{code: (levels, shape[:1]) for code, levels in self.indices.items()},
        }.items():
            if (actual := getattr(array, "shape", type(array).__name__)) != expected:
                raise DataError(f"{where}: {name} has shape {actual}, expected {expected}")
            if array.dtype.kind == "O":
                raise DataError(f"{where}: {name} has objects, expected numbers")

            array.setflags(write=False)

        if (
            self.days.dtype != np.dtype("datetime64[D]")
            or not (np.diff(self.days) > np.timedelta64(0, "D")).all()
        ):
            raise DataError(f"{where}: days must be distinct and ascending, as datetime64[D]")
        if {len(set(self.codes)), len(self.names), len(self.industries)} != {len(self.codes)}:
            raise DataError(f"{where}: a code appears twice, or lacks its name or industry")
        self._check_listed(where)
        if list(self.codes) != sorted(self.codes):
            fix = "sort the columns of all arrays by code"
            raise DataError(f"{where}: codes are not in ascending order; {fix}")

        if self.member.dtype != np.dtype(bool):
            raise DataError(f"{where}: member has type {self.member.dtype}, expected bool")
        if self.meta.benchmark and self.meta.benchmark not in self.indices:
            raise DataError(
                f"snapshot {self.meta.name}: benchmark {self.meta.benchmark} has no series"
            )

        self._check_texts(where)
        if self.instruments:
            self._check_instruments(where)

        own = self.rules if self.instruments else {}
        rules = {
            name: own.get(name) or find_venue(name)
            for name in sorted({*self.venues}) or ["a_share"]
        }
        object.__setattr__(self, "rules", rules)

    def _check_listed(self, where: str) -> None:
        count = len(self.price_limits.listed)
        if count not in (0, len(self.codes)):
            raise DataError(f"{where}: {count} listing days for {len(self.codes)} assets")

    def _check_texts(self, where: str) -> None:
        meta = self.meta
        try:
            "".join(
                (
                    *self.codes,
                    *self.names,
                    *self.industries,
                    meta.name,
                    meta.source,
                    *meta.repairs,
                    *meta.notes,
                )
            ).encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise DataError(
                f"{where}: a code, name, industry or text of its meta is not text: {error}"
            ) from error

        if {type(meta.synthetic), type(meta.has_factor), type(meta.placebo)} != {bool}:
            raise DataError(f"{where}: synthetic, has_factor and placebo must be True or False")

    def _check_instruments(self, where: str) -> None:
        if len(self.instruments) != len(self.codes):
            raise DataError(
                f"{where}: {len(self.instruments)} instruments for {len(self.codes)} assets; give"
                " one per asset"
            )

        if set(self.instruments) == {Instrument()}:
            object.__setattr__(self, "instruments", ())
            return

        for code in self.codes:
            if parse_symbol(code) != code:
                raise DataError(
                    f"{where}: {code!r} is not a symbol (at most 24 of A-Z, 0-9, '.', '-', '_');"
                    " correct the code column"
                )

        currencies = set(self.currencies)
        if len(currencies) > 1:
            raise DataError(
                f"{where}: prices in {' and '.join(sorted(currencies))}; convert them by --fx RATES"
                " --currency CODE"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of each asset: `stock`, `etf`, `crypto` …"""
        return tuple(instrument.kind for instrument in self.instruments) or ("stock",) * len(
            self.codes
        )

    @property
    def currencies(self) -> tuple[str, ...]:
        """Currency of each asset's prices. At present, all assets must have the same currency."""
        return tuple(instrument.currency for instrument in self.instruments) or ("CNY",) * len(
            self.codes
        )

    @property
    def venues(self) -> tuple[str, ...]:
        """Name of the venue of each asset."""
        return tuple(instrument.venue for instrument in self.instruments) or ("a_share",) * len(
            self.codes
        )

    @cached_property
    def calendars(self) -> tuple[str, ...]:
        """Calendar of each asset's sessions; empty if it is not known."""
        kinds = zip(self.venues, self.kinds, strict=True)
        return tuple(self.rules[venue].calendar_of(kind) for venue, kind in kinds)

    @property
    def currency(self) -> str:
        """Currency of the market."""
        return next(iter(self.currencies), "CNY")

    @property
    def days_a_year(self) -> int:
        """Days per year for annualised figures: the maximum over the venues, because the market's
        days are the union of their days.
        """
        return max(venue.days_a_year for venue in self.rules.values())

    def days_a_year_of(self, days: DayArray) -> int:
        """Days per year for annualised figures over these days. Venues without a close on any of
        these days do not count.
        """
        traded = np.any(np.isfinite(self.close[np.isin(self.days, days)]), axis=0)
        venues = {venue for venue, has_close in zip(self.venues, traded, strict=True) if has_close}
        return max((self.rules[venue].days_a_year for venue in venues), default=self.days_a_year)

    @property
    def minor_per_unit(self) -> int:
        """Minor units per currency unit: the maximum over the market's venues."""
        return max(venue.minor_per_unit for venue in self.rules.values())

    def units_of(self, days: DayArray) -> dict[str, Any]:
        """Units of money and time for a ledger over these days, keyed by field name of `Ledger`."""
        return {
            "currency": self.currency,
            "minor_per_unit": self.minor_per_unit,
            "days_a_year": self.days_a_year_of(days),
        }

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """Return the exchange board of each asset, from its code. Raises DataError if an asset's
        venue has no boards.
        """
        for code, venue in zip(self.codes, self.venues, strict=True):
            if not self.rules[venue].has_boards:
                raise DataError(
                    f"snapshot {self.meta.name}: {code} trades on {venue}, which has no boards; use"
                    " A-shares"
                )
        return tuple(board_of(code) for code in self.codes)

    @cached_property
    def close_only(self) -> BoolArray:
        """True if an asset has closes but never an open, high or low, so that it can only be filled
        at a close. Shape: [N].
        """
        prices = np.isfinite(np.stack([self.open, self.high, self.low])).any(axis=(0, 1))
        return np.asarray(~prices & np.isfinite(self.close).any(axis=0))

    @cached_property
    def adjusted_close(self) -> FloatArray:
        """Closes times factor, comparable across splits and dividends. NaN on days without a bar.
        Shape: [T, N].
        """
        return _read_only(self.close * self.factor)

    @cached_property
    def adjusted_open(self) -> FloatArray:
        """Opens times factor. Shape: [T, N]."""
        return _read_only(self.open * self.factor)

    @cached_property
    def _derived(self) -> OrderedDict[tuple[int, str], Any]:
        return OrderedDict()

    def forget_figures(self) -> None:
        """Release the figures that views have derived; a view that needs them derives them again."""
        self._derived.clear()

    def share(self, cache: ArrayCache) -> None:
        """Keep arrays derived from this snapshot in a cache that all processes share. The
        snapshot's `id` must match its content. A modified copy of the snapshot has no cache.
        """
        self._stored.cache = cache

    @cached_property
    def _stored(self) -> StoredRows:
        return StoredRows(self.id, self.meta.name, self.days, len(self.codes))

    @cached_property
    def asset_index(self) -> dict[str, int]:
        """Code -> column."""
        return {code: column for column, code in enumerate(self.codes)}

    @cached_property
    def _asset_codes(self) -> AssetCodes:
        return AssetCodes(self.codes, self.names, self.spells)

    def name_asset(self, asset: int, row: int) -> tuple[str, str]:
        """Return the code and name of an asset on day `row`. If names are not dated, these are the
        same on all days. If names are dated but none covers the day, return the latest earlier
        code, or the first code if there is none, as both code and name.
        """
        return self._asset_codes.name_on(asset, str(self.days[row]))

    @property
    def former_codes(self) -> dict[str, str]:
        """Former code of a renumbered asset -> code of its column."""
        return self._asset_codes.former

    def canonical(self, code: str) -> str:
        """Return the column code of the asset that has, or used to have, this code. Any other text
        is returned unchanged.
        """
        return self.former_codes.get(code, code)

    def assets_called(self, code: str) -> tuple[int, ...]:
        """Return the columns of all assets that trade, have traded or will trade under `code`. Two
        or more if another asset has taken over the code.
        """
        return self._asset_codes.columns_of(code)

    def asset_of(self, code: str, row: int) -> int | None:
        """Return the column of the asset that trades under `code` on day `row`, or else of the
        asset that has traded under it last before that day; None if there is no such asset.
        """
        return self._asset_codes.column_on(code, str(self.days[row]))

    @property
    def benchmark(self) -> FloatArray:
        """Closing levels of the benchmark index; NaN throughout if the market has no index. Shape:
        [T].
        """
        if not self.meta.benchmark:
            return np.full(len(self.days), np.nan)
        return self.indices[self.meta.benchmark]

    def day_index(self, day: np.datetime64 | str) -> int:
        """Return the row of a trading day. Raises DataError if the snapshot does not have this
        day.
        """
        date = np.datetime64(str(day), "D")
        row = int(np.searchsorted(self.days, date))
        if row == len(self.days) or self.days[row] != date:
            raise DataError(
                f"{day} is not a trading day of snapshot {self.meta.name}"
                f" ({self.days[0]}…{self.days[-1]})"
            )
        return row

    @cached_property
    def document_cutoffs(self) -> npt.NDArray[np.int64]:
        """Times up to which documents are known at each day's close, in microseconds since 1970
        UTC. Shape: [T].
        """
        if not len(self.documents):
            return np.zeros(len(self.days), np.int64)
        return self.documents.cutoffs(self.days, self.rules.values())

    def as_of(self, day: int) -> MarketView:
        """Return the market as known at the close of row `day`. Later data can't be reached through
        the view.
        """
        if not 0 <= day < len(self.days):
            raise LookAheadError(
                f"day {day} is outside the snapshot's {len(self.days)} trading days"
            )
        return MarketView(self, day)


_MAX_DERIVED = 1 << 17  # cap on cached figures, in assets times days; each figure is a few numbers


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


class MarketView:
    """A market as known at the close of day `day`: the arrays of `MarketSnapshot`, cut after that
    day's row.
    """

    __slots__ = (
        "_derived",
        "_stored",
        "adjusted_close",
        "adjusted_open",
        "amount",
        "benchmark_code",
        "boards",
        "calendars",
        "close",
        "codes",
        "day",
        "days",
        "documents",
        "factor",
        "high",
        "index_names",
        "indices",
        "industries",
        "low",
        "member",
        "minutes",
        "names",
        "open",
        "volume",
    )

    def __init__(self, snapshot: MarketSnapshot, day: int) -> None:
        end = day + 1
        self.day = day
        self.days = snapshot.days[:end]
        self.codes = snapshot.codes
        columns = range(len(snapshot.codes)) if snapshot.spells else ()
        self.names = (
            tuple(snapshot.name_asset(asset, day)[1] for asset in columns) or snapshot.names
        )
        self.industries = snapshot.industries
        self.boards = () if snapshot.instruments else snapshot.boards
        self.calendars = snapshot.calendars
        self.open = snapshot.open[:end]
        self.high = snapshot.high[:end]
        self.low = snapshot.low[:end]
        self.close = snapshot.close[:end]
        self.volume = snapshot.volume[:end]
        self.amount = snapshot.amount[:end]
        self.factor = snapshot.factor[:end]
        self.member = snapshot.member[:end]
        self.adjusted_close = snapshot.adjusted_close[:end]
        self.adjusted_open = snapshot.adjusted_open[:end]
        self.indices = {code: levels[:end] for code, levels in snapshot.indices.items()}
        self.index_names = snapshot.index_names
        self.benchmark_code = snapshot.meta.benchmark
        self.documents = snapshot.documents.as_of(self.days, snapshot.document_cutoffs)
        rules = snapshot.rules
        venues = snapshot.venues
        column = snapshot.asset_index
        self._derived = snapshot._derived
        self._stored = partial(snapshot._stored.row, snapshot.as_of, day)
        self.minutes = partial(
            snapshot.minutes.session, self.days, lambda code: rules[venues[column[code]]]
        )

    def derive_figures(self, name: str, make: Callable[[], T]) -> T:
        """Return figures that `make` computes from this view and nothing else. They are cached by
        `name` and shared with other views of the market on this day, so they must not be modified.
        Only the most recently computed days are kept; the larger the market, the fewer.
        """
        figures: T | None = self._derived.get((self.day, name))
        if figures is None:
            figures = self._derived.setdefault((self.day, name), make())
            if len(self._derived) * len(self.codes) > _MAX_DERIVED:
                self._derived.popitem(last=False)

        return figures

    def load_arrays(self, name: str, version: str, make: Callable[[MarketView], Arrays]) -> Arrays:
        """Return read-only arrays that `make` computes from a view of this day and nothing else. If
        the snapshot has a cache, they are kept there for all processes and runs. `version`: version
        of the code of `make` (`code_version`). Each array must have the same shape on all days.
        """
        return self._stored(name, version, make)

    def bar_row(self, asset: int, row: int) -> int | None:
        """Return the latest row up to `row` on which the asset has a bar; None before its first
        bar.
        """
        closes = self.close
        while row >= 0 and (close := closes[row, asset]) != close:
            row -= 1
        return row if row >= 0 else None

    def row(self, field_name: str, day: int) -> FloatArray:
        """Return the values of one array on `day`: [N]. Raises LookAheadError if `day` is after the
        cursor.
        """
        if day > self.day:
            raise LookAheadError(
                f"{field_name} of day {day} requested at the close of day {self.day}"
            )
        values: FloatArray = getattr(self, field_name)[day]
        return values
