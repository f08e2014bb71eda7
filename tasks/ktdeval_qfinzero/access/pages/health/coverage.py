"""Coverage of a group of instruments by day, against the sessions of a calendar. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt

from ktdeval.values import Value
from ktdeval_qfinzero.trading_hours import trading_hours

Days = npt.NDArray[np.datetime64]
_CANDIDATES: Final = ("XNYS", "XSHG", "24/7")
_CHINESE: Final = (".SH", ".SZ", ".BJ", ".SS")
_SHOWN_GAPS: Final = 200


class Gap(Value, frozen=True):
    """Sessions in a row on which no instrument has data."""

    first: date
    last: date
    sessions: int


class Coverage(Value, frozen=True):
    """Coverage of a group. `have`, `due`: [n] instruments with data on each of `days`, and those
    whose own first and last day enclose it.
    """

    name: str
    calendar: str
    guessed: bool  #: whether the calendar was chosen by how well it fits
    instruments: int
    first: date | None
    last: date | None
    days: tuple[date, ...]  #: sessions from the first to the last day, and other days with data
    have: tuple[int, ...]
    due: tuple[int, ...]
    complete: float | None  #: sum of `have` over sum of `due` on sessions; None without any
    gaps: tuple[Gap, ...]  #: oldest first; at most 200
    outside: int  #: days with data that are no session of the calendar
    session_places: tuple[int, ...]  #: which of `days` are sessions


def coverage_of(name: str, days_by_instrument: Mapping[str, Days], calendar: str = "") -> Coverage:
    """Return the coverage of instruments. `days_by_instrument`: ascending distinct days of each,
    datetime64[D]; `calendar`: empty to choose the one of a few that fits best.
    """
    filled = {key: days for key, days in days_by_instrument.items() if len(days)}
    if not filled:
        return _nothing(name, calendar)

    with_data = np.unique(np.concatenate(list(filled.values())))
    chosen = calendar or best_calendar(with_data, list(filled))
    sessions = sessions_between(chosen, with_data[0], with_data[-1])
    days = np.union1d(sessions, with_data)
    have, due = _instrument_counts(list(filled.values()), days)
    is_session = np.isin(days, sessions)
    due_in_all = int(due[is_session].sum())
    complete = None
    if due_in_all:
        complete = float(have[is_session].sum()) / due_in_all

    return Coverage(
        name=name,
        calendar=chosen,
        guessed=not calendar,
        instruments=len(filled),
        first=_date(with_data[0]),
        last=_date(with_data[-1]),
        days=tuple(_date(day) for day in days),
        have=tuple(have.tolist()),
        due=tuple(due.tolist()),
        complete=complete,
        gaps=gaps_of(days[is_session], have[is_session]),
        outside=int((~is_session).sum()),
        session_places=tuple(np.flatnonzero(is_session).tolist()),
    )


def _nothing(name: str, calendar: str) -> Coverage:
    return Coverage(
        name=name,
        calendar=calendar or "none",
        guessed=not calendar,
        instruments=0,
        first=None,
        last=None,
        days=(),
        have=(),
        due=(),
        complete=None,
        gaps=(),
        outside=0,
        session_places=(),
    )


def _instrument_counts(
    series: Sequence[Days], days: Days
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return [n] instruments with data on each day, and [n] those that are due."""
    have = np.zeros(len(days), np.int64)
    change = np.zeros(len(days) + 1, np.int64)
    for own in series:
        places = np.searchsorted(days, own)
        have[places] += 1
        change[places[0]] += 1
        change[places[-1] + 1] -= 1

    return have, np.cumsum(change[:-1])


def gaps_of(sessions: Days, have: npt.NDArray[np.int64]) -> tuple[Gap, ...]:
    """Return the runs of sessions without data, oldest first."""
    empty = np.flatnonzero(have == 0)
    if not len(empty):
        return ()

    runs = np.split(empty, np.flatnonzero(np.diff(empty) > 1) + 1)
    gaps = [
        Gap(first=_date(sessions[run[0]]), last=_date(sessions[run[-1]]), sessions=len(run))
        for run in runs
    ]
    return tuple(gaps[:_SHOWN_GAPS])


def best_calendar(days: Days, names: Sequence[str] = ()) -> str:
    """Return the calendar that differs least from days with data: in days that are no session, and
    sessions without data. Of several, that of China where codes say so (`600519.SH`).
    """
    candidates = list(_CANDIDATES)
    if any(name.endswith(_CHINESE) for name in names):
        candidates.sort(key=lambda name: name != "XSHG")

    differing = {}
    for name in candidates:
        sessions = sessions_between(name, days[0], days[-1])
        differing[name] = len(np.setxor1d(days, sessions))

    return min(candidates, key=lambda name: differing[name])


def sessions_between(calendar: str, first: np.datetime64, last: np.datetime64) -> Days:
    """Return the sessions of a calendar from one day to another, both included. Raises DataError:
    there is no such calendar.
    """
    days = trading_hours(calendar).days
    return days[np.searchsorted(days, first) : np.searchsorted(days, last, side="right")]


def sessions_after(calendar: str, day: date, until: date) -> int:
    """Count the sessions after a day, up to another one; how far data are behind."""
    sessions = trading_hours(calendar).days
    first = np.searchsorted(sessions, np.datetime64(day), side="right")
    last = np.searchsorted(sessions, np.datetime64(until), side="right")
    return max(0, int(last - first))


def _date(day: np.datetime64) -> date:
    plain: date = day.astype("datetime64[D]").astype(object)
    return plain
