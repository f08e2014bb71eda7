"""Episodes that benchmarks play on a market."""

from __future__ import annotations

from pathlib import Path

from ktdeval.harness.chat_messages import Model
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.trading_task import Task
from ktdeval.trading.market_tape import MarketTape
from ktdeval_builtin.react import ReactAgent

PLUGINS = load_plugins()


def market_of(data: str) -> MarketSnapshot:
    """Open the synthetic market, or a snapshot's folder."""
    if data == "synthetic":
        return open_snapshot(PLUGINS, "synthetic", {})
    return load_snapshot(Path(data))


def spec_under(
    task: Task, window: Window, key: int, seed: int = 0, model: str = "informed"
) -> EpisodeSpec:
    """Return the spec of an episode of a task, of no stored market. `key`: the mask key, as a
    number.
    """
    return EpisodeSpec(
        task=task.name,
        task_version=task.version,
        task_hash="0",
        snapshot="0",
        mask=task.mask,
        mode=task.mode,
        window=window,
        model=model,
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
        mask_key=f"{key:032x}",
    )


def begin_episode(
    task: Task, market: MarketSnapshot, model: Model, window: Window, key: int, seed: int = 0
) -> TradingEpisodeRun:
    """Return an episode of a task at its beginning. `key`: the mask key, as a number."""
    spec = spec_under(task, window, key, seed)
    tape = MarketTape.from_snapshot(market, task.trading)
    tools = PLUGINS.tools(task.tools)
    return TradingEpisodeRun(spec, EpisodeParts(task, tools, market, tape, model, ReactAgent()))


def total_return(episode: TradingEpisodeRun, initial_minor: int) -> float:
    """Play an episode; return its return as a fraction."""
    for step in range(episode.total_steps):
        record = episode.run_step(step).step

    return record.nav_minor / initial_minor - 1.0
