"""Sessions of an asset in a market whose days are those of several calendars.

The days of a market are those of all its assets: stocks in a market with coins have rows on
weekends, when their exchange is closed. A figure over n days counts the asset's own sessions, so
that closed days are not among its n returns.

    bar_rows         sessions on which one asset has traded
    session_groups   sessions of an exchange: also days on which one of its assets was suspended
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot, MarketView

IntArray = npt.NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)
_ALL = slice(None)


def bar_rows(market: MarketSnapshot | MarketView, asset: int) -> IntArray:
    """Return the rows of the days on which an asset has a close, ascending: [sessions]."""
    return np.flatnonzero(np.isfinite(market.close[:, asset]))


@dataclass(frozen=True, eq=False)
class SessionGroup:
    """Assets of one calendar, and the rows of the market on which their exchange was open."""

    columns: IntArray | slice  #: [n] of the assets
    rows: IntArray | slice  #: [S] ascending

    def of(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """[S, n] values of the group's assets on its sessions, of [T, N]."""
        return values[self.rows][:, self.columns]

    def latest(self, values: npt.NDArray[Number], count: int) -> npt.NDArray[Number]:
        """[<= count, n] values of the group's assets on its last sessions, of [T, N]."""
        if isinstance(self.rows, slice):
            return values[-count:][:, self.columns]
        return values[self.rows[-count:]][:, self.columns]

    def sessions_before(self, rows: range) -> IntArray:
        """Return the number of sessions before each of some rows of the market."""
        wanted = np.arange(rows.start, rows.stop)
        if isinstance(self.rows, slice):
            return wanted
        return np.searchsorted(self.rows, wanted)


_WHOLE = SessionGroup(_ALL, _ALL)


def session_groups(market: MarketSnapshot | MarketView) -> Sequence[SessionGroup]:
    """Return the assets of a market by calendar, with its sessions: the days on which one of them
    has a close. If all have one calendar, its sessions are all days of the market.
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
