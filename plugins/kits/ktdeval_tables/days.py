"""Days in table cells: dates, midnight timestamps, Unix time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval_tables.readers.text_encoding import at_line

EXCEL = "excel"
ROC = "roc"  #: years of the Republic of China (year minus 1911)
UNIX_UNITS = {"unix_s": 10**0, "unix_ms": 10**3, "unix_us": 10**6, "unix_ns": 10**9}
WITHIN_DAYS = "bars within days: give daily bars by --bars, and these beside them by --minutes"
WORDS = (EXCEL, ROC, *UNIX_UNITS)  #: values of `--date-format` other than strptime formats

# Days outside this range would overflow nanoseconds without an error.
_EARLIEST = np.datetime64("1678-01-01")
_LATEST = np.datetime64("2261-12-31")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXCEL_EPOCH = date(1899, 12, 30)
_COMPACT = re.compile(r"[0-9]{8}")
_ORDERED = re.compile(r"([0-9]{4})[-/.年]([0-9]{1,2})[-/.月]([0-9]{1,2})日?")
_STAMP = re.compile(
    r"(.*?[0-9日])[T ]+"
    r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)"
    r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?",
)
_MIDNIGHT = re.compile(r"0{1,2}:00(?::00(?:\.0+)?)?")
WEEKDAY = re.compile(r"[ ,，]*(?:星期|周)?[一二三四五六日天]$")
_UNIX_DIGITS = re.compile(r"[0-9]{9,10}|[0-9]{12,13}|[0-9]{15,16}|[0-9]{18,19}")
_ROC_DAY = re.compile(r"([0-9]{2,3})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})")
_SERIAL = re.compile(r"[2-7][0-9]{4}")
_DATES = (
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y", "%b %d, %Y", "%B %d, %Y",
    "%d %b %Y", "%d-%b-%Y", "%d%b%Y", "%d %B %Y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%d.%m.%y",
    "%d-%m-%y", "%a %b %d %Y", "%a, %d %b %Y", "%Y%d%m", "%d%m%Y",
)  # fmt: skip
_STAMPS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M",
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S%z",
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M:%S %p",
    "%Y%m%d%H%M%S", "%Y%m%d%H%M",
)  # fmt: skip
_FORMATS = (*_DATES, *_STAMPS)
_WITHOUT_MARKS = {"%Y%d%m", "%d%m%Y", "%Y%m%d%H%M%S", "%Y%m%d%H%M"}
_OTHERS = (
    "%b %d, %Y, %I:%M %p", "%b %d, %Y, %I:%M:%S %p", "%d/%m/%y %H:%M:%S",
    "%b %d, %Y %I:%M:%S %p", "%b %d, %Y %H:%M:%S", "%m/%d/%y %H:%M",
    "%d/%m/%y %H:%M", "%m/%d/%Y %I:%M %p", "%d/%m/%Y %I:%M %p", "%d.%m.%Y %H:%M", "%d-%m-%Y %H:%M",
    "%d-%m-%Y %H:%M:%S", "%m-%d-%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%b-%d-%Y", "%b %Y", "%Y-%m",
)  # fmt: skip
DAY_FORMATS = (*(form for form in _FORMATS if form not in _WITHOUT_MARKS), *_OTHERS)
"""Usual formats of dates and timestamps in a column with a single format."""
_DIGITS = {"%Y%d%m": 8, "%d%m%Y": 8, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}
"""Number of digits in formats without separators. strptime accepts fewer digits, and then reads
another day.
"""
MIDNIGHT_ZONES = (
    "America/New_York",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Europe/London",
    "Europe/Berlin",
    "Asia/Kolkata",
    "UTC",
)


@dataclass(frozen=True)
class DayForm:
    """Form of the days in a column."""

    format: str = ""  #: strptime format, or one of `WORDS`; empty: any unambiguous form
    zone: str = ""  #: time zone whose midnights begin the days; empty: the cells' own zone, or UTC

    def __post_init__(self) -> None:
        if self.zone:
            zone_of(self.zone, "--date-zone")
        if self.format and self.format not in WORDS and "%" not in self.format:
            raise UsageError(
                f"--date-format {self.format!r} is not a format such as %d/%m/%Y, nor one of"
                f" {', '.join(WORDS)}",
            )


ISO = DayForm()


def looks_like_day(text: str, stamps: bool = False) -> bool:
    """Return whether a cell is a day in an unambiguous form. `stamps`: also accept Unix time and
    other date formats.
    """
    found = _STAMP.fullmatch(text)
    day = found[1] if found else text
    if _ORDERED.fullmatch(day) or (_COMPACT.fullmatch(day) and "1900" < day < "2100"):
        return True
    return stamps and bool(_UNIX_DIGITS.fullmatch(text) or fitting_formats([text]))


def parse_days(series: pd.Series, where: str, form: DayForm = ISO) -> pd.Series:
    """Return days as datetime64, from dates (`2024-01-02`, `20240102`), midnight timestamps or Unix
    time. Empty cells become NaT.

    Raises DataError if a cell is not a day from 1678 to 2261 (the range of nanoseconds), or has a
    time of day, since bars are daily.
    """
    if pd.api.types.is_datetime64_any_dtype(series):
        return _of_stamps(series, where, form)

    codes, texts = pd.factorize(series)
    cells = [_bare_cell(text) for text in texts]
    days = _by_format(cells, form) if form.format else []

    # The format may be meant for another file, while this file has unambiguous days.
    if not any(days):
        days = [_day_of_cell(cell, form.zone) for cell in cells]

    parsed = np.array([_nanoseconds(day) for day in days], dtype="datetime64[ns]")
    wrong = np.isnat(parsed)
    if wrong.any():
        bad = str(texts[int(np.flatnonzero(wrong)[0])])
        raise DataError(f"{_place(where, bad)}: {_fault(bad, cells, form)}")

    values = np.append(parsed, np.datetime64("NaT", "ns"))
    return pd.Series(values[codes], index=series.index)


def fitting_formats(cells: Sequence[str]) -> list[str]:
    """Return the usual strptime formats that fit all cells."""
    if not cells:
        return []

    fitting = []
    for form in _FORMATS:
        if all(_strptime(cell, form) is not None for cell in cells):
            fitting.append(form)

    return fitting


def _place(where: str, cell: str) -> str:
    """Return `bars.csv: line 7: date` for a cell of `bars.csv: date`."""
    file, mark, column = where.rpartition(": ")
    return f"{at_line(file, cell)}: {column}" if mark else where


def _bare_cell(text: object) -> str:
    """Return a cell without spaces, without the weekday, and without the `.0` from a column that
    was read as numbers.
    """
    if isinstance(text, float) and text.is_integer():
        return str(int(text))

    without_weekday = WEEKDAY.sub("", str(text).strip())
    return re.sub(r"^([0-9]+)\.0+$", r"\1", without_weekday)


def _nanoseconds(day: date | None) -> np.datetime64:
    if day is None:
        return np.datetime64("NaT", "ns")

    exact = np.datetime64(day, "D")
    if not _EARLIEST <= exact <= _LATEST:
        return np.datetime64("NaT", "ns")

    whole: np.datetime64 = exact.astype("datetime64[ns]")
    return whole


def _day_of_cell(cell: str, zone: str) -> date | None:
    """Return the day of a cell, or None if it is not a day or has a time of day."""
    if _UNIX_DIGITS.fullmatch(cell):
        return _midnight(_unix(cell), zone or "UTC")

    stamp = _STAMP.fullmatch(cell)
    if stamp is None:
        return _date(cell)

    day = _date(stamp[1])
    if day is None:
        return None
    if zone and stamp[3]:
        return _midnight(_stamp_moment(day, stamp[2], stamp[3]), zone)

    return day if _MIDNIGHT.fullmatch(stamp[2]) else None


def _date(text: str) -> date | None:
    """Return the date in text with the order year, month, day."""
    ordered = _ORDERED.fullmatch(text)
    if ordered is not None:
        year, month, day = map(int, ordered.groups())
    elif _COMPACT.fullmatch(text):
        year = int(text[:4])
        month = int(text[4:6])
        day = int(text[6:8])
    else:
        return None

    try:
        return date(year, month, day)
    except ValueError:
        return None


def _stamp_moment(day: date, time: str, offset: str) -> datetime | None:
    """Return the point in time given by a day, a time and an offset."""
    plain = offset.replace("UTC", "Z")
    whole = time if time.count(":") == 2 else f"{time}:00"
    try:
        return datetime.fromisoformat(f"{day.isoformat()}T{whole.zfill(8)[:15]}{plain}")
    except ValueError:
        return None


def _unix(cell: str, per_second: int = 0) -> datetime | None:
    """Return the point in time given by a Unix time. Without `per_second`, the number of digits
    determines the unit.
    """
    parts = per_second or 10 ** (3 * ((len(cell) - 9) // 3))
    try:
        seconds, rest = divmod(int(cell), parts)
        return _EPOCH + timedelta(seconds=seconds, microseconds=rest * 10**6 // parts)
    except (ValueError, OverflowError):
        return None


def _midnight(moment: datetime | None, zone: str) -> date | None:
    """Return the day that begins at a point in time in a zone; None if it is not midnight there."""
    if moment is None:
        return None

    local = moment.astimezone(zone_of(zone))
    if local.time().replace(tzinfo=None) != datetime.min.time():
        return None
    return local.date()


def zone_of(name: str, option: str = "--zone") -> ZoneInfo:
    """Return a time zone. Raises UsageError if the name is unknown."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"{option} {name[:40]!r} is not a time zone; write one such as America/New_York",
        ) from error


# ---- with a format chosen by the user


def _by_format(cells: Sequence[str], form: DayForm) -> list[date | None]:
    """Return days parsed with a format, at any time of day: the day as written, or the day in the
    form's zone.
    """
    return [_parse_by_format(cell, form) for cell in cells]


def _parse_by_format(cell: str, form: DayForm) -> date | None:
    """Return the day in a cell that has the given format; None if the cell has another form."""
    if form.format == EXCEL:
        serial = re.fullmatch(r"([0-9]{1,6})(?:\.[0-9]+)?", cell)
        if serial is None:
            return None
        return _EXCEL_EPOCH + timedelta(days=int(serial[1]))

    if form.format == ROC:
        roc_day = _ROC_DAY.fullmatch(cell)
        if roc_day is None:
            return None
        return _date(f"{int(roc_day[1]) + 1911}-{roc_day[2]}-{roc_day[3]}")

    zone = form.zone
    if form.format in UNIX_UNITS:
        moment = _unix(cell, UNIX_UNITS[form.format]) if cell.isdigit() else None
        zone = zone or "UTC"
    else:
        moment = _strptime(cell, form.format)

    if moment is None:
        return None
    if zone and moment.tzinfo is not None:
        return moment.astimezone(zone_of(zone)).date()
    return moment.date()


def _strptime(cell: str, form: str) -> datetime | None:
    if len(cell) != _DIGITS.get(form, len(cell)):
        return None

    try:
        return datetime.strptime(cell, form)
    except ValueError:
        return None


# ---- messages about cells that are not days


def _fault(bad: str, cells: Sequence[str], form: DayForm) -> str:
    """Return a description of an unreadable cell, and the option with which such cells can
    be read.
    """
    expected = "expected 2024-01-02 or 20240102, from 1678 to 2261"
    if form.format:
        return f"{bad!r} is not a day of --date-format {form.format}; name the file's format"

    words = f"{bad!r} is not a day ({expected}); bars must be daily"
    cell = _bare_cell(bad)
    if _SERIAL.fullmatch(cell):
        day = _EXCEL_EPOCH + timedelta(days=int(cell))
        return f"{words}; if it is Excel's number for {day}, say --date-format {EXCEL}"

    if _UNIX_DIGITS.fullmatch(cell) or _STAMP.fullmatch(cell):
        return f"{words}; {_advice_on_times(cells, bad)}"

    filled = [each for each in cells if each]
    fitting = fitting_formats(filled) or fitting_formats([cell])
    if not fitting and _ROC_DAY.fullmatch(cell):
        return f"{words}; if its years are of the Republic of China, say --date-format {ROC}"
    if not fitting:
        return words

    named = " or ".join(f"--date-format '{each}'" for each in fitting[:3])
    return f"{words}; say how days are written: {named}"


def _advice_on_times(cells: Sequence[str], bad: str) -> str:
    """Return advice on days with times.

    Several times on the same day mean intraday bars. Other times may be midnight in some time zone.
    """
    moments = []
    for cell in cells:
        moment = _any_moment(cell)
        if moment is not None:
            moments.append(moment)

    days = {moment.date() for moment in moments}
    if len(set(moments)) > 1.5 * len(days) + 1:
        return f"these are {WITHIN_DAYS}"

    if moments and all(moment.tzinfo for moment in moments):
        for zone in MIDNIGHT_ZONES:
            if all(_midnight(moment, zone) for moment in moments):
                return f"it is midnight in {zone}: say --date-zone {zone}"

    named = _format_of(_bare_cell(bad), cells)
    return (
        "a bar that begins at such a time may end on the next day;"
        f" if these are the days of their bars, take them as written: --date-format '{named}'"
    )


def _format_of(cell: str, cells: Sequence[str]) -> str:
    if _UNIX_DIGITS.fullmatch(cell):
        return list(UNIX_UNITS)[(len(cell) - 9) // 3]

    filled = [text for text in cells if text]
    fitting = fitting_formats(filled) or fitting_formats([cell])
    return fitting[0] if fitting else "%Y-%m-%d %H:%M:%S"


def _any_moment(cell: str) -> datetime | None:
    """Return the point in time of a timestamp, with a time zone if the timestamp has one."""
    if _UNIX_DIGITS.fullmatch(cell):
        return _unix(cell)

    stamp = _STAMP.fullmatch(cell)
    day = _date(stamp[1]) if stamp else _date(cell)
    if day is None:
        return None
    if stamp is None:
        return datetime(day.year, day.month, day.day)

    return _stamp_moment(day, stamp[2], stamp[3] or "")


# ---- timestamps in typed columns


def _of_stamps(series: pd.Series, where: str, form: DayForm) -> pd.Series:
    """Return the days in a timestamp column, whose values must be midnights, in `--date-zone` if
    given.
    """
    is_zoned = getattr(series.dtype, "tz", None) is not None
    moments = series.dt.tz_convert(form.zone) if is_zoned and form.zone else series
    days: pd.Series = moments.dt.tz_localize(None) if is_zoned else moments
    outside = (days < _EARLIEST) | (days > _LATEST)
    if outside.any():
        raise DataError(
            f"{where}: {days[outside].to_numpy()[0].astype('datetime64[D]')} is not a day from 1678 to"
            " 2261",
        )

    whole: pd.Series = days.dt.normalize()
    if (days.dropna() != whole.dropna()).any():
        if form.format:
            return whole

        texts = [str(moment) for moment in series.dropna().drop_duplicates()]
        bad = next(text for text in texts if _day_of_cell(text, form.zone) is None)
        raise DataError(
            f"{where}: dates have times of day; bars must be daily; {_advice_on_times(texts, bad)}",
        )

    return days
