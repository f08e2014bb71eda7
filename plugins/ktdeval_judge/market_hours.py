"""Opening and closing times of a market's sessions, in local time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.errors import KtdevalError
from ktdeval.market import FillRule, MarketSnapshot, Venue, session_hours

Minutes = npt.NDArray[np.int64]
_DAY = 24 * 60
FIRST_BAR = 1
"""Minutes after an open at which programs on minute bars stamp what was filled at the open: the end
of the first bar.
"""
_NEVER_CLOSES = "24/7"
_AT_CLOSE: frozenset[FillRule] = frozenset({"next_close", "same_close"})


def is_after_open(minute: float, opening: int) -> bool:
    """Return whether a time of a day, in minutes after midnight, is too late for a fill at the open.
    The end of the first minute bar counts as the open; midnight has no such bar.
    """
    is_end_of_first_bar = opening > 0 and minute == opening + FIRST_BAR
    return minute > opening and not is_end_of_first_bar


@dataclass(frozen=True)
class VenueHours:
    """Local opening and closing times of a venue, by market row, in minutes after midnight."""

    opens: Minutes  #: [T]
    closes: Minutes  #: [T]

    def is_missed(self, row: int, minute: float, fill: FillRule) -> bool:
        """Return whether the bar's price under a fill rule is from before a time of the row's day.
        Means over part of the day begin at the open. The end of the first minute bar counts as the
        open.
        """
        if fill in _AT_CLOSE:
            return minute > int(self.closes[row])
        return is_after_open(minute, int(self.opens[row]))


def market_hours(snapshot: MarketSnapshot) -> Mapping[str, VenueHours]:
    """Return the hours of each venue of a market, by the venue's name. If the hours of a day are not
    known, its bar counts as filled at midnight, so that no fill comes too early.
    """
    return {name: _hours_of(snapshot, venue) for name, venue in snapshot.rules.items()}


def earliest_opens(snapshot: MarketSnapshot) -> tuple[int, ...]:
    """Return the time at which the first of a market's venues opens, by market row."""
    opens = [hours.opens for hours in market_hours(snapshot).values()]
    return tuple(int(minute) for minute in np.min(opens, axis=0))


def _hours_of(snapshot: MarketSnapshot, venue: Venue) -> VenueHours:
    opens = np.zeros(len(snapshot.days), np.int64)
    if venue.calendar == _NEVER_CLOSES:
        return VenueHours(opens, np.full(len(snapshot.days), _DAY, np.int64))

    closes = np.zeros(len(snapshot.days), np.int64)
    try:
        hours = session_hours(snapshot.days[0], snapshot.days[-1], venue.calendar)
    except KtdevalError:
        return VenueHours(opens, closes)

    rows = np.searchsorted(snapshot.days, hours.days)
    is_day = snapshot.days[np.minimum(rows, len(snapshot.days) - 1)] == hours.days
    opens[rows[is_day]] = _local_minutes(hours.opens[is_day], venue.zone)
    closes[rows[is_day]] = _local_minutes(hours.closes[is_day], venue.zone)
    return VenueHours(opens, closes)


def _local_minutes(instants: npt.NDArray[np.datetime64], zone: str) -> Minutes:
    # imported here because most commands need no time zone
    import pandas as pd  # noqa: PLC0415

    local = pd.DatetimeIndex(instants).tz_localize("UTC").tz_convert(zone)
    minutes: Minutes = (local.hour * 60 + local.minute).to_numpy().astype(np.int64)
    return minutes
