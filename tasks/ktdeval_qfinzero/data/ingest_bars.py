"""Read bar files into bars by instrument. DuckDB turns cells into numbers (`ingest_bars.sql`);
malformed cells are reported; bars are sorted and deduplicated.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ktdeval.errors import ConfigError
from ktdeval_qfinzero.data.ingest_mapping import as_problem, files_of, quote_cell, shape_table
from ktdeval_qfinzero.data.ingest_spec import BarSource
from ktdeval_qfinzero.data.problems import SHOWN, ProblemList
from ktdeval_qfinzero.data.rows import BAR_COLUMNS, AssetClass, BarKey, Bars, IntArray
from ktdeval_qfinzero.data.schema import bar_rules, fill_words, first_broken, memory
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import MINUTE, moment_text, parse_moment
from ktdeval_tables.readers.blocks import TextBlock, read_blocks

FIELDS = ("symbol", "time", "open", "high", "low", "close", "volume", "transactions")
REQUIRED = FIELDS[:-1]
#: Maximum number of rows per ingestion, which are held in memory; more can be added as updates
MAX_ROWS = 100_000_000

BoolArray = npt.NDArray[np.bool_]
#: Tables and views that read cells; `fill_words` completes the statements
STATEMENTS = Path(__file__).with_name("ingest_bars.sql").read_text(encoding="utf-8")
_COLUMNS = ", ".join(BAR_COLUMNS)
_ROUNDED = (
    "SELECT coalesce(sum(is_rounded(texts.open, open_e4) + is_rounded(texts.high, high_e4)"
    " + is_rounded(texts.low, low_e4) + is_rounded(texts.close, close_e4)), 0)::BIGINT FROM block"
)
#: Column of a block for each field
_COLUMN_OF = {
    "symbol": "symbol",
    "time": "start_ns",
    "open": "open_e4",
    "high": "high_e4",
    "low": "low_e4",
    "close": "close_e4",
    "volume": "volume",
    "transactions": "transactions",
}
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
_PRICE = re.compile(r"[0-9]{1,11}(\.([0-9]{1,4})([0-9]{0,36}))?")
_NANOSECONDS = re.compile(r"[0-9]{17,19}")
_MAX_NS = 2**62
_E4 = Decimal("0.0001")


def price_e4(text: str, *, rounded: bool) -> int | None:
    """Return one price in ten-thousandths of a dollar; None if the text is malformed. A price with
    more than four decimals is malformed or, if `rounded`, rounded half to even.
    """
    match = _PRICE.fullmatch(text)
    if match is None:
        return None
    if not rounded and (match[3] or "").strip("0"):
        return None

    return int(Decimal(text).quantize(_E4, ROUND_HALF_EVEN).scaleb(4))


def moment_of(text: str) -> int | None:
    """Parse one time, given as nanoseconds since 1970 or as an ISO 8601 string; None if it is
    malformed.
    """
    if _NANOSECONDS.fullmatch(text):
        return int(text) if int(text) < _MAX_NS else None

    try:
        ns = parse_moment(text, "time")
    except ServiceError:
        return None

    return ns if 0 <= ns < _MAX_NS else None


class BarReader:
    """Collector of the bars in all files below `base`. Bad rows are added to `problems`. `rounded`:
    whether prices with more than four decimals are rounded.
    """

    def __init__(self, base: Path, problems: ProblemList, rounded: bool) -> None:
        self.base = base
        self.problems = problems
        self.rounded = rounded
        self.files: list[str] = []  #: names of the files read so far
        self.duplicates = 0  #: number of rows that repeat another row
        self.units: dict[tuple[AssetClass, str], float] = {}  #: `unit` by instrument
        self.rounded_prices = 0  #: number of prices with more than four decimals
        self._rows = 0
        self._connection = memory()
        self._connection.execute(fill_words(STATEMENTS))

    def read(self, spec: BarSource) -> None:
        """Read the files of a source. Raises ConfigError if no file matches, if the time zone is
        unknown, or if there are too many rows for one ingestion.
        """
        _check_zone("zone", spec.zone)
        _check_zone("day_zone", spec.day_zone)
        if not 1e-8 <= spec.unit <= 1e8:
            raise ConfigError(
                f"unit: expected a number from 0.00000001 to 100000000, was {spec.unit:g}"
            )

        self._connection.execute("SET VARIABLE rounded = ?", (self.rounded,))
        self._connection.execute("SET VARIABLE unit = ?::DOUBLE", (spec.unit,))
        self._connection.execute("SET VARIABLE is_option = ?", (spec.asset_class == "option",))
        skipped = 0 if spec.symbol is None else 1
        for path, name in files_of(self.base, spec.file):
            table = shape_table((path, name), FIELDS[skipped:], REQUIRED[skipped:], spec)
            self.files.append(name)
            for block in read_blocks(table, as_problem(name, self.problems)):
                self._take(spec, name, block)
                self._rows += len(block.lines)
                if self._rows > MAX_ROWS:
                    raise ConfigError(
                        f"{name}: more than {MAX_ROWS} bars at once; ingest some files, and the"
                        " others as updates"
                    )

    def bar_table(self) -> dict[BarKey, Bars]:
        """Return all bars that were read, by instrument, each once. Different bars for one
        instrument and time become problems.
        """
        self._report_repeated()
        names = self._connection.execute(
            "SELECT asset_class, symbol, resolution FROM numbered_series ORDER BY series"
        ).fetchall()
        found = self._connection.execute(
            f"SELECT series, {_COLUMNS} FROM sorted_bars"  # noqa: S608 - constants
        ).fetchnumpy()
        bars = Bars(*(np.asarray(found[name]) for name in BAR_COLUMNS))
        ends = np.searchsorted(found["series"], np.arange(len(names)) + 1, side="right").tolist()
        table: dict[BarKey, Bars] = {}
        for key, begin, end in zip(names, [0, *ends], ends, strict=False):
            table[key] = bars.take(slice(begin, end))

        return table

    def _take(self, spec: BarSource, name: str, block: TextBlock) -> None:
        """Add the rows of a block. Rows with a malformed cell become problems."""
        texts = dict(block.texts)
        if spec.symbol is not None:
            texts["symbol"] = pa.array([spec.symbol] * len(block.lines), pa.string())

        self._connection.register("lines_read", pa.table({"line": block.lines, **texts}))
        self._connection.execute(
            f"CREATE OR REPLACE TABLE given AS SELECT ?::INTEGER AS file, line, {', '.join(FIELDS)}"  # noqa: S608 - constants
            " FROM lines_read",
            (len(self.files) - 1,),
        )
        self._connection.register("starts_read", self._starts(spec))
        self._connection.execute("CREATE OR REPLACE TABLE starts AS FROM starts_read")
        rules = bar_rules(spec.asset_class, spec.resolution)
        are_readable = " AND ".join(f"{column} IS NOT NULL" for column in _COLUMN_OF.values())
        broken = f"CASE WHEN {are_readable} THEN {first_broken(rules)} ELSE -1 END"
        self._connection.execute(
            f"CREATE OR REPLACE TABLE block AS SELECT *, {broken} AS broken FROM read_bars"  # noqa: S608 - constants
        )
        self._check_units(spec, name)
        for field, column in _COLUMN_OF.items():
            self._report(name, field, self._describe_cell(spec, field), f"{column} IS NULL")
        for place, rule in enumerate(rules):
            self._report(name, rule.field, rule.expected, f"broken = {place}")

        if spec.unit == 1.0:
            for (count,) in self._connection.execute(_ROUNDED).fetchall():
                self.rounded_prices += count

        self._connection.execute(
            f"INSERT INTO bars SELECT ?, ?, symbol, file, line, {_COLUMNS} FROM block"  # noqa: S608 - constants
            " WHERE broken IS NULL",
            (spec.asset_class, spec.resolution),
        )

    def _starts(self, spec: BarSource) -> pa.Table:
        """Return the start of the bar for each value of `time`; null if the value is malformed."""
        found = self._connection.execute("FROM times").fetchnumpy()
        start_ns = np.asarray(found["ns"], np.int64)
        forms = np.asarray(found["form"], str)
        bad = forms == ""
        zone = spec.zone or "UTC"
        clocks = forms == "clock"
        start_ns[clocks], bad[clocks] = _moments_of_clocks(start_ns[clocks], zone)
        if spec.resolution == "minute":
            bad |= forms == "day"
            start_ns -= MINUTE if spec.stamped == "end" else 0
        else:
            timed = (forms != "day") & ~bad
            start_ns[timed], wrong = _days_of_moments(start_ns[timed], spec.day_zone or zone)
            bad[timed] = wrong

        times = pa.array(found["time"], pa.string())
        return pa.table({"time": times, "start_ns": pa.array(start_ns, mask=bad)})

    def _describe_cell(self, spec: BarSource, field: str) -> str:
        """Return the expected form of a field's cells."""
        if field == "symbol":
            return _EXPECTED["option" if spec.asset_class == "option" else "ticker"]
        if field == "time" and spec.zone not in (None, "UTC"):
            return f"{_EXPECTED['time']}, which clocks in {spec.zone} show once"
        if field in _EXPECTED:
            return _EXPECTED[field]
        if self.rounded:
            return _EXPECTED["price"]
        return f"{_EXPECTED['price']} (`round: true` rounds them)"

    def _report(self, name: str, field: str, expected: str, condition: str) -> None:
        """Turn the rows of a block that meet a condition into problems."""
        found = self._connection.execute(
            f"SELECT line, texts.{field}, count(*) OVER () FROM block WHERE {condition}"  # noqa: S608 - constants
            f" ORDER BY line LIMIT {SHOWN}"
        ).fetchall()
        for line, text, _ in found:
            self.problems.add(
                f"{name}:{line}: {field}: expected {expected}, was {quote_cell(text)}"
            )
        for *_, count in found[:1]:
            self.problems.count += count - len(found)

    def _check_units(self, spec: BarSource, name: str) -> None:
        """Raise ConfigError if the bars of one instrument have two different units."""
        for (symbol,) in self._connection.execute("SELECT DISTINCT symbol FROM block").fetchall():
            if self.units.setdefault((spec.asset_class, symbol), spec.unit) != spec.unit:
                raise ConfigError(
                    f"{name}: unit: {symbol[:40]} has another one in other files; give all bars of"
                    " it the same"
                )

    def _report_repeated(self) -> None:
        """Count repeated bars. Bars with equal keys and different values become problems."""
        for row in self._connection.execute("FROM repeated_bars").fetchall():
            symbol, start_ns, file, line, first_file, first_line, differs = row
            if not differs:
                self.duplicates += 1
                continue

            self.problems.add(
                f"{self.files[file]}:{line}: time: expected each bar once: {symbol} at"
                f" {moment_text(start_ns)} is other than on {self.files[first_file]}:{first_line}"
            )


def _moments_of_clocks(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Convert local times in a time zone, which were read as if in UTC, to UTC. A time that occurs
    twice in autumn or never in spring is malformed.
    """
    local = pd.to_datetime(values).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    bad: BoolArray = np.asarray(local.isna())
    moments_ns: IntArray = local.asi8
    return np.where(bad, 0, moments_ns), bad


def _days_of_moments(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Return, for times in a time zone, the UTC midnights of the days that begin at them, and which
    of the times begin a day. In UTC all times are kept, since a rule on bars reports those that
    begin no day.
    """
    if zone == "UTC":
        return values, np.zeros(len(values), bool)

    local = pd.to_datetime(values, utc=True).tz_convert(zone).tz_localize(None)
    days = local.normalize()
    return days.asi8, np.asarray(local != days)


def _check_zone(name: str, zone: str | None) -> None:
    zone = zone or "UTC"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{name}: no time zone {zone[:40]!r}; expected one such as UTC or America/New_York"
        ) from error
