"""A market for the supervised baselines: the small random one with names that never move."""

from __future__ import annotations

from dataclasses import replace

from ktdeval.market import MarketSnapshot
from ktdeval.testing import small_market
from ktdeval_qlib.samples import SegmentDays, Segments

PRICES = ("open", "high", "low", "close")
FROZEN = (10, 11)  #: columns whose price is the same on every day
SEGMENTS = Segments(
    SegmentDays("2008-01-01", "2024-02-07"),
    SegmentDays("2024-02-08", "2024-03-08"),
    SegmentDays("2024-03-11", "2026-04-10"),
)


def baseline_market() -> MarketSnapshot:
    """About 310 days of 48 names, of which 60 have all factors: suspensions, a split, a late
    listing, index changes.
    """
    market = small_market()
    arrays = {name: getattr(market, name).copy() for name in PRICES}

    for array in arrays.values():
        array[:, list(FROZEN)] = 10.0

    return replace(market, **arrays)
