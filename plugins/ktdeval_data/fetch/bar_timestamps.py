"""Convert vendors' timestamps to the days of bars, after a check of each timestamp's time of day.

A bar belongs to the day on which it ends, since its close is known only then. Most crypto exchanges
begin their bars at 00:00 UTC. Some begin at midnight in UTC+8, which is 16:00 UTC, so that a bar
ends on the UTC day after the one on which it began.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ktdeval.errors import DataError
from ktdeval_raw_markets.assembly import listed_codes
from ktdeval_tables.numbers import to_numbers

_DAY = pd.Timedelta(days=1)
_INSTANT = pd.Timedelta(nanoseconds=1)
# from 2000 to 2100; timestamps in seconds or microseconds lie outside this range
_EARLIEST_MS = 946_684_800_000
_LATEST_MS = 4_102_444_800_000


def days_of_ends(stamps: pd.Series, where: str) -> pd.DataFrame:
    """Return `date`, the UTC day on which each bar ends, and `begins`, its UTC start time as text.
    `stamps`: starts of daily bars, in milliseconds since 1970.

    Raises DataError if a timestamp is in another unit.
    """
    numbers = to_numbers(stamps, where)
    wrong = ~((numbers >= _EARLIEST_MS) & (numbers <= _LATEST_MS))
    if wrong.any():
        first = stamps[wrong].iloc[0]
        form = "milliseconds since 1970, from 2000 to 2100"
        raise DataError(f"{where}: {first!r} is not a time in {form}")

    starts = pd.to_datetime(numbers.astype(np.int64), unit="ms")
    last_instants = starts + _DAY - _INSTANT
    begins = starts.dt.strftime("%H:%M:%S").str.removesuffix(":00")

    return pd.DataFrame({"date": last_instants.dt.normalize(), "begins": begins})


def days_of_midnights(stamps: pd.Series, zone: str, where: str) -> pd.Series:
    """Return the day that begins at each timestamp, an ISO time with its zone. Raises DataError if
    a timestamp is not midnight in `zone`.
    """
    moments = pd.to_datetime(stamps, utc=True, errors="coerce", format="ISO8601")
    local = moments.dt.tz_convert(zone)
    wrong = local.isna() | (local != local.dt.normalize())

    if wrong.any():
        first = stamps[wrong].iloc[0]
        problem = f"a bar is stamped {first!r}, no midnight in {zone}"
        raise DataError(f"{where}: {problem}: its day is unknown")

    return local.dt.tz_localize(None)


def one_beginning(bars: pd.DataFrame, where: str) -> list[str]:
    """Return a note on the codes whose bars do not begin at 00:00 UTC.

    Raises DataError if the bars of one code begin at different times of day, since such bars
    overlap or omit hours.
    """
    codes_of: dict[str, list[str]] = {}
    for code, column in bars.groupby("code", observed=True)["begins"]:
        times = sorted(set(column))
        if len(times) > 1:
            both = " and ".join(times[:3])
            advice = "choose days with one of them"
            raise DataError(f"{where}: bars of {code} begin at {both} UTC; {advice}")

        codes_of.setdefault(times[0], []).append(str(code))

    notes = []
    for begins, codes in sorted(codes_of.items()):
        if begins != "00:00":
            dated = "are dated by the day of UTC on which they end"
            notes.append(f"bars of {listed_codes(codes)} begin at {begins} UTC, and {dated}")

    return notes
