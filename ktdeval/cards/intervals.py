"""Intervals of one episode's figures, as its card gives them: days resampled in blocks, seeded by the episode itself."""

from __future__ import annotations

from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats.bootstrap import episode_intervals, episode_resampling
from ktdeval.trading.ledger import Ledger


def add_intervals(entry: dict[str, JsonValue], ledger: Ledger, snapshot: MarketSnapshot) -> dict[str, JsonValue]:
    """An episode's card entry with an `interval` beside each daily metric that has a value.

    Args:
        entry: from `episode_entry`; it is not changed.
        ledger: the episode.
        snapshot: the market it ran on.
    """
    intervals = episode_intervals(ledger, snapshot, episode_resampling(ledger))
    metrics = {
        name: {**metric, "interval": intervals[name].to_json()} if name in intervals and metric["value"] is not None else metric
        for name, metric in entry["metrics"].items()
    }
    return {**entry, "metrics": metrics}
