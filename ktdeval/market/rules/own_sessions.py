"""An asset's own sessions in a market that combines several calendars.

A market's days are the union of its assets' days. For example, stocks in a market with crypto
assets have rows on weekends, when their exchange is closed. A figure over n days counts the asset's
own sessions, so that closed days are not among the n returns.

    bar_rows         sessions on which one asset has traded
    session_groups   sessions of an exchange: also days on which one of its assets was suspended
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import DayArray, MarketSnapshot, MarketView

IntArray = npt.NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)
_ALL = slice(None)


def bar_rows(market: MarketSnapshot | MarketView, asset: int) -> IntArray:
    """Return the rows of the days on which an asset has a close, in ascending order. Shape:
    [sessions].
    """
    return np.flatnonzero(np.isfinite(market.close[:, asset]))


@dataclass(frozen=True, eq=False)
class SessionGroup:
    """Assets with the same calendar, and the market rows on which their exchange was open."""

    columns: IntArray | slice  #: columns of the assets, [n]
    rows: IntArray | slice  #: rows of the sessions, [S], ascending

    def of(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Select the group's sessions and assets from [T, N] values. Shape: [S, n]."""
        return values[self.rows][:, self.columns]

    def latest(self, values: npt.NDArray[Number], count: int) -> npt.NDArray[Number]:
        """Select the group's assets and its latest sessions, at most `count`, from [T, N] values.
        Shape: [<= count, n].
        """
        if isinstance(self.rows, slice):
            return values[-count:][:, self.columns]
        return values[self.rows[-count:]][:, self.columns]

    def sessions_before(self, rows: range) -> IntArray:
        """Return, for each of the given market rows, the number of sessions before it."""
        wanted = np.arange(rows.start, rows.stop)
        if isinstance(self.rows, slice):
            return wanted
        return np.searchsorted(self.rows, wanted)


_ALWAYS_OPEN = ("", "24/7")


def first_session(days: DayArray, calendar: str) -> int | None:
    """Return the index of the first of some ascending days on which an exchange was open; None if
    it was closed on all of them. All days count if the calendar is not known, or does not cover
    them.
    """
    if not len(days):
        return None
    if calendar in _ALWAYS_OPEN:
        return 0

    try:
        open_days = np.isin(days, sessions(days[0], days[-1], calendar))
    except DataError:
        return 0

    return int(np.argmax(open_days)) if open_days.any() else None


_WHOLE = SessionGroup(_ALL, _ALL)


def session_groups(market: MarketSnapshot | MarketView) -> Sequence[SessionGroup]:
    """Group a market's assets by calendar. The sessions of a group are the days on which at least
    one of its assets has a close. If all assets share one calendar, all days of the market are
    sessions.
    """
    names = sorted(set(market.calendars))
    if len(names) < 2:
        return (_WHOLE,)

    calendars = np.array(market.calendars)
    has_close = np.isfinite(market.close)
    groups = []
    for name in names:
        columns = np.flatnonzero(calendars == name)
        rows = np.flatnonzero(has_close[:, columns].any(axis=1))
        groups.append(SessionGroup(columns, rows))

    return groups
