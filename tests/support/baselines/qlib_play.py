"""Markets and samples for the supervised baselines: a reduced embedded market, and samples with a
planted signal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_qlib.samples import Samples, SegmentDays, Segments, SegmentSplit
from support.market.trading_market import part_of_market

TRAIN = "2023-06-15:2023-10-31"
VALID = "2023-11-01:2023-12-29"
TEST = "2024-01-02:2024-03-29"
WINDOW = "2024-01-02:2024-01-31"


@cache
def embedded() -> MarketSnapshot:
    return open_snapshot(load_plugins(), "synthetic", {})


def reduced(snapshot: MarketSnapshot, names: int = 40) -> MarketSnapshot:
    """The first names that are members throughout, up to the end of April 2024."""
    rows = int(np.searchsorted(snapshot.days, np.datetime64("2024-04-30"), side="right"))
    members = np.flatnonzero(snapshot.member[:rows].all(axis=0))[:names]
    return part_of_market(snapshot, rows, members.tolist())


def planted(
    lag: int = 0, strength: float = 0.7, names: int = 40, days: int = 190, seed: int = 3
) -> Samples:
    """Samples whose label is `strength` × the first factor of `lag` days ago + noise; all other
    factors are noise.
    """
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((days, names, 9))
    labels = rng.standard_normal((days, names)) * np.sqrt(1 - strength**2)
    labels[lag:] += strength * features[: days - lag, :, 0]
    calendar = np.arange("2020-01-01", "2030-01-01", dtype="datetime64[D]")[:days]
    parts = {"train": (60, days - 70), "valid": (days - 70, days - 35), "test": (days - 35, days)}
    wanted = {
        name: SegmentDays(str(calendar[first]), str(calendar[stop - 1]))
        for name, (first, stop) in parts.items()
    }
    labels[:60] = np.nan
    segments = Segments(**wanted)
    codes = tuple(f"S{number:03d}" for number in range(names))

    return Samples(
        SegmentSplit(segments, segments),
        "qlib",
        0,
        calendar,
        codes,
        features,
        np.ones((days, names), dtype=bool),
        labels * 0.02,
    )


def planted_market() -> MarketSnapshot:
    """The reduced market, in which a name earns on day t + 2, each day anew, by its place p of day
    t in CV_VOL (-1 the steadiest volume, 1 the least steady): 0.004 p, which attribution calls a
    style, and 0.008 (2 |p| - 1), which it calls selection.
    """
    market = reduced(embedded(), 60)
    exposure = factor_panel(market, range(len(market.days)))[FACTOR_NAMES.index("CV_VOL")]
    rank = exposure.argsort(axis=1).argsort(axis=1) * 2.0 / 59 - 1.0
    gain = np.where(np.isfinite(exposure), 0.004 * rank + 0.008 * (2.0 * np.abs(rank) - 1.0), 0.0)
    growth = np.ones_like(gain)
    growth[2:] = np.cumprod(1.0 + gain[:-2], axis=0)
    fields = ("open", "high", "low", "close", "amount")

    return replace(
        market, **{name: np.round(getattr(market, name) * growth, 2) for name in fields}, id=""
    )
