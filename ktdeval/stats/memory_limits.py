"""Smallest memory that a number of windows can detect by comparing bright with blinded runs. The
limits were measured with `builtin/memory` on the embedded market. `benchmarks/detection_limit.py`
generates the table, and docs/detection.md explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ktdeval.values.disk.files import csv_rows


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Smallest fraction of remembered facts that this number of windows detects with probability
    0.8 at significance level 0.05.
    """

    family: str  #: task family used in the measurement
    days: int  #: length in days of the shortest window in the measurement
    windows: int
    effective: float  #: effective number of windows that share no days
    limit: float | None  #: smallest detected fraction; None: even complete memory is not detected
    low: float | None  #: low end of the 95 % interval
    high: float | None  #: high end of the 95 % interval; None: may be beyond complete memory


def memory_limits() -> list[MemoryLimit]:
    """Return the table, by family and number of windows."""
    rows = csv_rows(Path(__file__).with_name("memory_limits.csv"))
    return [
        MemoryLimit(
            family=row["family"],
            days=int(row["days"]),
            windows=int(row["windows"]),
            effective=float(row["effective"]),
            limit=_share(row["limit"]),
            low=_share(row["low"]),
            high=_share(row["high"]),
        )
        for row in rows
    ]


def _share(text: str) -> float | None:
    return float(text) if text else None
