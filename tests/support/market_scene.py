"""A task on a market as an episode has it."""

from __future__ import annotations

from typing import Any

from ktdeval.contracts import EpisodeSpec, Window
from ktdeval.market import MarketSnapshot


def market_scene(task: Any, market: MarketSnapshot, window: Window, seed: int = 0) -> Any:
    """The scene of an episode of a window."""
    spec = EpisodeSpec(
        task=task.name, task_version="1", task_hash="", snapshot="0" * 64, mask=task.mask, mode="market", window=window,
        model="builtin/hold", model_args={}, agent="react", agent_args={}, seed=seed,
    )  # fmt: skip
    return task.scene(spec, market)
