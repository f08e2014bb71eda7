"""Trading days: an exchange's sessions, and the market rows of a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import DayArray
from ktdeval.market.venues.exchange_hours import (
    SessionHours as SessionHours,
    parse_day as parse_day,
    session_hours as session_hours,
)


@dataclass(frozen=True)
class Window:
    """An evaluation window; dates are ISO days, both ends included.

    Example:
        Window("W1", "2024-01-02", "2024-06-28")
    """

    name: str
    first: str
    last: str


def sessions(
    first: str | np.datetime64, last: str | np.datetime64, exchange: str = "XSHG"
) -> DayArray:
    """Return the trading days of an exchange (ISO 10383 code) from `first` to `last`, both
    inclusive. Raises DataError if the installed calendar doesn't cover the range or `first` is
    after `last`, UsageError if the exchange is unknown.
    """
    return session_hours(first, last, exchange).days


def window_rows(
    days: DayArray, first: str | np.datetime64, last: str | np.datetime64
) -> tuple[int, int]:
    """Return `(start, stop)` such that the window's days are `days[start:stop]`. `start >= 1`,
    because the first decision is made on the previous row. Raises DataError if the window extends
    beyond the data or contains no trading day.
    """
    start_day = parse_day(first)
    last_day = parse_day(last)
    if start_day > last_day:
        raise DataError(f"window {start_day}…{last_day} ends before it begins; swap the dates")

    if len(days) < 2 or start_day < days[1] or last_day > days[-1]:
        covered = f"{days[1]}…{days[-1]}" if len(days) > 1 else "no window at all"
        raise DataError(
            f"window {start_day}…{last_day} lies outside the data, which allow {covered} (nothing"
            " is filled on the first day, which only decides); choose a window inside, such as by"
            " --windows FIRST:LAST, or other data"
        )

    start = int(np.searchsorted(days, start_day, side="left"))
    stop = int(np.searchsorted(days, last_day, side="right"))
    if start == stop:
        raise DataError(f"window {start_day}…{last_day} holds no trading day; choose a longer one")

    return start, stop
