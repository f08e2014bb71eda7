"""Curves as they were published: which one was the last at a moment, and its rate for a time to expiry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from ktdeval_qfinzero.data.rows import TENOR_YEARS, FloatArray, IntArray, RateRow
from ktdeval_qfinzero.moments import DAY, day_of, day_start
from ktdeval_qfinzero.view import View

OLDEST_DAYS = 14  #: A curve that many days before a moment is no longer used for it


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves in the order in which they were published."""

    available_ns: IntArray  #: [n] when each was published, ascending
    newest: IntArray  #: [n] row of the curve of the latest day among the first i + 1
    rows: tuple[RateRow, ...]  #: the curves

    def rates(self, moments_ns: IntArray, years: FloatArray) -> FloatArray:
        """[n] the rate for `years` on the last curve published by each moment; NaN where there is none. Linear between the tenors,
        flat before the first and after the last; a yield of 4.3% is 0.043.
        """
        last = np.searchsorted(self.available_ns, moments_ns, side="right") - 1
        rates = np.full(len(moments_ns), np.nan)
        for published in np.unique(last[last >= 0]):
            row, here = self.rows[int(self.newest[published])], np.flatnonzero(last == published)
            fresh = here[moments_ns[here] - day_start(row.day) < (OLDEST_DAYS + 1) * DAY]
            rates[fresh] = interpolate(row, years[fresh])
        return rates


def interpolate(row: RateRow, years: FloatArray) -> FloatArray:
    """[n] rates of one curve; NaN where it has no tenor at all."""
    known = sorted((TENOR_YEARS[tenor], value / 100) for tenor, value in row.yields_pct.items() if tenor in TENOR_YEARS)
    if not known:
        return np.full(len(years), np.nan)
    tenors, values = zip(*known, strict=True)
    return np.asarray(np.interp(years, tenors, values), dtype=np.float64)


def curves_for(view: View, first_ns: int, last_ns: int) -> Curves:
    """Curves that moments in [first, last] may need."""
    found = view.rates(day_of(first_ns) - timedelta(days=OLDEST_DAYS), day_of(last_ns))
    rows = tuple(sorted(found, key=lambda row: (row.available_ns, row.day)))
    newest: list[int] = []
    for i, row in enumerate(rows):
        newest.append(i if not newest or row.day >= rows[newest[-1]].day else newest[-1])
    return Curves(np.array([row.available_ns for row in rows], dtype=np.int64), np.array(newest, dtype=np.int64), rows)


def curves_of_days(view: View, first: date, last: date) -> Sequence[RateRow]:
    """Curves of the days [first, last] as known now, by day; of a curve that was corrected, its last version."""
    published = sorted(view.rates(first, last), key=lambda row: (row.day, row.available_ns))
    return list({row.day: row for row in published}.values())
