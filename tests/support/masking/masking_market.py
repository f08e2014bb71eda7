"""A market with names of every kind, for the tests of masks. Its prices mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig, MaskKind
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    IndexLevel,
    Price,
    SectorRef,
    Shares,
)
from ktdeval.testing.markets import SnapshotDetails, tiny_snapshot

NAMES = {
    "000001.SZ": ("平安银行", "银行"),
    "000002.SZ": ("万科Ａ", "全国地产"),
    "002304.SZ": ("Ocean Blue Brewery", "White Spirits"),
    "300750.SZ": ("宁德时代", "电气设备"),
    "600000.SH": ("Lunthra Veskol 12", "Grevix Works"),
    "600519.SH": ("五 粮 甲", "白酒"),
    "600837.SH": ("*ST海甲", "证券"),
    "688981.SH": ("Quillmark", "半导体"),
    "830799.BJ": ("TCL科技", "unknown"),
}
CODES = tuple(sorted(NAMES))
INDEX_CODE = "000300.SH"
N_DAYS = 40
BASE_ROW = 20


def market() -> MarketSnapshot:
    """Nine assets, forty weekdays from 2024-01-02, an index at 3,000 and rising; 600837.SH has no
    bar in the first thirty.
    """
    rng = np.random.default_rng(5)
    closes: dict[str, list[float | None]] = {}

    for code in CODES:
        closes[code] = [round(float(x), 2) for x in 5 + 200 * rng.random(N_DAYS)]

    closes["600837.SH"] = [None] * 30 + closes["600837.SH"][30:]
    volumes = {code: (100.0 * rng.integers(1, 10**6, N_DAYS)).tolist() for code in CODES}
    snapshot = tiny_snapshot(closes, SnapshotDetails(volumes=volumes))
    levels = 3000.0 + 7.0 * np.arange(N_DAYS)

    return replace(
        snapshot,
        meta=replace(snapshot.meta, benchmark=INDEX_CODE),
        names=tuple(NAMES[code][0] for code in CODES),
        industries=tuple(NAMES[code][1] for code in CODES),
        indices={INDEX_CODE: levels},
        index_names={INDEX_CODE: "CSI300"},
    )


MARKET = market()


def lens_of(kind: MaskKind, seed: int = 1, rebase_prices: bool = False) -> Lens:
    return Lens(MaskConfig(kind, rebase_prices), seed, MARKET, BASE_ROW)


def guard_of(kind: MaskKind) -> LeakGuard:
    return LeakGuard(lens_of(kind), MARKET)


_ASSETS = st.integers(0, len(CODES) - 1)


def fields(last_row: int = N_DAYS - 1) -> st.SearchStrategy[Any]:
    """One payload field of any type, about days up to `last_row`."""
    return st.one_of(
        *(st.builds(kind, _ASSETS) for kind in (AssetRef, AssetName)),
        st.builds(DayRef, st.integers(0, last_row)),
        st.builds(SectorRef, st.sampled_from(MARKET.industries)),
        st.builds(Price, _ASSETS, st.floats()),
        st.builds(Shares, _ASSETS, st.integers(0, 10**10) | st.floats(0, 1e9)),
        st.builds(IndexLevel, st.just(INDEX_CODE), st.floats(0, 1e5)),
    )
