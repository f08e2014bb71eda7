"""From files of bars to bars by instrument: read in columns, exactly; malformed cells are marked;
sorted, each bar once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ktdeval.errors import ConfigError
from ktdeval.values import TextBlock, read_blocks
from ktdeval_qfinzero.data.arrow_text import (
    BoolArray,
    TextColumn,
    as_e4,
    as_floats,
    as_instants,
    as_integers,
    distinct,
    equal_to,
    matches,
    replace_pattern,
    text_at,
    where,
)
from ktdeval_qfinzero.data.ingest_mapping import as_problem, files_of, quote_cell, table_of
from ktdeval_qfinzero.data.ingest_spec import BarSource
from ktdeval_qfinzero.data.problems import SHOWN, ProblemList
from ktdeval_qfinzero.data.rows import (
    AssetClass,
    BarKey,
    Bars,
    FloatArray,
    IntArray,
    Resolution,
    join,
)
from ktdeval_qfinzero.data.schema import broken_rules
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.timestamps import DAY, MINUTE, SECOND, moment_text, parse_moment

_PRICE = r"[0-9]{1,11}(\.[0-9]{1,4}0{0,20})?"
_FINER_PRICE = re.compile(r"[0-9]{1,11}\.[0-9]{1,40}")
_VOLUME = r"[0-9]{1,16}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?"
_WHOLE = r"[0-9]{1,16}"
_NANOSECONDS = r"[0-9]{17,19}"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?Z?"
_LOCAL = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_MAX_NS = 2**62
_E4 = Decimal("0.0001")
#: Of a product of floats, by which a half is seen as one: 4567.85 × 0.001 × 10,000 is
#: 45678.50000000001
_TIE_DECIMALS = 6
#: Relative, of two decimals: 1.001 / 0.001 is 1000.9999999999999
_QUOTIENT_ERROR = 4 * np.finfo(np.float64).eps
_EPOCH_ORDINAL = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def prices_e4(
    texts: TextColumn, rounded: bool, unit: float = 1.0
) -> tuple[IntArray, BoolArray, int]:
    """[n] decimal dollars, of `unit` of what the file is about, in ten-thousandths, which are
    malformed, and how many were rounded; more decimals are malformed, or `rounded`, halves to even.
    """
    if unit != 1.0:
        numbers, bad = volumes(texts)
        scaled = np.round(numbers * unit * 10_000, _TIE_DECIMALS)
        return np.rint(scaled).astype(np.int64), bad, 0

    good = matches(texts, _PRICE)
    values = as_e4(texts if good.all() else where(good, texts, "0"))
    count = 0
    if rounded:
        for row in np.flatnonzero(~good).tolist():
            text = text_at(texts, row)
            if _FINER_PRICE.fullmatch(text):
                values[row] = price_e4(text, rounded=True) or 0
                good[row] = True
                count += 1

    return values, ~good, count


def price_e4(text: str, *, rounded: bool) -> int | None:
    """Return one price in ten-thousandths of a dollar; None if the text is malformed."""
    if re.fullmatch(_PRICE, text) or (rounded and _FINER_PRICE.fullmatch(text)):
        return int(Decimal(text).quantize(_E4, ROUND_HALF_EVEN).scaleb(4))
    return None


def volumes(texts: TextColumn) -> tuple[FloatArray, BoolArray]:
    """Numbers from 0, and which texts are malformed."""
    good = matches(texts, _VOLUME)
    return as_floats(where(good, texts, "0")), ~good


def whole_numbers(texts: TextColumn, *, missing: int | None = None) -> tuple[IntArray, BoolArray]:
    """Whole numbers from 0, and which texts are malformed; an empty text is `missing` where that is
    given.
    """
    if missing is not None:
        texts = where(~equal_to(texts, ""), texts, str(missing))

    good = matches(texts, _WHOLE)
    return as_integers(where(good, texts, "0")), ~good


def moments(texts: TextColumn, zone: str = "UTC") -> tuple[IntArray, BoolArray, BoolArray]:
    """[n] moments (nanoseconds since 1970, ISO texts, of `zone` without an offset, or days), which
    are days, which malformed.
    """
    texts = _spell_times(texts)
    days = matches(texts, _DATE)
    values, bad = _read_moments(texts)
    if zone != "UTC":
        local = ~days & matches(texts, _LOCAL)
        if local.any():
            values[local], bad[local] = _from_zone(values[local], zone)

    return values, days, bad


def _spell_times(texts: TextColumn) -> TextColumn:
    """Times as vendors write them in the form of ISO 8601: a blank before the hour, ` UTC` after
    it, offsets without a colon.
    """
    texts = replace_pattern(texts, r"^([0-9]{4}-[0-9]{2}-[0-9]{2}) ", r"\1T")
    texts = replace_pattern(texts, r"( UTC|[+]00:?00)$", "Z")
    return replace_pattern(texts, r"(T.*[+-][0-9]{2})([0-9]{2})$", r"\1:\2")


def _from_zone(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Moments of local times, read as if they were UTC; one that an autumn repeats or a spring
    skips is malformed.
    """
    local = pd.to_datetime(values).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    bad: BoolArray = np.asarray(local.isna())
    moments_ns: IntArray = local.asi8
    return np.where(bad, 0, moments_ns), bad


def _read_moments(texts: TextColumn) -> tuple[IntArray, BoolArray]:
    """[n] moments, and which texts are malformed: all at once where they have one form."""
    for pattern, read in ((_NANOSECONDS, as_integers), (f"{_DATE}|{_ISO}", _instants)):
        if matches(texts, pattern).all():
            with suppress(pa.ArrowException):  # one of them is malformed: read each by itself
                return _checked_moments(read(texts)), np.zeros(len(texts), bool)

    words, rows = distinct(texts)
    values = np.zeros(len(words), np.int64)
    bad = np.zeros(len(words), bool)
    for number, text in enumerate(words):
        ns = moment_of(text)
        if ns is None:
            bad[number] = True
        else:
            values[number] = ns

    return values[rows], bad[rows]


def _instants(texts: TextColumn) -> IntArray:
    return as_instants(replace_pattern(texts, "Z$", ""))


def _checked_moments(values: IntArray) -> IntArray:
    """Moments as they are. Raises pa.ArrowInvalid: one of them is out of range."""
    if (values < 0).any() or (values >= _MAX_NS).any():
        raise pa.ArrowInvalid("out of range")
    return values


def days_in_zone(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Midnights in UTC of the days that begin at these moments in a time zone, and which moments
    begin none.
    """
    distinct, inverse = np.unique(values, return_inverse=True)
    days = np.zeros(len(distinct), np.int64)
    bad = np.zeros(len(distinct), bool)

    for row, moment in enumerate(distinct.tolist()):
        local = datetime.fromtimestamp(moment // SECOND, UTC).astimezone(ZoneInfo(zone))
        is_midnight = (local.hour, local.minute, local.second) == (0, 0, 0)
        days[row] = local.toordinal() - _EPOCH_ORDINAL
        bad[row] = bool(moment % SECOND) or not is_midnight

    return days[inverse] * DAY, bad[inverse]


def moment_of(text: str) -> int | None:
    """Return one moment, as `moments` reads them; None if the text is malformed."""
    if re.fullmatch(_NANOSECONDS, text):
        return int(text) if int(text) < _MAX_NS else None

    try:
        ns = parse_moment(text, "time")
    except ServiceError:
        return None

    return ns if 0 <= ns < _MAX_NS else None


FIELDS = ("symbol", "time", "open", "high", "low", "close", "volume", "transactions")
REQUIRED = FIELDS[:-1]
MAX_ROWS = 100_000_000  #: Of one ingestion, which holds them in memory; more come as updates

_PRICES = ("open", "high", "low", "close")
_LINE_BITS = 40
_EXPECTED = {
    "time": (
        "a moment such as 2025-01-06T14:30:00Z, nanoseconds since 1970, or for bars of days a day"
        " such as 2025-01-06"
    ),
    "price": "dollars with at most four decimals, such as 101.25",
    "volume": "a number from 0",
    "transactions": "a whole number from 0",
    "option": "an OPRA symbol such as O:AVLN250221P00225000",
    "ticker": "a ticker in capitals",
}


@dataclass(frozen=True, slots=True)
class _CollectedBars:
    codes: dict[str, int] = field(default_factory=dict)
    symbols: list[npt.NDArray[np.int32]] = field(default_factory=list)
    bars: list[Bars] = field(default_factory=list)
    origins: list[IntArray] = field(default_factory=list)


@dataclass(slots=True)
class BarReader:
    """Collects the bars of all files."""

    base: Path  #: folder that paths are relative to
    problems: ProblemList  #: where bad rows go
    rounded: bool  #: whether prices of more than four decimals are rounded
    files: list[str] = field(default_factory=list)  #: names of the files read so far
    duplicates: int = 0  #: rows that repeat another one
    #: `unit` of each instrument
    units: dict[tuple[AssetClass, str], float] = field(default_factory=dict)
    rounded_prices: int = 0  #: prices that had more than four decimals
    _series: dict[tuple[AssetClass, Resolution], _CollectedBars] = field(default_factory=dict)
    _rows: int = 0

    def read(self, spec: BarSource) -> None:
        """Read the files of a source. Raises ConfigError: no such file or time zone, or too many
        rows for one ingestion.
        """
        _check_zone("zone", spec.zone)
        _check_zone("day_zone", spec.day_zone)
        if not 1e-8 <= spec.unit <= 1e8:
            raise ConfigError(
                f"unit: expected a number from 0.00000001 to 100000000, was {spec.unit:g}"
            )

        skipped = 0 if spec.symbol is None else 1
        for path, name in files_of(self.base, spec.file):
            table = table_of((path, name), FIELDS[skipped:], REQUIRED[skipped:], spec)
            self.files.append(name)
            for columns in read_blocks(table, as_problem(name, self.problems)):
                self._take(spec, name, columns)
                self._rows += len(columns.lines)
                if self._rows > MAX_ROWS:
                    raise ConfigError(
                        f"{name}: more than {MAX_ROWS} bars at once; ingest some files, and the"
                        " others as updates"
                    )

    def bar_table(self) -> dict[BarKey, Bars]:
        """All bars that were read, by instrument, each once; bars of one instrument and moment that
        differ become problems.
        """
        table: dict[BarKey, Bars] = {}
        for (asset_class, resolution), series in self._series.items():
            codes = np.concatenate(series.symbols)
            bars = join(series.bars)
            origins = np.concatenate(series.origins)
            order = np.argsort(codes, kind="stable")
            begins = np.searchsorted(codes[order], np.arange(len(series.codes) + 1))

            for symbol, code in series.codes.items():
                rows = order[begins[code] : begins[code + 1]]
                if len(rows):
                    own = self._each_once(symbol, bars.take(rows), origins[rows])
                    table[asset_class, symbol, resolution] = own

        return table

    def _take(self, spec: BarSource, name: str, columns: TextBlock) -> None:
        """Add the rows of some columns; rows with a malformed cell become problems."""
        texts = columns.texts
        lines = columns.lines
        bad = np.zeros(len(lines), bool)

        def mark(wrong: BoolArray, column_name: str, expected: str) -> None:
            self._report(name, lines, wrong, column_name, (expected, texts.get(column_name)))
            np.logical_or(bad, wrong, out=bad)

        series = self._series.setdefault((spec.asset_class, spec.resolution), _CollectedBars())
        symbols, rows = _symbols_of(spec, columns)
        codes, wrong = _symbol_numbers(spec, symbols, series.codes)
        mark(wrong[rows], "symbol", _EXPECTED[_kind_of_symbol(spec)])
        self._check_units(spec, name, symbols)

        start_ns, wrong = _starts(spec, texts["time"])
        mark(wrong, "time", _expected_time(spec))

        prices: list[IntArray] = []
        for price in _PRICES:
            values, wrong, count = prices_e4(texts[price], self.rounded, spec.unit)
            prices.append(values)
            self.rounded_prices += count
            mark(wrong, price, self._expected_price)

        volume, wrong = volumes(texts["volume"])
        mark(wrong, "volume", _EXPECTED["volume"])
        if spec.unit != 1.0:
            volume = np.floor(volume / spec.unit * (1 + _QUOTIENT_ERROR))

        transactions, wrong = whole_numbers(texts["transactions"], missing=0)
        mark(wrong, "transactions", _EXPECTED["transactions"])

        open_e4, high_e4, low_e4, close_e4 = prices
        bars = Bars(start_ns, open_e4, high_e4, low_e4, close_e4, volume, transactions)
        for rule in broken_rules(bars, spec.asset_class, spec.resolution):
            # An unreadable cell is reported once, as unreadable.
            mark(rule.bad & ~bad, rule.field, rule.expected)

        file_number = len(self.files) - 1
        series.symbols.append(codes[rows][~bad])
        series.bars.append(bars.take(~bad))
        series.origins.append((file_number << _LINE_BITS) + lines[~bad])

    @property
    def _expected_price(self) -> str:
        if self.rounded:
            return _EXPECTED["price"]
        return f"{_EXPECTED['price']} (`round: true` rounds them)"

    def _check_units(self, spec: BarSource, name: str, symbols: Sequence[str]) -> None:
        """Raise ConfigError if bars of an instrument come in two units."""
        for symbol in symbols:
            if self.units.setdefault((spec.asset_class, symbol), spec.unit) != spec.unit:
                raise ConfigError(
                    f"{name}: unit: {symbol[:40]} has another one in other files; give all bars of"
                    " it the same"
                )

    def _report(
        self,
        name: str,
        lines: IntArray,
        wrong: BoolArray,
        field_name: str,
        reason: tuple[str, TextColumn | None],
    ) -> None:
        """Report rows with a wrong cell; `reason`: (what was expected, the column's texts)."""
        rows = np.flatnonzero(wrong)
        expected, texts = reason
        for row in rows[:SHOWN].tolist():
            was = "" if texts is None else f", was {quote_cell(text_at(texts, row))}"
            self.problems.add(f"{name}:{lines[row]}: {field_name}: expected {expected}{was}")

        self.problems.count += max(0, len(rows) - SHOWN)

    def _each_once(self, symbol: str, bars: Bars, origins: IntArray) -> Bars:
        """Bars of an instrument by time, without repeats; repeats that differ become problems."""
        if (np.diff(bars.start_ns) > 0).all():
            return bars

        order = np.argsort(bars.start_ns, kind="stable")
        bars = bars.take(order)
        origins = origins[order]
        twice = np.flatnonzero(np.diff(bars.start_ns) == 0)
        differs = np.zeros(len(twice), bool)

        for column in bars.columns():
            differs |= column[twice] != column[twice + 1]

        for row in twice[differs].tolist():
            first = self._where(int(origins[row]))
            second = self._where(int(origins[row + 1]))
            moment = moment_text(int(bars.start_ns[row]))
            self.problems.add(
                f"{second}: time: expected each bar once: {symbol} at {moment} is other than on"
                f" {first}"
            )

        self.duplicates += int((~differs).sum())
        keep = np.ones(len(bars), bool)
        keep[twice + 1] = False

        return bars.take(keep)

    def _where(self, origin: int) -> str:
        return f"{self.files[origin >> _LINE_BITS]}:{origin & ((1 << _LINE_BITS) - 1)}"


def _check_zone(name: str, zone: str | None) -> None:
    zone = zone or "UTC"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{name}: no time zone {zone[:40]!r}; expected one such as UTC or America/New_York"
        ) from error


def _expected_time(spec: BarSource) -> str:
    if spec.zone in (None, "UTC"):
        return _EXPECTED["time"]
    return f"{_EXPECTED['time']}, which clocks in {spec.zone} show once"


def _kind_of_symbol(spec: BarSource) -> str:
    return "option" if spec.asset_class == "option" else "ticker"


def _symbols_of(spec: BarSource, columns: TextBlock) -> tuple[list[str], IntArray]:
    """Distinct symbols of some rows, and [n] the index of each row's symbol."""
    if spec.symbol is not None:
        return [spec.symbol], np.zeros(len(columns.lines), np.int64)
    return distinct(columns.texts["symbol"])


def _symbol_numbers(
    spec: BarSource, symbols: Sequence[str], codes: dict[str, int]
) -> tuple[npt.NDArray[np.int32], BoolArray]:
    """Return the number of each symbol, and which symbols are malformed; new symbols get the next
    numbers.
    """
    is_option = spec.asset_class == "option"
    numbers = np.zeros(len(symbols), np.int32)
    bad = np.zeros(len(symbols), bool)
    for index, symbol in enumerate(symbols):
        known = read_contract(symbol) if is_option else TICKER.fullmatch(symbol)
        if known:
            numbers[index] = codes.setdefault(symbol, len(codes))
        else:
            bad[index] = True

    return numbers, bad


def _starts(spec: BarSource, texts: TextColumn) -> tuple[IntArray, BoolArray]:
    """[n] starts of the bars, and which texts are malformed."""
    zone = spec.zone or "UTC"
    start_ns, days, bad = moments(texts, zone)
    if spec.resolution == "minute":
        if spec.stamped == "end":
            start_ns -= MINUTE
        return start_ns, bad | days

    day_zone = spec.day_zone or zone
    if day_zone != "UTC":
        timed = ~days & ~bad
        start_ns[timed], bad[timed] = days_in_zone(start_ns[timed], day_zone)

    return start_ns, bad
