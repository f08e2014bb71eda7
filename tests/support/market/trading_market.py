"""Codes of each board, tables of figures, and parts of larger markets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import BAR_FIELDS, MarketSnapshot

CODES = {
    "main": "600001.SH",
    "main2": "000002.SZ",
    "chinext": "300003.SZ",
    "star": "688004.SH",
    "bse": "830005.BJ",
}


def grid(rows: Sequence[Sequence[float | None]]) -> np.ndarray:
    """[days, assets] floats; None is NaN."""
    return np.array(rows, dtype=float)


def part_of_market(market: MarketSnapshot, rows: int, columns: Sequence[int]) -> MarketSnapshot:
    """The first `rows` days of a market, of the assets in some columns."""
    grids = {name: getattr(market, name)[:rows, columns] for name in (*BAR_FIELDS, "member")}
    labels: dict[str, Any] = {}

    of_assets = ["codes", "names", "industries"]
    if market.instruments:
        of_assets.append("instruments")
    for name in of_assets:
        labels[name] = tuple(getattr(market, name)[column] for column in columns)

    return replace(
        market,
        id="",
        days=market.days[:rows],
        indices={code: levels[:rows] for code, levels in market.indices.items()},
        **labels,
        **grids,
    )
