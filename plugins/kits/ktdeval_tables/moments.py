"""Points in time in table cells, and the market days on which they fall.

A timestamp with an offset, or a Unix time, is a point in time: its day is the day in the market's
time zone. Midnights that programs write as session labels denote the day itself: `2024-03-15
00:00:00+00:00` is the 15th everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ktdeval_tables.days import (
    DAY_FORMATS,
    EXCEL,
    MIDNIGHT_ZONES,
    ROC,
    UNIX_UNITS,
    WEEKDAY,
    zone_of,
)

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_CLOCK = r"(?:[T ;,]+(?P<hour>[0-9]{1,2}):?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2}(?:[.,][0-9]+)?))?)?"
_OFFSET = r" ?(?P<offset>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})?(?:\[.*\])?"
_ORDERED = (
    r"(?P<year>[0-9]{4})[-/.年](?P<month>[0-9]{1,2})[-/.月](?P<day>[0-9]{1,2})日?"
    + _CLOCK
    + _OFFSET
)
_COMPACT = r"(?P<year>(?:19|20|21)[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})" + _CLOCK + _OFFSET
_UNBROKEN = (
    r"(?P<year>20[0-9]{2})(?P<month>[01][0-9])(?P<day>[0-3][0-9])"
    r"(?P<hour>[0-2][0-9])(?P<minute>[0-5][0-9])(?P<second>[0-5][0-9])?"
)
_UNIX = r"[0-9]{9,10}(?:\.[0-9]+)?|[013-9][0-9]{11}|[0-9]{13}|[0-9]{15,16}|[0-9]{18,19}"
_ROC_DAY = r"(?P<year>[0-9]{2,3})[-/.](?P<month>[0-9]{1,2})[-/.](?P<day>[0-9]{1,2})"
_FEW = 3  # number of cells needed to determine the time zone whose midnights they are
_FIRST_YEAR, _LAST_YEAR = 1900, 2199
_NO_TIME = pd.Timedelta(0)
_ZONED = "%z"  # part of a format that shows that its timestamps have an offset


@dataclass(frozen=True)
class StampClock:
    """Interpretation of a table's timestamps."""

    format: str = ""  #: as in strptime, or one of `days.WORDS`; empty: detected from the cells
    zone: str = ""  #: IANA time zone that determines the day of a point in time; empty: unknown
    written_in: str = ""  #: zone of timestamps without an offset; empty: the market's zone
    has_labels: bool = True  #: whether midnights in UTC are labels for days

    def __post_init__(self) -> None:
        for name in (self.zone, self.written_in):
            if name:
                zone_of(name)


class CellFault(ValueError):
    """A cell that can't be read."""

    def __init__(self, row: int, words: str) -> None:
        """Create the error for row number `row`, counted from 0. `words`: the fault and its fix."""
        super().__init__(words)
        self.row = row


def parse_moments(cells: pd.Series, clock: StampClock) -> pd.Series:
    """Return cells as local times in the market's zone, datetime64[ns] without a zone; NaT for
    empty cells. Raises CellFault if a cell is not a day, or is ambiguous.
    """
    codes, uniques = pd.factorize(cells)
    texts = pd.Series(uniques, dtype=str).str.replace(WEEKDAY, "", regex=True).str.strip()
    stamps = pd.Series(pd.NaT, index=texts.index, dtype="datetime64[ns]")
    filled = texts[texts != ""]
    if len(filled):
        try:
            stamps[filled.index] = _stamps(filled, clock)
        except CellFault as fault:
            rows = (codes == fault.row).nonzero()[0]
            raise CellFault(int(rows[0]), str(fault)) from None

    return pd.Series(stamps.to_numpy()[codes], index=cells.index)


def _stamps(texts: pd.Series, clock: StampClock) -> pd.Series:
    """Return distinct strings as timestamps, read according to the clock."""
    if clock.format:
        stamps = _by_format(texts, clock.format)
        if stamps is not None:
            has_offsets = _ZONED in clock.format
            is_moment = pd.Series(has_offsets or clock.format in UNIX_UNITS, index=texts.index)
            return _local(stamps, is_moment, clock, _read_without_offset(texts, clock.format))

    is_unix = texts.str.fullmatch(_UNIX)
    if is_unix.all():
        return _local(_unix(texts), is_unix, clock)

    stamps, offsets = _parse_ordered(texts)
    if stamps.isna().any():
        form, found = _usual_format(texts, stamps)
        is_moment = pd.Series(_ZONED in form, index=texts.index)
        return _local(found, is_moment, clock, _read_without_offset(texts, form))

    moments = stamps - offsets.fillna(_NO_TIME)
    return _local(moments, offsets.notna(), clock, stamps)


def _local(
    stamps: pd.Series, is_moment: pd.Series, clock: StampClock, written: pd.Series | None = None
) -> pd.Series:
    """Return timestamps in the market's local time. `is_moment`: which timestamps are in UTC.
    `written`: the timestamps as written, without the offset.
    """
    local = stamps if written is None else written
    if clock.written_in and clock.zone:
        local = local.where(is_moment, _to_zone(stamps, clock.written_in, clock.zone))

    moments = stamps[is_moment]
    if moments.empty:
        return local

    is_midnight = (moments.dt.normalize() == moments).all()
    if is_midnight and clock.has_labels:
        return local.where(~is_moment, stamps)

    zone = clock.zone or _zone_of_midnights(moments)
    if not zone:
        return local
    return local.where(~is_moment, _to_zone(stamps, "UTC", zone))


def _zone_of_midnights(moments: pd.Series) -> str:
    """Return the first of the usual zones in which all points in time are midnight; empty if no
    zone fits, or if there are too few points.
    """
    if len(moments) < _FEW:
        return ""

    for zone in MIDNIGHT_ZONES:
        local = _to_zone(moments, "UTC", zone)
        if (local.dt.normalize() == local).all():
            return zone
    return ""


def _to_zone(stamps: pd.Series, source: str, zone: str) -> pd.Series:
    placed = stamps.dt.tz_localize(source, ambiguous=True, nonexistent="shift_forward")
    local: pd.Series = placed.dt.tz_convert(zone).dt.tz_localize(None)
    return local


def _parse_ordered(texts: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return timestamps that are written in the order year, month, day, NaT for all others, and
    their offsets.
    """
    parts = texts.str.extract(f"^(?:{_ORDERED})$")
    for pattern in (_COMPACT, _UNBROKEN):
        others = texts.str.extract(f"^(?:{pattern})$")
        parts = parts.where(parts["year"].notna(), others.reindex(columns=parts.columns))

    signed = parts["offset"].str.replace(":", "").str.ljust(5, "0")
    minutes = pd.to_numeric(signed.str[:3], errors="coerce") * 60
    minutes += pd.to_numeric(signed.str[0] + signed.str[3:5], errors="coerce")
    minutes = minutes.where(~parts["offset"].isin(["Z", "UTC", "GMT"]), 0.0)
    return _assemble_moments(parts), pd.to_timedelta(minutes, unit="min")


def _assemble_moments(parts: pd.DataFrame) -> pd.Series:
    """Return timestamps assembled from parsed parts, NaT where the parts are not a valid time."""
    known = [name for name in _PARTS if name in parts]
    numbers = parts[known].apply(lambda column: pd.to_numeric(column.str.replace(",", ".")))
    numbers = numbers.fillna(dict.fromkeys(_PARTS[3:], 0))
    seconds = 0.0
    if "second" in numbers:
        seconds = numbers.pop("second")
    is_of_our_time = numbers["year"].between(_FIRST_YEAR, _LAST_YEAR)
    stamps = pd.to_datetime(numbers.where(is_of_our_time), errors="coerce")
    moments: pd.Series = stamps + pd.to_timedelta(seconds, unit="s")
    return moments.astype("datetime64[ns]")


def _unix(texts: pd.Series, per_second: int = 0) -> pd.Series:
    """Return Unix times as UTC timestamps. Without `per_second`, the number of digits determines
    the unit.
    """
    whole = texts.str.partition(".")[0]
    parts = 10 ** (3 * ((whole.str.len() - 9) // 3))
    if per_second:
        parts = pd.Series(per_second, index=texts.index)

    numbers = texts.where(parts == 1, whole).astype("float64")
    seconds = numbers // parts
    rest = (whole.astype("int64") % parts) * (10**9 // parts)
    rest = rest.where(parts > 1, ((numbers - seconds) * 10**9).round().astype("int64"))
    nanoseconds = seconds.astype("int64") * 10**9 + rest
    return pd.to_datetime(nanoseconds, unit="ns", errors="coerce").astype("datetime64[ns]")


def _by_format(texts: pd.Series, form: str) -> pd.Series | None:
    """Return timestamps parsed with the user's format; None if it fits no string."""
    if form in UNIX_UNITS:
        is_number = texts.str.fullmatch("[0-9]{1,19}")
        stamps = _unix(texts, UNIX_UNITS[form]) if is_number.all() else None
    elif form == EXCEL:
        serials = pd.to_numeric(texts, errors="coerce")
        stamps = pd.to_datetime(serials, unit="D", origin="1899-12-30", errors="coerce")
    elif form == ROC:
        parts = texts.str.extract(f"^{_ROC_DAY}$")
        parts["year"] = (pd.to_numeric(parts["year"]) + 1911).astype("string")
        stamps = _assemble_moments(parts)
    else:
        stamps = _read_stamps(texts, form)

    if stamps is None or stamps.isna().all():
        return None

    wrong = stamps.isna()
    if wrong.any():
        row = int(wrong.index[wrong][0])
        raise CellFault(row, f"{texts[row][:40]!r} is not a day of --date-format {form}")
    return stamps.astype("datetime64[ns]")


def _read_stamps(texts: pd.Series, form: str) -> pd.Series:
    """Return timestamps parsed with a strptime format, in UTC if they have an offset. NaT for other
    strings, and for years that tables do not have.
    """
    stamps = pd.to_datetime(texts, format=form, errors="coerce", utc=_ZONED in form)
    if _ZONED in form:
        stamps = stamps.dt.tz_localize(None)
    is_of_our_time = stamps.dt.year.between(_FIRST_YEAR, _LAST_YEAR)
    return stamps.where(is_of_our_time).astype("datetime64[ns]")


def _read_without_offset(texts: pd.Series, form: str) -> pd.Series | None:
    """Return timestamps as written, with the offset removed; None if the format has no offset."""
    if _ZONED not in form:
        return None
    bare = texts.str.replace(f"{_OFFSET}$", "", regex=True)
    return _read_stamps(bare, form.replace(_ZONED, "").strip())


def _usual_format(texts: pd.Series, ordered: pd.Series) -> tuple[str, pd.Series]:
    """Return the only usual format that fits all strings, and the parsed timestamps. Raises
    CellFault if no format fits, or if several formats give different days.
    """
    fitting: dict[str, pd.Series] = {}
    most = pd.Series(False, index=texts.index)
    for form in DAY_FORMATS:
        stamps = _read_stamps(texts, form)
        is_read = stamps.notna()
        if is_read.all():
            fitting[form] = stamps
        if is_read.sum() > most.sum():
            most = is_read

    days = {form: tuple(stamps.dt.date) for form, stamps in fitting.items()}
    if len(set(days.values())) == 1:
        return next(iter(fitting.items()))

    if fitting:
        row = texts.index[0]
        named = " or ".join(f"--date-format {form!r}" for form in list(fitting)[:2])
        raise CellFault(
            row, f"{texts[row][:40]!r} can mean two days; say how days are written: {named}"
        )

    if ordered.isna().all() and 2 * most.sum() > len(texts):
        row = int(texts.index[~most][0])
        other = texts[most].iloc[0]
        raise CellFault(
            row, f"{texts[row][:40]!r} is no date as {other[:40]!r} is; write it as that"
        )

    wrong = ordered.isna()
    row = int(wrong.index[wrong][0])
    advice = ""
    whole = texts[row].partition(".")[0]
    if whole.isdigit() and len(whole) == 5:
        advice = f"; if it is Excel's number for a day, say --date-format {EXCEL}"
    raise CellFault(row, f"{texts[row][:40]!r} is not a date; write it as 2024-01-02{advice}")
