"""Environments of one asset over drawn windows, in the market of a venue; what they return, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.market import MarketSnapshot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.task_api import Window
from ktdeval_gym.single_asset_env import prior_scale
from ktdeval_gym.single_asset_simulation import AssetMarket, TradingSimulation

LOOKBACK = 5


def market_of(task: str, data: str, venue: str | None = None) -> AssetMarket:
    """The market of a task's asset, at another venue if one is named."""
    plugins = load_plugins()
    snapshot = open_snapshot(plugins, data, {})
    if venue is not None:
        snapshot = at_venue(snapshot, venue)
    return AssetMarket.of(plugins.make_task(task), snapshot)


def at_venue(snapshot: MarketSnapshot, venue: str) -> MarketSnapshot:
    """A snapshot whose instruments all trade at one venue."""
    rules = load_plugins().venues()[venue]
    instruments = tuple(replace(each, venue=venue) for each in snapshot.instruments)
    return replace(snapshot, instruments=instruments, rules={venue: rules})


def drawn_windows(market: AssetMarket, seed: int, number: int) -> list[Window]:
    """Windows of 3 to 24 days with trade, from a seed."""
    rng = np.random.default_rng(seed)
    days = market.snapshot.days[market.traded]
    windows = []
    for _ in range(number):
        first = int(rng.integers(15, len(days) - 30))
        last = first + int(rng.integers(3, 25))
        windows.append(Window("drawn", str(days[first]), str(days[last])))
    return windows


def simulations(market: AssetMarket, windows: Sequence[Window]) -> list[TradingSimulation]:
    """A simulation for each window, each with a scale of returns before it."""
    task, snapshot = market.task, market.snapshot
    return [
        TradingSimulation(task, snapshot, window, LOOKBACK, prior_scale(market, window), market)
        for window in windows
    ]


def as_bytes(value: Any) -> Any:
    """An array or number as bytes; arrays by name as bytes by name."""
    if isinstance(value, dict):
        return {name: np.asarray(array).tobytes() for name, array in value.items()}
    return np.asarray(value).tobytes()
