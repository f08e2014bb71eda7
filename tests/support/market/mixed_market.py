"""Markets of several calendars, and the sessions of each asset as pandas has them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ktdeval.market import (
    Instrument,
    MarketSnapshot,
    SnapshotMeta,
    built_in_venues,
    find_venue,
    sessions,
    with_id,
)

FIELDS = ("open", "high", "low", "close", "volume", "amount", "factor")
ASIA = dataclasses.replace(find_venue("us_equity"), name="asia", calendar="XSHG")
DUST = dataclasses.replace(find_venue("crypto_spot"), name="dust", minimum_notional=0.0)
OWN_RULES = {"asia": ASIA, "dust": DUST}
RULES = {**built_in_venues(), **OWN_RULES}
_SUSPENDED = 7  # bars that the second asset of a calendar lacks, while the others trade


def of_each(counts: Mapping[str, int]) -> dict[str, str]:
    """Codes with their venues, so many of each venue."""
    venues = {}
    for venue, count in counts.items():
        for number in range(count):
            venues[f"Z{venue[0].upper()}{number:02d}"] = venue

    return venues


def mixed_market(
    venues: Mapping[str, str], first: str = "2024-01-02", last: str = "2025-06-30", seed: int = 0
) -> MarketSnapshot:
    """Random walks of some codes on the sessions of their venues, built-in ones or those of
    `OWN_RULES`. The first asset of a venue is split, the second one suspended for some sessions.
    """
    rng = np.random.default_rng(seed)
    calendars = {name: find_venue(name, RULES).calendar for name in set(venues.values())}
    days_of = {name: sessions(first, last, calendar) for name, calendar in calendars.items()}
    days = np.unique(np.concatenate(list(days_of.values())))
    frames: dict[str, pd.DataFrame] = {}
    before = Counter[str]()

    for code, venue in venues.items():
        bars = _bars(rng, days_of[venue], is_split=before[venue] == 0)
        if before[venue] == 1:
            start = len(bars) - 40
            bars = bars.drop(bars.index[start : start + _SUSPENDED])

        before[venue] += 1
        frames[code] = bars.reindex(days)

    codes = tuple(sorted(frames))
    grids = {
        name: np.column_stack([frames[code][name].to_numpy(np.float64) for code in codes])
        for name in FIELDS
    }
    grids["factor"] = pd.DataFrame(grids["factor"]).ffill().fillna(1.0).to_numpy()
    market = MarketSnapshot(
        meta=SnapshotMeta("mixed", "random walks on three calendars", True, True, ""),
        days=days,
        codes=codes,
        names=codes,
        industries=("unknown",) * len(codes),
        member=np.ones((len(days), len(codes)), dtype=bool),
        indices={},
        index_names={},
        instruments=tuple(_instrument(venues[code]) for code in codes),
        rules={name: rules for name, rules in OWN_RULES.items() if name in venues.values()},
        **grids,
    )
    return with_id(market)


def _instrument(venue: str) -> Instrument:
    rules = find_venue(venue, RULES)
    return Instrument("crypto" if rules.calendar == "24/7" else "stock", rules.currency, venue)


def _bars(rng: np.random.Generator, days: np.ndarray, is_split: bool) -> pd.DataFrame:
    count = len(days)
    adjusted = 50.0 * np.exp(np.cumsum(rng.normal(0.0, 0.02, count)))
    factor = np.ones(count)
    if is_split:
        factor[count - 30 :] = 2.0

    close = adjusted / factor
    opened = close * np.exp(rng.normal(0.0, 0.01, count))
    volume = rng.lognormal(12.0, 0.4, count) * factor
    return pd.DataFrame(
        {
            "open": opened,
            "high": np.maximum(opened, close) * 1.005,
            "low": np.minimum(opened, close) * 0.995,
            "close": close,
            "volume": volume,
            "amount": volume * close,
            "factor": factor,
        },
        index=days,
    )


def own_bars(market: MarketSnapshot, asset: int, row: int) -> pd.DataFrame:
    """The bars of an asset up to a row, on its own sessions alone, with the adjusted close."""
    table = pd.DataFrame(
        {name: getattr(market, name)[: row + 1, asset] for name in FIELDS},
        index=market.days[: row + 1],
    ).dropna(subset=["close"])
    table["adjusted"] = table["close"] * table["factor"]
    return table


def week_of(market: MarketSnapshot) -> list[int]:
    """Rows of the last eight days, each weekday among them."""
    return list(range(len(market.days) - 8, len(market.days)))
