"""Treasury curve of each day, and shares of each stock that can be borrowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval_qfinzero.data.rows import TENOR_YEARS, BorrowRow, FloatArray, RateRow
from ktdeval_qfinzero.data.synthetic.corporate import Life
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, stream
from ktdeval_qfinzero.data.synthetic.macro import Reading, policy_rate, rate_changes
from ktdeval_qfinzero.data.synthetic.names import Size
from ktdeval_qfinzero.moments import DAY

_TENORS = np.array(list(TENOR_YEARS.values()))
_LENDABLE: dict[Size, int] = {"mega": 9_000_000, "large": 3_000_000, "mid": 600_000, "thin": 60_000}


@dataclass(frozen=True, eq=False)
class Curves:
    """Yields of each day."""

    percent: FloatArray  #: [D, 7] by tenor, to two decimals

    def before(self, row: FloatArray, years: FloatArray) -> FloatArray:
        """[n] yields as fractions, on the curve of the day before each row (the first day's own), interpolated in time."""
        day = np.maximum(row.astype(np.int64) - 1, 0)
        right = np.clip(np.searchsorted(_TENORS, years), 1, len(_TENORS) - 1)
        weight = np.clip((years - _TENORS[right - 1]) / (_TENORS[right] - _TENORS[right - 1]), 0.0, 1.0)
        found: FloatArray = (self.percent[day, right - 1] * (1.0 - weight) + self.percent[day, right] * weight) / 100.0
        return found


def draw_curves(seed: int, readings: Sequence[Reading], grid: Grid) -> Curves:
    """Return a curve from the policy rate to a long yield that wanders and takes the economic surprises."""
    rng = stream(seed, "rates")
    wander = 0.045 * rng.standard_normal(len(grid)) + rate_changes(readings, grid)
    long = np.empty(len(grid))
    level = 4.3
    for day in range(len(grid)):
        level += 0.01 * (4.3 - level) + wander[day]
        long[day] = level
    short = policy_rate(readings, grid) - 0.12
    pull = 1.0 - np.exp(-_TENORS / 2.2)
    hump = 0.35 * (_TENORS / 30.0) - 0.25 * np.exp(-((np.log(_TENORS / 2.0)) ** 2))
    noise = 0.01 * rng.standard_normal((len(grid), len(_TENORS)))
    percent = short[:, None] * (1.0 - pull) + long[:, None] * pull + hump + noise
    return Curves(np.round(np.maximum(percent, 0.05), 2))


def rate_rows(curves: Curves, grid: Grid) -> list[RateRow]:
    """Return each day's curve, published at six in the evening."""
    names = tuple(TENOR_YEARS)
    return [
        RateRow(day, dict(zip(names, curves.percent[row].tolist(), strict=True)), new_york(day, 18))
        for row, day in enumerate(grid.days)
    ]


def borrow_rows(seed: int, life: Life, grid: Grid) -> list[BorrowRow]:
    """Return what can be borrowed, said anew before the first session of each week: plenty and cheap, or little and dear."""
    rng = stream(seed, "borrow", life.stock.ticker)
    hard = life.stock.hard_to_borrow
    fee, rows = float(rng.uniform(600, 2_400)), []
    plenty = _LENDABLE[life.stock.size]
    week = None
    for row, day in enumerate(grid.days):
        fee *= float(np.exp(0.05 * rng.standard_normal()))
        luck = float(rng.random())
        this_week = day.isocalendar()[:2]
        if this_week == week or not life.first_row <= row <= life.last_row:
            continue
        week = this_week
        shares = int(plenty * (0.002 + 0.02 * luck if hard else 0.6 + 0.8 * luck)) // 100 * 100
        bps = round(float(np.clip(fee, 300, 9_000))) if hard else int(25 + 10 * (luck < 0.2))
        opened = int(grid.midnight_ns[0]) - DAY if row == 0 else new_york(day, 8)
        available = int(grid.open_ns[row]) if row == life.first_row > 0 else opened
        rows.append(BorrowRow(life.stock.ticker, available, shares, bps))
    if life.last_row < len(grid) - 1:
        rows.append(BorrowRow(life.stock.ticker, int(grid.close_ns[life.last_row]), 0, 0))
    return rows
