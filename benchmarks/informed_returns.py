"""The file of what informed traders earned (`informed_returns.csv`), and the tables made of it."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from scipy import stats

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True)
class Row:
    """What a trader earned in a window of a task."""

    task: str
    trader: str
    window: str
    return_pct: float
    day_found: str  #: over all windows, in words
    labels_named: str


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file of returns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        writer.writerows(astuple(row) for row in rows)


def read_rows(path: Path = FILE) -> list[Row]:
    """Read a file of returns."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(**{**row, "return_pct": float(row["return_pct"])}) for row in csv.DictReader(file)
        ]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Earned:
    """A mean over windows in per cent, with Student's 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, returns: Sequence[float]) -> Earned:
        """Summarise returns."""
        count = len(returns)
        mean = float(np.mean(returns))
        half = float(stats.t.ppf(0.975, count - 1) * np.std(returns, ddof=1) / math.sqrt(count))
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        digits = 0 if abs(self.mean) >= 100 else 1
        mean, low, high = (_signed(value, digits) for value in (self.mean, self.low, self.high))
        return f"{mean} % ({low} … {high})"


def _signed(value: float, digits: int) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−")


def earned(rows: Sequence[Row], task: str, trader: str) -> Earned:
    """What a trader earned in a task."""
    return Earned.of([row.return_pct for row in rows if (row.task, row.trader) == (task, trader)])


def best_attacker(rows: Sequence[Row], task: str) -> Row:
    """A row of the trader that looks up and earned most on average in a task."""
    traders = {row.trader: row for row in rows if row.task == task and "informed" in row.trader}
    return max(traders.values(), key=lambda row: earned(rows, task, row.trader).mean)
