"""Episodes of KTD-Fin on the small market, and that market with other days to come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.task_api.episode_spec import EpisodeSpec, Window

FIRST = "2024-03-01"
LAST = "2024-03-29"


def poisoned(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """The same market with every value after `row` replaced by garbage."""

    def spoil(values: np.ndarray) -> np.ndarray:
        spoiled = values.copy()
        spoiled[row + 1 :] = 7.77 if values.dtype == np.float64 else ~values[row + 1 :]
        return spoiled

    fields = {
        name: spoil(getattr(market, name))
        for name in ("open", "high", "low", "close", "volume", "amount", "member")
    }
    factor = market.factor.copy()
    factor[row + 1 :] *= 1.7  # garbage that the executor still takes: it refuses factors that leap

    return replace(
        market,
        **fields,
        factor=factor,
        indices={code: spoil(levels) for code, levels in market.indices.items()},
    )


def spec_of(
    task: str, mask: str, mode: str, seed: int = 0, model: str = "builtin/momentum"
) -> EpisodeSpec:
    """An episode on the small market."""
    return EpisodeSpec(
        task=task,
        task_version="1",
        task_hash="0",
        snapshot="0",
        mask=mask,
        mode=mode,
        window=Window("W", FIRST, LAST),
        model=model,
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
    )


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a table payload by column."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
