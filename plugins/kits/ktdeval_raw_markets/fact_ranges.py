"""Ranges of stylised facts in real markets, from `fact_ranges.csv`, which also has their
sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ktdeval.values import csv_rows


@dataclass(frozen=True, slots=True)
class FactRange:
    """Range of a fact according to one source. `kind`: kind of asset, such as `stock`."""

    fact: str
    kind: str
    low: float
    high: float
    #: the range is for samples with fewer days than this; None: for any number of days
    most_days: int | None
    basis: str  #: description of what the range covers
    source: str

    @property
    def words(self) -> str:
        """Source of the range and its basis."""
        return f"{self.source} ({self.basis})"


def _read_range(row: Mapping[str, str]) -> FactRange:
    ends = float(row["low"]), float(row["high"])
    most_days = int(row["most_days"]) if row["most_days"] else None
    return FactRange(row["fact"], row["kind"], *ends, most_days, row["basis"], row["source"])


RANGES = tuple(map(_read_range, csv_rows(Path(__file__).with_name("fact_ranges.csv"))))
