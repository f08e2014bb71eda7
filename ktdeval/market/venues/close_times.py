"""Daily closes as instants, given by a wall-clock time and a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ktdeval.errors import DataError

if TYPE_CHECKING:
    import numpy as np

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_CLOSE = re.compile(r"(\d\d):(\d\d) (\S+)")


@dataclass(frozen=True, slots=True)
class Close:
    """Wall-clock time and zone of a daily close; `24:00` is midnight at the end of the day."""

    hour: int = 15
    minute: int = 0
    zone: str = "Asia/Shanghai"  #: IANA name

    @classmethod
    def parse(cls, text: str) -> Close:
        """Parse a close such as `16:00 America/New_York`. Raises DataError if the time or the zone
        does not exist.
        """
        match = _CLOSE.fullmatch(text.strip())
        if match is None or (int(match[1]), int(match[2])) > (24, 0) or int(match[2]) > 59:
            raise DataError(
                f"close {text!r}: expected a time and a zone such as '15:00 Asia/Shanghai' or"
                " '24:00 UTC'"
            )

        try:
            ZoneInfo(match[3])
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise DataError(
                f"close {text!r}: time zone {match[3]!r} is unknown; write one such as"
                " Asia/Shanghai"
            ) from error

        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.hour:02}:{self.minute:02} {self.zone}"

    def instant(self, day: np.datetime64) -> int:
        """Return the close on a calendar day, in microseconds since 1970 UTC."""
        return _instant(self, int(day.astype("datetime64[D]").astype(int)))


@lru_cache(maxsize=1 << 16)
def _instant(close: Close, day: int) -> int:
    start = datetime.combine(
        date(1970, 1, 1) + timedelta(days=day + close.hour // 24),
        datetime.min.time(),
        ZoneInfo(close.zone),
    )
    return (start.replace(hour=close.hour % 24, minute=close.minute) - EPOCH) // MICROSECOND
