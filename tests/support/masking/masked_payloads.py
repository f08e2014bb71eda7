"""Payloads of one stock and day as a model gets them from the three research tools, under any
mask.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.registry import load_plugins
from ktdeval.trading.types import Account
from ktdeval_ktdfin.step_view import EpisodeStage, ResearchStep
from ktdeval_ktdfin.tools import get_market_context, get_stock_snapshot, screen_candidates

TASK = load_plugins().make_task("blinded_open_research")


class Masked:
    """One market under one mask, from a first decision day on."""

    def __init__(
        self, market: MarketSnapshot, mask: MaskConfig, base_row: int, seed: int = 1
    ) -> None:
        self.market = market
        self.base_row = base_row
        self.lens = Lens(mask, seed, market, base_row)
        self.stage = EpisodeStage.open(market, self.lens, (TASK.harness, TASK.trading))

    def step(self, row: int, account: Account | None = None) -> ResearchStep:
        return ResearchStep(
            self.stage, row - self.base_row, self.market.as_of(row), account or Account(10**8, {})
        )

    def shown(self, payload: Any) -> Any:
        """What a model reads."""
        return json.loads(self.lens.render_text(payload))

    def snapshot(self, row: int, asset: int, lookback: int = 20) -> Any:
        return self.shown(get_stock_snapshot(self.step(row), asset, lookback))

    def payload(self, row: int, asset: int, lookback: int = 20) -> dict[str, Any]:
        step = self.step(row)
        return {
            "market_context": self.shown(get_market_context(step)),
            "screen": self.shown(screen_candidates(step, ["MOM_12_1", "-RV_60"], 20)),
            "snapshot": self.shown(get_stock_snapshot(step, asset, lookback)),
        }


def drawn(
    market: MarketSnapshot, count: int, seed: int = 0, first: int = 255
) -> list[tuple[int, int, int]]:
    """Random (base row, row, asset): an episode's start, a day up to 40 days later, an index member
    that has traded.
    """
    rng = np.random.default_rng(seed)
    made = []

    for _ in range(count):
        base = int(rng.integers(first, len(market.days) - 41))
        row = base + int(rng.integers(0, 41))
        pool = np.flatnonzero(market.member[row] & np.isfinite(market.close[: row + 1]).any(axis=0))
        made.append((base, row, int(rng.choice(pool))))

    return made


def table(of: Any) -> list[dict[str, Any]]:
    """The rows of a shown table."""
    return [dict(zip(of["columns"], row, strict=True)) for row in of["rows"]]
