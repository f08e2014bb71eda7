"""Check the days of bars against their exchange's sessions. Faults are bars on days without a
session, and codes whose days are all off by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import BoolArray, DayArray, FloatArray, sessions
from ktdeval.values import Finding
from ktdeval_raw_markets.checks.findings import finding_of
from ktdeval_raw_markets.checks.member_checks import LOOKBACK_DAYS
from ktdeval_raw_markets.sources.raw_tables import IntArray, RawMarket, as_days

_SHIFTS = (1, -1)  # days by which all bars may be late or early
_MIN_OFF = 0.1  # minimum fraction of a code's days that are not sessions
_MAX_LEFT = 0.5  # maximum fraction of these days left after the shift: holidays of other exchanges
_DAY = np.timedelta64(1, "D")


def check_sessions(raw: RawMarket) -> Iterator[Finding]:
    """Find bars on days that are not sessions of their exchange, and sessions without a bar."""
    days = raw.table.days
    short = len(days) if len(days) < LOOKBACK_DAYS else 0
    yield finding_of("short_history", short, about=LOOKBACK_DAYS)

    shifts = _shifts(raw)
    yield _shifted_finding(raw, shifts)
    for calendar in filter(None, np.unique(raw.calendars).tolist()):
        own = _days_of(raw, (raw.calendars == calendar) & (shifts == 0))
        if len(own):
            yield _mismatch(own, calendar)


def drop_non_sessions(raw: RawMarket) -> tuple[RawMarket, int]:
    """Drop bars on days without a session of the asset's exchange."""
    table = raw.table
    wrong = np.zeros(len(raw.table.row), dtype=np.bool_)
    for calendar in filter(None, np.unique(raw.calendars).tolist()):
        is_session = np.isin(table.days, sessions(table.days[0], table.days[-1], calendar))
        wrong |= ~is_session[table.row] & (raw.calendars == calendar)[table.column]

    keep = ~table.in_source(wrong)
    return dataclasses.replace(raw, bars=raw.bars.loc[keep]), int(wrong.sum())


def shift_days(raw: RawMarket) -> tuple[RawMarket, int]:
    """Move the bars of codes whose days are all one day late or early to the right sessions. Index
    levels are moved in the same way.
    """
    table = raw.table
    moved = table.in_source(_shifts(raw)[table.column])
    if not moved.any():
        return raw, 0

    bars = raw.bars.assign(date=raw.bars["date"] - moved * _DAY)
    days = as_days(raw.indices["date"])
    shift = 0
    if len(days) and len(set(raw.calendars)) == 1:
        group = np.zeros(len(days), np.int64)
        shift = int(_shifts_in(days, np.arange(len(days)), group, raw.calendars[0], 1)[0])

    indices = raw.indices.assign(date=raw.indices["date"] - shift * _DAY)
    return dataclasses.replace(raw, bars=bars, indices=indices), int((moved != 0).sum())


def _shifts(raw: RawMarket) -> IntArray:
    """Return by how many days all bars of a code are late; negative if early. Shape: [codes of the
    table].
    """
    table = raw.table
    shifts = np.zeros(len(table.codes), dtype=np.int64)
    for calendar in filter(None, np.unique(raw.calendars).tolist()):
        own = raw.calendars == calendar
        by_code = _shifts_in(table.days, table.row, table.column, calendar, len(own))
        shifts[own] = by_code[own]
    return shifts


def _shifts_in(
    days: DayArray, row: IntArray, group: IntArray, calendar: str, size: int
) -> IntArray:
    """Return by how many days each group is late relative to a calendar's sessions. A group is late
    if many of its days are not sessions and few of these remain after the shift. Shape: [size].

    `row` and `group`: each bar's index in `days` and its group.
    """
    shifts = np.zeros(size, dtype=np.int64)
    try:
        expected = sessions(days.min() - _DAY, days.max() + _DAY, calendar)
    except DataError:  # reported as a separate finding
        return shifts

    count = np.maximum(np.bincount(group, minlength=size), 1)

    def part_off(shift: int) -> FloatArray:
        is_off = ~np.isin(days - shift * _DAY, expected)
        return np.asarray(np.bincount(group[is_off[row]], minlength=size) / count)

    off = part_off(0)
    if (off >= _MIN_OFF).any():
        for shift in _SHIFTS:
            shifts[(off >= _MIN_OFF) & (part_off(shift) <= _MAX_LEFT * off)] = shift
    return shifts


def _shifted_finding(raw: RawMarket, shifts: IntArray) -> Finding:
    codes = np.asarray(raw.table.codes)
    examples = []
    for shift, words in ((1, "late"), (-1, "early")):
        for code in codes[shifts == shift].tolist():
            days = _days_of(raw, codes == code)
            examples.append(f"{code} {days[0]}…{days[-1]}: one day {words}")
    return finding_of("shifted_days", len(examples), examples)


def _days_of(raw: RawMarket, chosen: BoolArray) -> DayArray:
    """Return the days on which any of the chosen codes has a row."""
    table = raw.table
    return np.asarray(table.days[np.bincount(table.row[chosen[table.column]]).nonzero()])


def _mismatch(own: DayArray, calendar: str) -> Finding:
    try:
        expected = sessions(own[0], own[-1], calendar)
    except DataError as error:
        return finding_of("calendar_unknown", 1, about=error)

    extra = np.setdiff1d(own, expected)
    missing = np.setdiff1d(expected, own)
    examples = [f"{day} is not a session" for day in extra]
    examples += [f"{day} has no bars" for day in missing]
    mismatch = finding_of(
        "calendar_mismatch", len(examples), examples, calendar, _session_fix(extra, missing)
    )
    if not len(extra):  # no repair adds bars
        mismatch = dataclasses.replace(mismatch, repairs=())
    return mismatch


def _session_fix(extra: DayArray, missing: DayArray) -> str:
    if not len(extra):
        return "no option helps: add the bars of these sessions to the file"

    fix = "--repair drop_non_sessions drops bars of days that are not sessions"
    if len(missing):
        fix = f"{fix}; add those of sessions without any to the file"
    return fix
