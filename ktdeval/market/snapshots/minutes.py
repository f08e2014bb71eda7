"""Intraday bars: a market's second resolution. At the market's cursor, only bars that have ended
are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import LookAheadError
from ktdeval.market.venues.close_times import Close
from ktdeval.market.venues.exchange_hours import close_instants
from ktdeval.market.venues.venue import Venue

if TYPE_CHECKING:
    import pandas as pd

MINUTE_FIELDS = ("open", "high", "low", "close", "volume")
_ROW = np.dtype(
    [("asset", "<i4"), ("ends_at", "<M8[m]"), *((name, "<f8") for name in MINUTE_FIELDS)]
)
_MINUTE = 60_000_000  # microseconds


@dataclass(frozen=True, eq=False)
class MinuteBars:
    """M bars of one or more minutes, sorted by code and end; empty by default."""

    codes: tuple[str, ...] = ()  #: codes that have bars, ascending
    #: [M] fields asset (index in `codes`), ends_at (UTC, datetime64[m]), open, high, low, close
    #: (unadjusted, in units of the daily bars), volume (shares or coins, NaN where unknown);
    #: read-only
    rows: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, _ROW))

    @classmethod
    def of(cls, table: pd.DataFrame) -> MinuteBars:
        """Create sorted bars from a table with `code` and the fields of `rows` except `asset`.
        Raises KeyError, TypeError or ValueError if the table does not have this form.
        """
        import pandas as pd  # noqa: PLC0415 - most markets have no intraday bars

        rows = np.empty(len(table), _ROW)
        rows["asset"], codes = pd.factorize(table["code"].to_numpy(dtype=object), sort=True)
        rows["ends_at"] = table["ends_at"].to_numpy()

        for name in MINUTE_FIELDS:
            values = table[name].to_numpy(np.float64)
            # one representation of NaN and of zero, so that equal bars have one identity
            rows[name] = np.where(np.isnan(values), np.nan, values + 0.0)

        rows = rows[np.lexsort((rows["ends_at"], rows["asset"]))]
        rows.setflags(write=False)
        return cls(tuple(map(str, codes)), rows)

    def __bool__(self) -> bool:
        return bool(self.codes)

    @cached_property
    def _rows_of(self) -> dict[str, npt.NDArray[Any]]:
        """Code -> rows of its bars."""
        starts = np.searchsorted(self.rows["asset"], np.arange(1, len(self.codes)))
        return dict(zip(self.codes, np.split(self.rows, starts), strict=False))

    def of_code(self, code: str) -> npt.NDArray[Any]:
        """Return all bars of a code, ascending by end; empty without bars. Never show these
        bars to a model; use `session`, which stops at the close.
        """
        return self._rows_of.get(code, self.rows[:0])

    def days(self, zone_of: Callable[[str], str]) -> npt.NDArray[np.datetime64]:
        """Return the day of each bar, [M]: the local date just before the bar ends. `zone_of`: maps
        a code to its IANA time zone.
        """
        ends = self.rows["ends_at"]
        zones = np.array([zone_of(code) for code in self.codes], dtype=object)[self.rows["asset"]]
        days = np.unique(np.unique(ends.astype("M8[D]"))[:, None] + np.arange(-1, 2))
        local = np.empty(len(ends), "M8[D]")

        for zone in set(zones):
            midnights = np.array([Close(0, 0, zone).instant(day) // _MINUTE for day in days])
            local[zones == zone] = days[
                np.searchsorted(midnights, ends[zones == zone].astype(np.int64)) - 1
            ]

        return local

    def session(
        self,
        days: npt.NDArray[np.datetime64],
        venue_of: Callable[[str], Venue],
        code: str,
        day: int,
    ) -> npt.NDArray[Any]:
        """Return a code's bars on row `day` of `days`. On the last of `days`, bars that end after
        the venue's close, which is earlier on a half day, are omitted. Raises LookAheadError if
        `day` is after the last row.
        """
        if day >= len(days):
            raise LookAheadError(
                f"minute bars of day {day} requested at the close of day {len(days) - 1}"
            )
        own = self.of_code(code)
        if not len(own):
            return own

        venue = venue_of(code)
        midnight, end = (
            Close(hours, 0, venue.zone).instant(days[day]) // _MINUTE for hours in (0, 24)
        )
        cursor = int(close_instants(venue, days[-1:])[0]) // _MINUTE

        return own[
            slice(
                *np.searchsorted(
                    own["ends_at"].astype(np.int64), (midnight, min(end, cursor)), side="right"
                )
            )
        ]


NO_MINUTES = MinuteBars()
