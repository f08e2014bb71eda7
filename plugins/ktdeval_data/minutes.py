"""Bars within days from a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import Close
from ktdeval_data.columns import read_table

_TIME = r"^((?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::00(?:\.0+)?)?)(Z|[+-]\d\d:?\d\d)?$"
_FIX = "write 2024-01-02T10:31:00-05:00, or name the zone of times without one (--minutes-zone)"


def read_minutes(path: Path, mapping: Mapping[str, str], zone: str | None) -> pd.DataFrame:
    """Read time, code, open, high, low, close, volume, and ends_at, the time in UTC. `zone`: of times without one. Raises
    DataError: an unreadable file, an absent column, an unknown zone, a time that is none, has no zone, or is twice or never in it.
    """
    table = read_table(path, ["time", "code", "open", "high", "low", "close", "volume"], [], mapping)
    places, texts = pd.factorize(table["time"].astype(str).fillna("").str.strip())
    told = pd.Series(texts, dtype=str).str.extract(_TIME)
    naive, stamps = told[1].isna(), told[0] + told[1].fillna("Z")
    moments = pd.to_datetime(stamps, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    faults = {"is no time of a whole minute": moments.isna(), "has no time zone": naive}
    if zone is not None:
        try:
            Close.parse(f"00:00 {zone}")
        except DataError as error:
            raise DataError(f"--minutes-zone {zone!r} is no time zone; write one such as America/New_York") from error
        local = moments.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT").dt.tz_convert(None)
        moments = moments.where(~naive, local)
        faults |= {"has no time zone": naive & False, f"is twice or never in {zone} as clocks change": moments.isna()}
    for why, bad in faults.items():
        if bad.any():
            raise DataError(f"{path}: time {texts[bad.to_numpy()][0][:40]!r} {why}; {_FIX}")
    return table.assign(ends_at=moments.to_numpy()[places])
