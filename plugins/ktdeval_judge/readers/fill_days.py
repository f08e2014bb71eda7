"""Days of decisions for rows that show an account after its fills.

A fill never comes before the moment of its row. A market of daily bars fills at opens, so a row is
filled at the first open at or after its moment, and was decided at the close before that open. A
row with a day only may be filled at the open of that day.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pandas as pd

from ktdeval_judge.market_hours import is_after_open
from ktdeval_judge.readers.role_table import RoleTable, days_of, minutes_of

NO_SESSIONS = (
    "Without the market's trading days, the weekday before a row is used as the day of its "
    "decision."
)


def decision_days(table: RoleTable) -> list[int]:
    """Return the session, yyyymmdd, at whose close each row was decided if it is filled at the first
    open at or after its moment. Without a market, weekdays that open at midnight are assumed.
    Raises DataError if a row lies after the market's last day.
    """
    moments = table.moments()
    days = days_of(moments)
    if table.sessions:
        _check_days(table, days)
    else:
        table.note(NO_SESSIONS)

    found = []
    for day, minute in zip(days.tolist(), minutes_of(moments).tolist(), strict=True):
        found.append(_close_before_fill(table, day, minute))
    return found


def _close_before_fill(table: RoleTable, day: int, minute: float) -> int:
    sessions = table.sessions
    at = bisect_left(sessions, day)
    is_session = at < len(sessions) and sessions[at] == day
    opening = table.opens[at] if is_session and table.opens else 0
    is_late = is_after_open(minute, opening)
    if is_session and is_late:
        return day
    if at:
        return sessions[at - 1]
    if is_late:
        return day
    before = np.busday_offset(pd.Timestamp(str(day)).date(), -1, roll="forward")
    return int(str(before).replace("-", ""))


def _check_days(table: RoleTable, days: pd.Series) -> None:
    last = table.sessions[-1]
    is_beyond = (days > last).to_numpy()
    if not is_beyond.any():
        return

    row = int(is_beyond.argmax())
    day = pd.Timestamp(str(days.iloc[row])).date()
    words = f"{day} is after the market's last day, {pd.Timestamp(str(last)).date()}"
    more = f" (so are {int(is_beyond.sum())} rows in all)"
    table.refuse(row, table.column("date"), f"{words}{more}; import later days, or drop the rows")
