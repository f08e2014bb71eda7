"""From files of bars to bars by instrument: read in columns, exactly; malformed cells are marked; sorted, each bar once."""

from __future__ import annotations

import re
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
import pyarrow.compute as pc

from ktdeval.errors import ConfigError
from ktdeval_qfinzero.data.bar_files import join
from ktdeval_qfinzero.data.blocks import SHOWN, Problems, broken_rules
from ktdeval_qfinzero.data.ingest_files import Columns, columns_of, shown, source_of, sources_of
from ktdeval_qfinzero.data.ingest_spec import BarSource
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, AssetClass, BarKey, Bars, FloatArray, IntArray, Resolution
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import TICKER, read_contract
from ktdeval_qfinzero.moments import DAY, MINUTE, SECOND, moment_text, parse_moment

BoolArray = npt.NDArray[np.bool_]

_PRICE = r"[0-9]{1,11}(\.[0-9]{1,4}0{0,20})?"
_FINER_PRICE = re.compile(r"[0-9]{1,11}\.[0-9]{1,40}")
_VOLUME = r"[0-9]{1,16}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?"
_WHOLE = r"[0-9]{1,16}"
_NANOSECONDS = r"[0-9]{17,19}"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?Z?"
_LOCAL = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_MOST_NS = 2**62
_E4 = Decimal("0.0001")
_TIE_DECIMALS = 6  #: Of a product of floats, by which a half is seen as one: 4567.85 × 0.001 × 10,000 is 45678.50000000001
_QUOTIENT_ERROR = 4 * np.finfo(np.float64).eps  #: Relative, of two decimals: 1.001 / 0.001 is 1000.9999999999999
_EPOCH_ORDINAL = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def prices_e4(texts: pa.Array, rounded: bool, unit: float = 1.0) -> tuple[IntArray, BoolArray, int]:
    """[n] decimal dollars, of `unit` of what the file is about, in ten-thousandths, which are malformed, and how many were rounded;
    more decimals are malformed, or `rounded`, halves to even.
    """
    count = 0
    if unit != 1.0:
        whole, bad = volumes(texts)
        return np.rint(np.round(whole * unit * 10_000, _TIE_DECIMALS)).astype(np.int64), bad, 0
    good = _matches(texts, _PRICE)
    values = _decimals(texts if good.all() else pc.if_else(pa.array(good), texts, "0"))
    if rounded and not good.all():
        for row in np.flatnonzero(~good).tolist():
            text = texts[row].as_py()
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


def volumes(texts: pa.Array) -> tuple[FloatArray, BoolArray]:
    """Numbers from 0, and which texts are malformed."""
    good = _matches(texts, _VOLUME)
    numeric = pc.if_else(pa.array(good), texts, "0")
    values: FloatArray = np.array(numeric.cast(pa.float64()).to_numpy(zero_copy_only=False))
    return values, ~good


def whole_numbers(texts: pa.Array, *, missing: int | None = None) -> tuple[IntArray, BoolArray]:
    """Whole numbers from 0, and which texts are malformed; an empty text is `missing` where that is given."""
    if missing is not None:
        texts = pc.if_else(pc.equal(texts, ""), str(missing), texts)
    good = _matches(texts, _WHOLE)
    return _integers(pc.if_else(pa.array(good), texts, "0")), ~good


def moments(texts: pa.Array, zone: str = "UTC") -> tuple[IntArray, BoolArray, BoolArray]:
    """[n] moments (nanoseconds since 1970, ISO texts, of `zone` without an offset, or days), which are days, which malformed."""
    texts = _spelled(texts)
    days = _matches(texts, _DATE)
    local = ~days & _matches(texts, _LOCAL) if zone != "UTC" else np.zeros(len(texts), bool)
    values, bad = _read_moments(texts)
    if local.any():
        values[local], bad[local] = _from_zone(values[local], zone)
    return values, days, bad


def _spelled(texts: pa.Array) -> pa.Array:
    """Times as vendors write them in the form of ISO 8601: a blank before the hour, ` UTC` after it, offsets without a colon."""
    texts = pc.replace_substring_regex(texts, r"^([0-9]{4}-[0-9]{2}-[0-9]{2}) ", r"\1T")
    texts = pc.replace_substring_regex(texts, r"( UTC|[+]00:?00)$", "Z")
    return pc.replace_substring_regex(texts, r"(T.*[+-][0-9]{2})([0-9]{2})$", r"\1:\2")


def _from_zone(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Moments of local times, read as if they were UTC; one that an autumn repeats or a spring skips is malformed."""
    local = pd.to_datetime(values).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    return np.where(local.isna(), 0, local.asi8), np.asarray(local.isna())


def _read_moments(texts: pa.Array) -> tuple[IntArray, BoolArray]:
    for pattern, cast in ((_NANOSECONDS, _nanoseconds), (f"{_DATE}|{_ISO}", _instants)):
        if _matches(texts, pattern).all():
            with suppress(pa.ArrowException):  # one of them is malformed: read each by itself
                return cast(texts).copy(), np.zeros(len(texts), bool)
    encoded = texts.dictionary_encode()
    read = [moment_of(text) for text in encoded.dictionary.to_pylist()]
    rows = encoded.indices.to_numpy()
    return np.array([ns or 0 for ns in read], np.int64)[rows], np.array([ns is None for ns in read], bool)[rows]


def days_in_zone(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Midnights in UTC of the days that begin at these moments in a time zone, and which moments begin none."""
    distinct, inverse = np.unique(values, return_inverse=True)
    days, bad = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), bool)
    for row, moment in enumerate(distinct.tolist()):
        local = datetime.fromtimestamp(moment // SECOND, UTC).astimezone(ZoneInfo(zone))
        days[row] = local.toordinal() - _EPOCH_ORDINAL
        bad[row] = bool(moment % SECOND) or (local.hour, local.minute, local.second) != (0, 0, 0)
    return days[inverse] * DAY, bad[inverse]


def _matches(texts: pa.Array, pattern: str) -> BoolArray:
    matches = pc.match_substring_regex(texts, f"^(?:{pattern})$").to_numpy(zero_copy_only=False)
    return np.array(matches, bool)


def _decimals(texts: pa.Array) -> IntArray:
    """Exact ten-thousandths of texts that all are prices."""
    exact = texts.cast(pa.decimal128(38, 4))
    # Sixteen bytes a number, the low eight first: none of ours needs more.
    low: IntArray = np.frombuffer(exact.buffers()[1], np.int64)[2 * exact.offset : 2 * (exact.offset + len(exact)) : 2].copy()
    return low


def _integers(texts: pa.Array) -> IntArray:
    values: IntArray = np.array(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return values


def _nanoseconds(texts: pa.Array) -> IntArray:
    values = _integers(texts)
    if (values >= _MOST_NS).any():
        raise pa.ArrowInvalid("too large")
    return values


def _instants(texts: pa.Array) -> IntArray:
    plain = pc.replace_substring_regex(texts, "Z$", "")
    values: IntArray = plain.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if (values < 0).any() or (values >= _MOST_NS).any():
        raise pa.ArrowInvalid("out of range")
    return values


def moment_of(text: str) -> int | None:
    """Return one moment, as `moments` reads them; None if the text is malformed."""
    if re.fullmatch(_NANOSECONDS, text):
        return int(text) if int(text) < _MOST_NS else None
    try:
        ns = parse_moment(text, "time")
    except ServiceError:
        return None
    return ns if 0 <= ns < _MOST_NS else None


FIELDS = ("symbol", "time", "open", "high", "low", "close", "volume", "transactions")
REQUIRED = FIELDS[:-1]
MOST_ROWS = 100_000_000  #: Of one ingestion, which holds them in memory; more come as updates

_PRICES = ("open", "high", "low", "close")
_LINE_BITS = 40
_EXPECTED = {
    "time": "a moment such as 2025-01-06T14:30:00Z, nanoseconds since 1970, or for bars of days a day such as 2025-01-06",
    "price": "dollars with at most four decimals, such as 101.25",
    "volume": "a number from 0",
    "transactions": "a whole number from 0",
    "option": "an OPRA symbol such as O:AVLN250221P00225000",
    "ticker": "a ticker in capitals",
}


@dataclass(slots=True)
class _Series:
    codes: dict[str, int] = field(default_factory=dict)
    symbols: list[npt.NDArray[np.int32]] = field(default_factory=list)
    bars: list[Bars] = field(default_factory=list)
    origins: list[IntArray] = field(default_factory=list)


@dataclass(slots=True)
class BarReader:
    """Collects the bars of all files."""

    base: Path  #: folder that paths are relative to
    problems: Problems  #: where bad rows go
    rounded: bool  #: whether prices of more than four decimals are rounded
    files: list[str] = field(default_factory=list)  #: names of the files read so far
    duplicates: int = 0  #: rows that repeat another one
    units: dict[tuple[AssetClass, str], float] = field(default_factory=dict)  #: `unit` of each instrument
    rounded_prices: int = 0  #: prices that had more than four decimals
    _series: dict[tuple[AssetClass, Resolution], _Series] = field(default_factory=dict)
    _rows: int = 0

    def read(self, spec: BarSource) -> None:
        """Read the files of a source. Raises ConfigError: no such file or time zone, or too many rows for one ingestion."""
        for name, zone in (("zone", spec.zone or "UTC"), ("day_zone", spec.day_zone or "UTC")):
            try:
                ZoneInfo(zone)
            except (OSError, ValueError, KeyError) as error:
                raise ConfigError(f"{name}: no time zone {zone[:40]!r}; expected one such as UTC or America/New_York") from error
        if not 1e-8 <= spec.unit <= 1e8:
            raise ConfigError(f"unit: expected a number from 0.00000001 to 100000000, was {spec.unit:g}")
        skipped = 0 if spec.symbol is None else 1
        for path, name in sources_of(self.base, spec.file):
            source = source_of((path, name), FIELDS[skipped:], REQUIRED[skipped:], spec)
            self.files.append(name)
            for columns in columns_of(source, self.problems):
                self._take(spec, name, columns)
                self._rows += len(columns.lines)
                if self._rows > MOST_ROWS:
                    raise ConfigError(f"{name}: more than {MOST_ROWS} bars at once; ingest some files, and the others as updates")

    def bar_table(self) -> dict[BarKey, Bars]:
        """All bars that were read, by instrument, each once; bars of one instrument and moment that differ become problems."""
        table: dict[BarKey, Bars] = {}
        for (asset_class, resolution), series in self._series.items():
            codes = np.concatenate(series.symbols)
            bars, origins = join(series.bars), np.concatenate(series.origins)
            order = np.argsort(codes, kind="stable")
            begins = np.searchsorted(codes[order], np.arange(len(series.codes) + 1))
            for symbol, code in series.codes.items():
                rows = order[begins[code] : begins[code + 1]]
                if len(rows):
                    table[asset_class, symbol, resolution] = self._each_once(symbol, bars.take(rows), origins[rows])
        return table

    def _take(self, spec: BarSource, name: str, columns: Columns) -> None:
        texts, lines = columns.texts, columns.lines
        bad = np.zeros(len(lines), bool)

        def mark(wrong: npt.NDArray[np.bool_], column_name: str, expected: str) -> None:
            self._report(name, lines, wrong, column_name, (expected, texts.get(column_name)))
            np.logical_or(bad, wrong, out=bad)

        series = self._series.setdefault((spec.asset_class, spec.resolution), _Series())
        codes, wrong = _codes(spec, columns, series.codes)
        mark(wrong, "symbol", _EXPECTED["option" if spec.asset_class == "option" else "ticker"])
        for symbol in [spec.symbol] if spec.symbol is not None else texts["symbol"].unique().to_pylist():
            if self.units.setdefault((spec.asset_class, symbol), spec.unit) != spec.unit:
                raise ConfigError(f"{name}: unit: {symbol[:40]} has another one in other files; give all bars of it the same")
        start_ns, wrong = _starts(spec, texts["time"])
        mark(wrong, "time", _EXPECTED["time"] + ("" if spec.zone in (None, "UTC") else f", which clocks in {spec.zone} show once"))
        values: dict[str, npt.NDArray[np.generic]] = {"start_ns": start_ns}
        for price in _PRICES:
            values[f"{price}_e4"], wrong, count = prices_e4(texts[price], self.rounded, spec.unit)
            self.rounded_prices += count
            mark(wrong, price, _EXPECTED["price"] + ("" if self.rounded else " (`round: true` rounds them)"))
        volume, wrong = volumes(texts["volume"])
        values["volume"] = volume if spec.unit == 1.0 else np.floor(volume / spec.unit * (1 + _QUOTIENT_ERROR))
        mark(wrong, "volume", _EXPECTED["volume"])
        values["transactions"], wrong = whole_numbers(texts["transactions"], missing=0)
        mark(wrong, "transactions", _EXPECTED["transactions"])
        read: list[npt.NDArray[np.generic]] = [values[column] for column in BAR_COLUMNS]
        bars = Bars(*read)  # type: ignore[arg-type]
        for rule in broken_rules(bars, spec.asset_class, spec.resolution):
            # An unreadable cell is reported once, as unreadable.
            mark(rule.bad & ~bad, rule.field, rule.expected)
        series.symbols.append(codes[~bad])
        series.bars.append(bars.take(~bad))
        series.origins.append(((len(self.files) - 1) << _LINE_BITS) + lines[~bad])

    def _report(
        self, name: str, lines: IntArray, wrong: npt.NDArray[np.bool_], field_name: str, reason: tuple[str, pa.Array | None]
    ) -> None:
        rows = np.flatnonzero(wrong)
        expected, texts = reason
        for row in rows[:SHOWN].tolist():
            was = "" if texts is None else f", was {shown(texts[row].as_py())}"
            self.problems.add(f"{name}:{lines[row]}: {field_name}: expected {expected}{was}")
        self.problems.count += max(0, len(rows) - SHOWN)

    def _each_once(self, symbol: str, bars: Bars, origins: IntArray) -> Bars:
        if (np.diff(bars.start_ns) > 0).all():
            return bars
        order = np.argsort(bars.start_ns, kind="stable")
        bars, origins = bars.take(order), origins[order]
        twice = np.flatnonzero(np.diff(bars.start_ns) == 0)
        differs = np.zeros(len(twice), bool)
        for column in BAR_COLUMNS:
            values = getattr(bars, column)
            differs |= values[twice] != values[twice + 1]
        for row in twice[differs].tolist():
            wheres = [self._where(origin) for origin in origins[row : row + 2].tolist()]
            moment = moment_text(int(bars.start_ns[row]))
            self.problems.add(f"{wheres[1]}: time: expected each bar once: {symbol} at {moment} is other than on {wheres[0]}")
        self.duplicates += int((~differs).sum())
        keep = np.ones(len(bars), bool)
        keep[twice + 1] = False
        return bars.take(keep)

    def _where(self, origin: int) -> str:
        return f"{self.files[origin >> _LINE_BITS]}:{origin & ((1 << _LINE_BITS) - 1)}"


def _codes(spec: BarSource, columns: Columns, codes: dict[str, int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return the number of each row's symbol, and which symbols are malformed; new symbols get the next numbers."""
    if spec.symbol is not None:
        names, rows = [spec.symbol], np.zeros(len(columns.lines), np.int64)
    else:
        encoded = columns.texts["symbol"].dictionary_encode()
        names, rows = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    is_option = spec.asset_class == "option"
    good = [bool(read_contract(text) if is_option else TICKER.fullmatch(text)) for text in names]
    numbers = [codes.setdefault(text, len(codes)) if fine else 0 for text, fine in zip(names, good)]
    return np.array(numbers, np.int32)[rows], ~np.array(good, bool)[rows]


def _starts(spec: BarSource, texts: pa.Array) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    zone = spec.zone or "UTC"
    start_ns, days, bad = moments(texts, zone)
    if spec.resolution == "minute":
        return start_ns - (MINUTE if spec.stamped == "end" else 0), bad | days
    if (day_zone := spec.day_zone or zone) != "UTC":
        timed = ~days & ~bad
        start_ns[timed], bad[timed] = days_in_zone(start_ns[timed], day_zone)
    return start_ns, bad
