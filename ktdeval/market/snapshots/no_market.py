"""A market without assets, for tasks that do not involve a market."""

from __future__ import annotations

import numpy as np

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.snapshot_facts import SnapshotMeta

_NOTHING = np.empty((1, 0))
NO_MARKET = MarketSnapshot(
    SnapshotMeta(name="none", source="no market", synthetic=False, has_factor=True, benchmark=""),
    days=np.zeros(1, "datetime64[D]"),
    codes=(),
    names=(),
    industries=(),
    open=_NOTHING,
    high=_NOTHING,
    low=_NOTHING,
    close=_NOTHING,
    volume=_NOTHING,
    amount=_NOTHING,
    factor=_NOTHING,
    member=np.empty((1, 0), dtype=bool),
    indices={"": np.ones(1)},
    index_names={},
)
"""Placeholder market for a task without a market: one day without assets, and no id."""
