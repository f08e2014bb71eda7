"""Cells of a program's rows: texts, numbers, days and moments, each with its place in messages.

A stamp with an offset is a moment, whose day depends on the market's time zone. Programs that label
sessions write them as midnight UTC: `2024-03-15 00:00:00+00:00` names the 15th everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ktdeval.errors import DataError, UsageError
from ktdeval.values import NO_HEADER, TableFile, TableShape, WrittenNumber, read_rows
from ktdeval_judge.readers.sample import FileSample, near_name, sample_of

NEW_YORK = "America/New_York"
INDEX_NAMES = frozenset(
    {"", "index", "date", "datetime", "day", "timestamp", "unnamed: 0", "__index_level_0__"}
)  #: columns in which pandas writes an index of days
_COMPACT_DAY = re.compile(r"[0-9]{8}")
_SHOWN = 40  # characters of a cell
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIDES = {
    "buy": "buy", "bot": "buy", "cover": "buy", "buy_to_cover": "buy",
    "sell": "sell", "sld": "sell", "short": "sell", "sell_short": "sell",
}  # fmt: skip


@dataclass(frozen=True)
class CellRow:
    """A row of a table or an object of a document."""

    place: str  #: file and line, or file and key
    cells: Mapping[str, Any]
    unit: str = "column"  #: what `cells` is keyed by
    shown_as: Mapping[str, str] = field(default_factory=dict)  #: names that differ in messages

    def refuse(self, name: str, words: str) -> NoReturn:
        """Raise DataError with the place of a cell."""
        shown = self.shown_as.get(name, name)
        raise DataError(f"{self.place}: {self.unit} {shown!r}: {words}")

    def has(self, name: str) -> bool:
        """Whether a cell is there and not empty."""
        return self.cells.get(name) not in (None, "")

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self.cells.get(name)
        if not isinstance(value, str) or not value.strip():
            self.refuse(name, f"expected a text, was {_quote_value(value)}")
        return value.strip()

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self.cells.get(name)
        number = _number(value)
        if not math.isfinite(number):
            self.refuse(name, f"expected a number, was {_quote_value(value)}")
        return number

    def positive(self, name: str) -> float:
        """Return a number above zero."""
        number = self.number(name)
        if number <= 0:
            self.refuse(name, f"expected a number above zero, was {_quote_value(self.cells[name])}")
        return number

    def side(self, name: str) -> str:
        """Return `buy` or `sell`; a short sale is a sell, its cover a buy."""
        side = _SIDES.get(self.text(name).lower().replace(" ", "_"))
        if side is None:
            self.refuse(name, f"expected buy or sell, was {_quote_value(self.cells[name])}")
        return side

    def moment(self, name: str, zone: str = "", *, is_label: bool = True) -> datetime:
        """Return the clock of the market at a day or stamp, without an offset.

        `zone`: where the market is; empty: the stamp's own clock. `is_label`: midnight UTC names a
        session rather than a moment.
        """
        value = self.cells.get(name)
        stamp = _stamp(value.strip()) if isinstance(value, str) else None
        if stamp is None:
            self.refuse(name, f"expected a day such as 2024-01-31, was {_quote_value(value)}")
        if stamp.tzinfo is None:
            return stamp

        is_midnight = stamp.astimezone(UTC).time() == datetime.min.time()
        if is_label and is_midnight:
            return stamp.astimezone(UTC).replace(tzinfo=None)

        local = stamp.astimezone(zone_of(zone)) if zone else stamp
        return local.replace(tzinfo=None)

    def unix_moment(self, name: str, zone: str) -> datetime:
        """Return the clock of the market at unix seconds (UTC)."""
        seconds = self.number(name)
        if not 0 <= seconds < 1 << 33:
            self.refuse(name, f"expected unix seconds, was {_quote_value(self.cells[name])}")
        moment = _EPOCH + timedelta(seconds=seconds)
        return moment.astimezone(zone_of(zone)).replace(tzinfo=None)

    def items(self, name: str) -> Sequence[Any]:
        """Return a list of a document."""
        value = self.cells.get(name)
        if not isinstance(value, list):
            self.refuse(name, f"expected a list, was {_quote_value(value)}")
        return value

    def members(self, name: str) -> Mapping[str, Any]:
        """Return an object of a document."""
        value = self.cells.get(name)
        if not isinstance(value, Mapping):
            self.refuse(name, f"expected an object, was {_quote_value(value)}")
        return value


def day_of(moment: date) -> int:
    """Return the day of a moment as yyyymmdd."""
    return moment.year * 10_000 + moment.month * 100 + moment.day


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone. Raises UsageError: there is none of this name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise UsageError(
            f"{name[:_SHOWN]!r} is not a time zone; write one such as {NEW_YORK}"
        ) from error


def object_row(place: str, value: Any) -> CellRow:
    """Return the row of a JSON object. Raises DataError: it is none."""
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: expected an object, was {_quote_value(value)}")
    return CellRow(place, value, unit="key")


def read_table(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> list[CellRow]:
    """Return the rows of a table with these columns or near names of them; others are passed over.
    `renamed`: names for columns that are written with others, or with none. Raises DataError: the
    first fault, with file, line and column.
    """
    fields = (*required, *optional)
    near = {near_name(name): name for name in fields}
    written = {
        column: near[near_name(column)]
        for column in sample_of(path).columns
        if column not in fields and near_name(column) in near
    }
    shape = TableShape(
        fields=fields,
        required=tuple(required),
        renamed={**written, **renamed},
        ignored=("*",),
        kinds=("csv", "parquet"),
        exact=True,
        must_end=True,
    )

    return list(_rows(TableFile(path, shape), {}))


def read_wide(path: Path) -> tuple[list[CellRow], list[str]]:
    """Return the rows of a table with a column of days, `day` of each row, and the names of its other
    columns. Raises DataError: there is no such column; else as of `read_table`.
    """
    sample = sample_of(path)
    index = index_column(sample)
    others = [column for column in sample.columns if column != index]
    shape = TableShape(
        fields=("day", *others),
        required=("day",),
        renamed={index: "day"},
        aliases={"": "day"},
        kinds=("csv", "parquet"),
        exact=True,
        must_end=True,
    )

    return list(_rows(TableFile(path, shape), {"day": index or "(first)"})), others


def index_column(sample: FileSample) -> str:
    """Return the name of the column that holds the days. Raises DataError: there is none."""
    if not sample.columns:
        raise DataError(f"{sample.path}: {NO_HEADER}")

    for column in sample.columns:
        if column.strip().lower() in INDEX_NAMES:
            return column

    shown = ", ".join(sample.columns)[:200]
    raise DataError(
        f"{sample.path}: lacks the column date; its columns: {shown}; write the index of days too"
    )


def _rows(table: TableFile, shown_as: Mapping[str, str]) -> Iterator[CellRow]:
    is_empty = True
    for row in read_rows(table):
        is_empty = False
        yield CellRow(table.place(row.line), row.cells, shown_as=shown_as)

    if is_empty:
        raise DataError(f"{table.path}: has no rows; export a period with trading days")


def _number(value: Any) -> float:
    """Return a number, or NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    if isinstance(value, str) and "_" in value:
        return math.nan  # Python reads 1_000, no program writes it

    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _stamp(text: str) -> datetime | None:
    if _COMPACT_DAY.fullmatch(text):
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None

    return stamp if 1900 <= stamp.year < 2200 else None


def _quote_value(value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, WrittenNumber):
        return str(value)[:_SHOWN]
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!r:.{_SHOWN}}"
